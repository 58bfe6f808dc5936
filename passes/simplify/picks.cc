/// Columns that are picked from one tensor in many nodes and put side by side.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr size_t kMostColumns = size_t{1} << 16, kMostFactors = 8;

/// Some columns of x [rows, columns], or their product as one column.
struct Columns {
  Node *pick = nullptr, *product = nullptr;
  std::vector<int64_t> places;
  Value* x() const { return pick->input(0); }
  bool Joins(const Columns& o) const {
    return x() == o.x() && (product == nullptr) == (o.product == nullptr) &&
           (!product || places.size() == o.places.size());
  }
};

std::optional<Columns> PickedColumnsOf(const Value* v) {
  Columns c;
  if (!v || !v->has_one_use() || v->is_output() || !v->producer()) return std::nullopt;
  Node* n = v->producer();
  if (n->Is("ReduceProd")) {
    const auto axes = ConstantInts(*n, 1);
    if (n->Attr<int64_t>("keepdims") != 1 || !axes || axes->size() != 1 || RankOf(*v) != 2 ||
        ((*axes)[0] != 1 && (*axes)[0] != -1))
      return std::nullopt;
    c.product = n;
    v = n->input(0);
    if (!v->has_one_use() || v->is_output() || !v->producer()) return std::nullopt;
    n = v->producer();
  }
  if (!n->Is("ArrayFeatureExtractor", "ai.onnx.ml") || RankOf(*n->input(0)) != 2)
    return std::nullopt;
  c.pick = n;
  const auto places = ConstantInts(*n, 1);
  if (!places || places->empty()) return std::nullopt;
  c.places = *places;
  if (c.product && c.places.size() > kMostFactors) return std::nullopt;
  return c;
}

/// Operands of a Concat, those that are picked alike as one.
struct ColumnRun {
  size_t first = 0;
  std::vector<Columns> parts;  ///< empty: operand `first` as it is
};

std::vector<ColumnRun> RunsOf(const Node& concat) {
  std::vector<ColumnRun> runs;
  for (size_t i = 0; i < concat.inputs().size(); ++i) {
    auto c = PickedColumnsOf(concat.input(i));
    if (c && !runs.empty() && !runs.back().parts.empty() && runs.back().parts[0].Joins(*c)) {
      runs.back().parts.push_back(*std::move(c));
      continue;
    }
    runs.push_back({i, {}});
    if (c) runs.back().parts.push_back(*std::move(c));
  }
  return runs;
}

bool HasRun(const Value& root) {
  const Node& n = *root.producer();
  const auto axis = n.Attr<int64_t>("axis");
  if (RankOf(root) != 2 || (axis != 1 && axis != -1)) return false;
  const auto runs = RunsOf(n);
  return std::any_of(runs.begin(), runs.end(), [](const ColumnRun& r) {
    size_t columns = 0;
    for (const Columns& c : r.parts) columns += c.places.size();
    return r.parts.size() > 1 && columns <= kMostColumns;
  });
}

/// Factor `k` of all products side by side, or all columns where there are none.
Result<Value*> PickFactor(const ColumnRun& run, std::optional<size_t> k, PatchBuilder& b) {
  std::vector<int64_t> places;
  for (const Columns& c : run.parts) {
    const auto first = c.places.begin() + static_cast<ptrdiff_t>(k.value_or(0));
    places.insert(places.end(), first, k ? first + 1 : c.places.end());
  }
  // ONNX Runtime takes less time for this operator than for a Gather of single elements.
  return b("ai.onnx.ml::ArrayFeatureExtractor", {run.parts[0].x(), b.Ints(places)});
}

Result<Value*> PickRun(const ColumnRun& run, PatchBuilder& b) {
  for (const Columns& c : run.parts) {
    b.Cover(c.pick);
    if (c.product) b.Cover(c.product);
  }
  if (!run.parts[0].product) return PickFactor(run, std::nullopt, b);
  INFER_ASSIGN(Value * y, PickFactor(run, 0, b));
  for (size_t k = 1; k < run.parts[0].places.size(); ++k) {
    INFER_ASSIGN(Value * factor, PickFactor(run, k, b));
    INFER_ASSIGN(y, b("Mul", {y, factor}));
  }
  return y;
}

}  // namespace

Rule PickColumnsTogether() {
  Pattern root = Op("Concat", {})
                     .MoreInputs()
                     .Where("columns side by side that are picked alike from one tensor", HasRun);
  return {
      .name = "pick-columns-together",
      .doc =
          "Concat(ReduceProd(ArrayFeatureExtractor(x, a)), ReduceProd(ArrayFeatureExtractor(x, "
          "b)), ...) => Mul(ArrayFeatureExtractor(x, [a0, b0, ...]), ArrayFeatureExtractor(x, "
          "[a1, b1, ...])); without products one ArrayFeatureExtractor",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(root);
        std::vector<Value*> parts;
        for (const ColumnRun& run : RunsOf(n)) {
          Value* part = n.input(run.first);
          if (run.parts.size() > 1) {
            INFER_ASSIGN(part, PickRun(run, b));
          }
          parts.push_back(part);
        }
        if (parts.size() == 1) return parts[0];
        return b("Concat", std::move(parts), n.attrs());
      },
      .fires_on = {R"(graph g(x: f32[N,4], z: f32[N,1]) -> (y) { i = const i64[2] {0, 3}
              j = const i64[2] {2, 2}  k = const i64[1,2] {1, 0}  one = const i64[1] {1}
              a = ai.onnx.ml::ArrayFeatureExtractor(x, i)  p = ReduceProd(a, one)
              c = ai.onnx.ml::ArrayFeatureExtractor(x, j)  q = ReduceProd(c, one)
              d = ai.onnx.ml::ArrayFeatureExtractor(x, k)  r = ReduceProd(d, one)
              y = Concat(z, p, q, r) {axis=1} })",
                   R"(graph g(x: i64[N,4]) -> (y) { i = const i64[2] {0, 3}  j = const i64[1] {2}
              a = ai.onnx.ml::ArrayFeatureExtractor(x, i)
              c = ai.onnx.ml::ArrayFeatureExtractor(x, j)  y = Concat(a, c) {axis=-1} })"},
      .silent_on = {{R"(graph g(x: f32[N,4], z: f32[N,4]) -> (y) { i = const i64[2] {0, 3}
                       a = ai.onnx.ml::ArrayFeatureExtractor(x, i)
                       c = ai.onnx.ml::ArrayFeatureExtractor(z, i)  y = Concat(a, c) {axis=1} })",
                     "picked alike from one tensor"},
                    {R"(graph g(x: f32[N,4]) -> (y) { i = const i64[2] {0, 3}
                       a = ai.onnx.ml::ArrayFeatureExtractor(x, i)
                       c = ai.onnx.ml::ArrayFeatureExtractor(x, i)  y = Concat(a, c) {axis=0} })",
                     "picked alike from one tensor"}},
  };
}

}  // namespace infer
