#include "quant/prune/describe.h"

#include <algorithm>
#include <map>
#include <set>

#include "lib/ir/eval.h"
#include "lib/ir/roles.h"
#include "lib/ops/quantized/packed_weights.h"

namespace infer {
namespace {

constexpr int64_t kGroupSizes[] = {2, 4, 8, 16};
constexpr std::pair<int64_t, int64_t> kBlockShapes[] = {{1, 2}, {2, 1},  {1, 4},  {4, 1},  {2, 2},
                                                        {1, 8}, {8, 1},  {1, 16}, {16, 1}, {4, 4},
                                                        {8, 8}, {16, 4}, {16, 16}};
constexpr double kBlockZeros = 0.99;

/// Calls f(first weight, rows, columns) for blocks of this shape that tile the plane.
template <typename F>
void ForBlocks(const WeightPlane& plane, int64_t rows, int64_t columns, F f) {
  for (int64_t g = 0; g < plane.groups; ++g)
    for (int64_t r = 0; r < plane.rows; r += rows)
      for (int64_t t = 0; t < plane.taps; ++t)
        for (int64_t c = 0; c < plane.channels; c += columns)
          f((g * plane.rows + r) * plane.depth() + t * plane.channels + c,
            std::min(rows, plane.rows - r), std::min(columns, plane.channels - c));
}

int64_t ZerosOfBlock(const WeightPlane& plane, std::span<const float> w, int64_t at, int64_t rows,
                     int64_t columns) {
  int64_t zeros = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      zeros += w[static_cast<size_t>(at + r * plane.depth() + c)] == 0;
  return zeros;
}

void FindNm(const WeightPlane& plane, std::span<const float> w, LayerSparsity& s) {
  for (const int64_t m : kGroupSizes) {
    if (plane.channels < m) break;
    int64_t n = 0;
    ForBlocks(plane, 1, m, [&](int64_t at, int64_t, int64_t columns) {
      n = std::max(n, columns - ZerosOfBlock(plane, w, at, 1, columns));
    });
    if (4 * n <= 3 * m && (s.m == 0 || n * s.m < s.n * m)) {
      s.n = n;
      s.m = m;
    }
  }
}

void FindBlocks(const WeightPlane& plane, std::span<const float> w, LayerSparsity& s) {
  for (const auto& [rows, columns] : kBlockShapes) {
    if (plane.rows < rows || plane.channels < columns) continue;
    int64_t covered = 0;
    ForBlocks(plane, rows, columns, [&](int64_t at, int64_t r, int64_t c) {
      if (ZerosOfBlock(plane, w, at, r, c) == r * c) covered += r * c;
    });
    if (static_cast<double>(covered) < kBlockZeros * static_cast<double>(s.zeros)) continue;
    if (rows * columns < s.block_rows * s.block_columns) continue;
    s.block_rows = rows;
    s.block_columns = columns;
  }
}

/// Weights of a layer, as numbers that are 0 where the stored weights are.
struct SeenWeights {
  Tensor values;
  std::string name;
  bool quantized = false;
};

bool IsConstantOrNone(const Value* v) { return !v || v->is_constant(); }

/// Codes of 8 bits that Cast and Mul by constant scales make numbers of (quant/convert/
/// cast_and_mul.h); nullptr: `v` is something else.
const Value* CodesOfProduct(const Value& v) {
  const Node* const mul = v.producer();
  if (!mul || !mul->Is("Mul")) return nullptr;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node* const cast = mul->input(i)->producer();
    if (cast && IsCast(*cast) && cast->input(0)->is_constant() &&
        cast->input(0)->dtype() == DType::kI8 && mul->input(1 - i)->is_constant())
      return cast->input(0);
  }
  return nullptr;
}

/// The result of `node`, as f32, by its reference kernel from these operands; the others are
/// constant.
std::optional<Tensor> Made(const Node& node, const std::map<size_t, Datum>& given,
                           const OpRegistry& ops) {
  std::vector<Datum> held(node.inputs().size());
  std::vector<const Datum*> operands(node.inputs().size(), nullptr);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!node.input(i)) continue;
    const auto it = given.find(i);
    held[i] = it != given.end() ? it->second : Datum(*node.input(i)->constant());
    operands[i] = &held[i];
  }
  const auto made = EvaluateNode(node, operands, ops);
  if (!made.ok() || !made->front().is_tensor()) return std::nullopt;
  return made->front().tensor().Cast(DType::kF32);
}

