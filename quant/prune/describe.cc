#include "quant/prune/describe.h"

#include <algorithm>
#include <set>

#include "lib/ir/roles.h"

namespace infer {
namespace {

constexpr int64_t kGroupSizes[] = {2, 4, 8, 16};
constexpr std::pair<int64_t, int64_t> kBlockShapes[] = {{1, 2},  {2, 1}, {1, 4}, {4, 1},
                                                        {2, 2},  {1, 8}, {8, 1}, {1, 16},
                                                        {16, 1}, {4, 4}, {8, 8}, {16, 16}};
constexpr double kBlockZeros = 0.99;

/// Weights of a layer, as numbers that are 0 where the stored weights are.
struct SeenWeights {
  Tensor values;
  std::string name;
  bool quantized = false;
};

/// Codes less their zero points. nullopt: they are not constant.
std::optional<Tensor> Centred(const Node& dequantize) {
  const Value *codes = dequantize.input(0), *zero = dequantize.input(2);
  if (!codes || !codes->is_constant() || (zero && !zero->is_constant())) return std::nullopt;
  const Tensor& c = *codes->constant();
  std::vector<float> x = c.ToFloats();
  if (zero) {
    const std::vector<float> z = zero->constant()->ToFloats();
    if (z.size() == 1) {
      for (float& v : x) v -= z[0];
    } else if (zero->constant()->rank() == 1 && c.rank() > 0) {
      const auto axis = dequantize.Attr<int64_t>("axis");
      const auto at = static_cast<size_t>(axis < 0 ? axis + c.rank() : axis);
      if (at >= c.dims().size() || c.dims()[at] != static_cast<int64_t>(z.size()))
        return std::nullopt;
      size_t inner = 1;
      for (size_t a = at + 1; a < c.dims().size(); ++a) inner *= static_cast<size_t>(c.dims()[a]);
      for (size_t i = 0; i < x.size(); ++i) x[i] -= z[i / inner % z.size()];
    } else if (std::any_of(z.begin(), z.end(), [&](float v) { return v != z[0]; })) {
      return std::nullopt;  // a zero point per block
    } else {
      for (float& v : x) v -= z[0];
    }
  }
  return Tensor::Of<float>(c.dims(), x);
}

/// Codes of 8 bits that Cast and Mul by constant scales make numbers of (quant/convert/
/// cast_and_mul.h); nullptr: `v` is something else.
const Value* CodesOfProduct(const Value& v) {
  const Node* const mul = v.producer();
  if (!mul || !mul->Is("Mul")) return nullptr;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const Node* const cast = mul->input(i)->producer();
    if (cast && cast->Is("Cast") && cast->input(0)->is_constant() &&
        cast->input(0)->dtype() == DType::kI8 && mul->input(1 - i)->is_constant())
      return cast->input(0);
  }
  return nullptr;
}

std::optional<SeenWeights> Seen(const Node& node, size_t operand) {
  const Value* v = node.input(operand);
  if (!v || !v->type().is_tensor()) return std::nullopt;
  if (v->is_constant()) {
    if (!IsFloat(v->dtype())) return std::nullopt;
    return SeenWeights{*v->constant(), v->name(), false};
  }
  if (const Value* const codes = CodesOfProduct(*v))
    return SeenWeights{Tensor::Of<float>(codes->constant()->dims(), codes->constant()->ToFloats()),
                       codes->name(), true};
  const Node* from = DequantizeBefore(v);
  if (!from) return std::nullopt;
  auto centred = Centred(*from);
  if (!centred) return std::nullopt;
  return SeenWeights{*std::move(centred), from->input(0)->name(), true};
}

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

std::vector<LayerSparsity> DescribeSparsity(const Graph& g) {
  std::vector<LayerSparsity> layers;
  std::set<std::string> told;
  for (const auto& n : g.nodes())
    for (const size_t operand : {size_t{1}, size_t{2}}) {
      const auto seen = Seen(*n, operand);
      if (!seen || seen->values.num_elements() == 0) continue;
      const auto place = PlaceOf(*n, operand, seen->values.dims());
      if (!place || !told.insert(seen->name).second) continue;
      LayerSparsity s = SparsityOf(place->plane, place->Read(seen->values));
      s.op = n->op();
      s.name = n->name();
      for (const Value* v : n->outputs())
        if (s.name.empty() && v) s.name = v->name();
      s.weights = seen->name;
      s.quantized = seen->quantized;
      layers.push_back(std::move(s));
    }
  return layers;
}

}  // namespace infer
