/// Columns that are picked from one tensor in many nodes and put side by side.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

constexpr size_t kMostColumns = size_t{1} << 16;

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
  // Below 0 is an error here, and counts from the end in a Gather.
  if (!places || places->empty() ||
      std::any_of(places->begin(), places->end(), [](int64_t p) { return p < 0; }))
    return std::nullopt;
  c.places = *places;
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

Result<Value*> GatherRun(const ColumnRun& run, PatchBuilder& b) {
  std::vector<int64_t> places;
  for (const Columns& c : run.parts) {
    places.insert(places.end(), c.places.begin(), c.places.end());
    b.Cover(c.pick);
    if (c.product) b.Cover(c.product);
  }
  Dims dims = {static_cast<int64_t>(places.size())};
  if (run.parts[0].product)
    dims = {static_cast<int64_t>(run.parts.size()),
            static_cast<int64_t>(run.parts[0].places.size())};
  INFER_ASSIGN(Value * y,
               b("Gather", {run.parts[0].x(), b.Const(Tensor::Of<int64_t>(dims, places))},
                 {{"axis", int64_t{1}}}));
  if (dims.size() == 1) return y;
  return b("ReduceProd", {y, b.Ints({2})}, {{"keepdims", int64_t{0}}});
}

}  // namespace

Rule GatherColumns() {
  Pattern root = Op("Concat", {})
                     .MoreInputs()
                     .Where("columns side by side that are picked alike from one tensor", HasRun);
  return {
      .name = "gather-columns",
      .doc =
          "Concat(ReduceProd(ArrayFeatureExtractor(x, a)), ReduceProd(ArrayFeatureExtractor(x, "
          "b)), ...) => ReduceProd(Gather(x, [a, b, ...])); the same without products",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(root);
        std::vector<Value*> parts;
        for (const ColumnRun& run : RunsOf(n)) {
          Value* part = n.input(run.first);
          if (run.parts.size() > 1) {
            INFER_ASSIGN(part, GatherRun(run, b));
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