/// Codes less their zero points: what they are dequantized to by scales of 1.
std::optional<Tensor> Centred(const Node& dequantize, const OpRegistry& ops) {
  const Value *const codes = dequantize.input(0), *const scale = dequantize.input(1);
  if (!codes->is_constant() || !scale->is_constant() || !IsConstantOrNone(dequantize.input(2)))
    return std::nullopt;
  const Tensor& s = *scale->constant();
  const std::vector<float> ones(static_cast<size_t>(s.num_elements()), 1.0f);
  return Made(dequantize, {{1, Tensor::Of<float>(s.dims(), ones).Cast(s.dtype())}}, ops);
}

/// Whether the node only moves the elements of input 0, or makes them another type.
bool Moves(const Node& node) {
  if (!node.IsAny(Trait::kView | Trait::kPermutation) && !IsCast(node)) return false;
  for (size_t i = 1; i < node.inputs().size(); ++i)
    if (!IsConstantOrNone(node.input(i))) return false;
  return node.subgraphs().empty();
}

/// The numbers of `v`: constant, dequantized, or moved behind that.
std::optional<SeenWeights> Seen(const Value& v, const OpRegistry& ops) {
  if (!v.type().is_tensor()) return std::nullopt;
  if (v.is_constant()) {
    if (!IsFloat(v.dtype())) return std::nullopt;
    return SeenWeights{*v.constant(), v.name(), false};
  }
  if (const Value* const codes = CodesOfProduct(v))
    return SeenWeights{codes->constant()->Cast(DType::kF32), codes->name(), true};
  if (const Node* const from = DequantizeBefore(&v)) {
    auto centred = Centred(*from, ops);
    if (!centred) return std::nullopt;
    return SeenWeights{*std::move(centred), from->input(0)->name(), true};
  }
  const Node* const from = v.producer();
  if (!from || from->output(0) != &v || !Moves(*from)) return std::nullopt;
  auto before = Seen(*from->input(0), ops);
  if (!before) return std::nullopt;
  auto moved = Made(*from, {{0, before->values.Cast(from->input(0)->dtype())}}, ops);
  if (!moved) return std::nullopt;
  return SeenWeights{*std::move(moved), std::move(before->name), before->quantized};
}

/// Finds the layers of a graph, each constant once.
class SparsityFinder {
 public:
  explicit SparsityFinder(const Graph& g) : g_(g) {}

  std::vector<LayerSparsity> Find() {
    for (const auto& n : g_.nodes()) {
      for (const size_t operand : {size_t{1}, size_t{2}})
        if (n->input(operand) && ReadsAsWeights({n.get(), operand}))
          if (const auto seen = Seen(*n->input(operand), g_.ops()))
            Add(*n, *seen, PlaceOf(*n, operand, seen->values.dims()));
      AddPacked(*n);
    }
    return std::move(layers_);
  }

 private:
  /// Of operators with weights in a form of their own.
  void AddPacked(const Node& n) {
    const auto packed = PackedWeightsOf(CallOf(n));
    if (!packed.ok()) return;
    for (const PackedWeights& w : *packed)
      Add(n, {w.numbers, n.input(w.operand)->name(), w.coded}, PlaceOf(w.layout, w.numbers.dims()));
  }

  void Add(const Node& n, const SeenWeights& seen, const std::optional<WeightPlace>& place) {
    if (!place || seen.values.num_elements() == 0 || !told_.insert(seen.name).second) return;
    LayerSparsity s = SparsityOf(place->plane, place->Read(seen.values));
    s.op = n.op();
    s.name = n.name();
    for (const Value* v : n.outputs())
      if (s.name.empty() && v) s.name = v->name();
    s.weights = seen.name;
    s.quantized = seen.quantized;
    layers_.push_back(std::move(s));
  }

  const Graph& g_;
  std::set<std::string> told_;
  std::vector<LayerSparsity> layers_;
};

}  // namespace

LayerSparsity SparsityOf(const WeightPlane& plane, std::span<const float> weights) {
  LayerSparsity s;
  s.plane = plane;
  s.count = plane.size();
  s.zeros = static_cast<int64_t>(std::count(weights.begin(), weights.end(), 0.0f));
  if (s.zeros == 0) return s;
  ForBlocks({1, plane.all_rows(), plane.depth(), 1}, 1, plane.depth(),
            [&](int64_t at, int64_t, int64_t columns) {
              s.zero_rows += ZerosOfBlock(plane, weights, at, 1, columns) == columns;
            });
  FindNm(plane, weights, s);
  FindBlocks(plane, weights, s);
  return s;
}

std::vector<LayerSparsity> DescribeSparsity(const Graph& g) { return SparsityFinder(g).Find(); }

}  // namespace infer
