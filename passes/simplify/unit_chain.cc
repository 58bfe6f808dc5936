/// Axes of one element that leave and come back: networks of single images give each layer its
/// batch of one and take it away again, and what stands between keeps transpositions and constants
/// from the layers.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

/// The axes that `n`, a Squeeze or an Unsqueeze, names in the longer of its two shapes.
std::optional<std::vector<int64_t>> NamedAxes(const Node& n, int rank) {
  const Value* const axes = n.input(1);
  if (!axes || !axes->is_constant()) return std::nullopt;
  std::vector<int64_t> all = axes->constant()->ToInts();
  for (int64_t& a : all) a += a < 0 ? rank : 0;
  std::sort(all.begin(), all.end());
  return all;
}

/// The one operand that is no constant, of an operator that may have further axes of one element
/// without being another; nullptr: none, or it is none of these.
Value* DataOf(const Node& n) {
  if (n.outputs().size() != 1 || !n.def().domain.empty() || n.inputs().empty() || !n.input(0) ||
      n.IsAny(Trait::kQuantize | Trait::kDequantize))
    return nullptr;
  const bool pads = n.Is("Pad") && n.inputs().size() <= 3;
  if (!pads && !n.Is(Trait::kUnary) && !n.Is(Trait::kElementwise)) return nullptr;
  Value* data = nullptr;
  for (Value* v : n.inputs()) {
    if (!v || v->is_constant()) continue;
    if (data) return nullptr;
    data = v;
  }
  if (!data || (!n.Is(Trait::kElementwise) && data != n.input(0))) return nullptr;
  return RankOf(*data) > 0 && RankOf(*n.output()) == RankOf(*data) ? data : nullptr;
}

/// The extents `dims`, which broadcast to so many axes, with axes of one element put in.
Dims Widened(Dims dims, int narrow, const std::vector<int64_t>& axes) {
  const size_t rank = dims.size();
  dims.insert(dims.begin(), static_cast<size_t>(narrow) - rank, 1);
  for (const int64_t a : axes) dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(a), 1);
  while (dims.size() > rank && dims[0] == 1) dims.erase(dims.begin());
  return dims;
}

/// The operands of `n` around `data`, with the axes put in.
std::vector<Value*> Operands(const Node& n, Value* data, const Value* narrow,
                             const std::vector<int64_t>& axes, PatchBuilder& b) {
  const int rank = RankOf(*narrow);
  std::vector<Value*> operands;
  for (size_t i = 0; i < n.inputs().size(); ++i) {
    Value* v = n.inputs()[i];
    if (v == narrow) {
      v = data;
    } else if (v && n.Is(Trait::kElementwise)) {
      const Tensor& t = *v->constant();
      const Dims dims = Widened(t.dims(), rank, axes);
      if (dims != t.dims()) v = b.Const(t.Reshaped(dims));
    } else if (v && i == 1 && n.Is("Pad")) {
      std::vector<int64_t> pads = v->constant()->ToInts();
      for (const int64_t a : axes) {
        pads.insert(pads.begin() + static_cast<std::ptrdiff_t>(pads.size() / 2) + a, 0);
        pads.insert(pads.begin() + a, 0);
      }
      v = b.Ints(pads);
    }
    operands.push_back(v);
  }
  return operands;
}

}  // namespace

Rule KeepUnitAxes() {
  Pattern last = Any(), root = Op("Unsqueeze", last).MoreInputs();
  return {
      .name = "keep-unit-axes",
      .doc =
          "Unsqueeze(f(Squeeze(x))) of the same axes => f(x), f element by element with constants, "
          "or Pad",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int rank = RankOf(*m[root]);
        const auto axes = NamedAxes(m.node(root), rank);
        if (!axes || rank < 0) return InvalidModel("needs axes that are constant");
        std::vector<Node*> chain;
        Value* at = m[last];
        while (at->producer() && !at->producer()->Is("Squeeze")) {
          Node* const n = at->producer();
          Value* const data = DataOf(*n);
          if (!data)
            return InvalidModel("needs operators that work element by element, with constants");
          if (at->is_output() || at->uses().size() != 1)
            return InvalidModel("needs values without other uses");
          chain.push_back(n);
          at = data;
        }
        Node* const squeeze = at->producer();
        if (!squeeze || chain.empty() || RankOf(*squeeze->input(0)) != rank ||
            NamedAxes(*squeeze, rank) != axes)
          return InvalidModel("needs axes that a Squeeze has taken away");
        Value* v = squeeze->input(0);
        for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
          const Node& n = **it;
          INFER_ASSIGN(v, b(n.def().name, Operands(n, v, DataOf(n), *axes, b), n.attrs()));
          b.Cover(*it);
        }
        return v;
      },
      .fires_on = {R"(graph g(x: f32[1,4,5,3]) -> (y) { a = const i64[1] {0}
                     s = Squeeze(x, a)  k = const f32[3] {1, 2, 3}  m = Mul(k, s)
                     r = Relu(m)  y = Unsqueeze(r, a) })",
                   R"(graph g(x: f32[4,1,5]) -> (y) { a = const i64[1] {1}
                     n = const i64[1] {-2}  s = Squeeze(x, n)  p = const i64[4] {0,2,0,1}
                     q = Pad(s, p)  c = const f32[4,8] ~1  t = Add(q, c)
                     y = Unsqueeze(t, a) })"},
      .silent_on = {{R"(graph g(x: f32[1,4,1]) -> (y) { a = const i64[1] {0}
                       c = const i64[1] {2}  s = Squeeze(x, a)  r = Relu(s)
                       y = Unsqueeze(r, c) })",
                     "axes that a Squeeze has taken away"},
                    {R"(graph g(x: f32[1,4,3]) -> (y) { a = const i64[1] {0}
                       s = Squeeze(x, a)  t = Softmax(s)  y = Unsqueeze(t, a) })",
                     "element by element"},
                    {R"(graph g(x: f32[1,4,3], z: f32[4,3]) -> (y) { a = const i64[1] {0}
                       s = Squeeze(x, a)  t = Add(s, z)  y = Unsqueeze(t, a) })",
                     "element by element"},
                    {R"(graph g(x: f32[1,4,3]) -> (y, r) { a = const i64[1] {0}
                       s = Squeeze(x, a)  r = Relu(s)  y = Unsqueeze(r, a) })",
                     "other uses"},
                    {R"(graph g(x: f32[1,4,3], a: i64[1]) -> (y) { c = const i64[1] {0}
                       s = Squeeze(x, c)  r = Relu(s)  y = Unsqueeze(r, a) })",
                     "axes that are constant"}},
  };
}

}  // namespace infer
