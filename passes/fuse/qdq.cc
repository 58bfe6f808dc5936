/// Quantization around operators that only move elements, and bounds that it has anyway.
#include <algorithm>
#include <cmath>

#include "lib/support/strings.h"
#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

constexpr std::string_view kMoves =
    "Reshape|Transpose|Squeeze|Unsqueeze|Flatten|Slice|Gather|Identity|DepthToSpace|SpaceToDepth|"
    "Expand|Tile";
constexpr int kMaxDepth = 32;  // of moves above one QuantizeLinear

bool IsMove(const Node& n) {
  static const std::vector<std::string> names = Split(std::string(kMoves), '|');
  return n.def().domain.empty() && std::find(names.begin(), names.end(), n.op()) != names.end();
}

/// One scale and zero point for all elements.
bool IsPerTensor(const Node& n) {
  const Value *scale = n.input(1), *zero = n.input(2);
  const auto one = [](const Value& v) {
    return v.is_constant() && v.constant()->num_elements() == 1;
  };
  return scale && one(*scale) && (!zero || one(*zero));
}

/// Both map integers of one type to the same numbers.
bool SameQuantization(const Node& dequantize, const Node& quantize) {
  const Value &from = *dequantize.input(0), &to = *quantize.output();
  if (from.dtype() != to.dtype()) return false;
  const auto same = [](const Value* a, const Value* b) {
    if (!a || !b) {  // omitted is zero
      const Value* other = a ? a : b;
      return !other || (other->is_constant() && IsNumber(*other->constant(), 0));
    }
    return a == b ||
           (a->is_constant() && b->is_constant() && BitEqual(*a->constant(), *b->constant()));
  };
  return same(dequantize.input(1), quantize.input(1)) &&
         same(dequantize.input(2), quantize.input(2));
}

/// `v` on integers, where it is moved from results of DequantizeLinear that undo `quantize`.
/// nullptr where it is not. Builds nothing unless `b` is given.
struct OnIntegers {
  const Node& quantize;
  PatchBuilder* b = nullptr;
  int moves = 0;

  Result<Value*> operator()(Value* v, int depth = 0) {
    Node* n = v->producer();
    if (!n || depth > kMaxDepth) return nullptr;
    if (n->Is(Trait::kDequantize)) {
      if (!IsPerTensor(*n) || !SameQuantization(*n, quantize)) return nullptr;
      if (b && v->has_one_use()) b->Cover(n);
      return n->input(0);
    }
    const bool concat = n->Is(Trait::kConcatenation);
    if ((!concat && !IsMove(*n)) || !v->has_one_use()) return nullptr;
    std::vector<Value*> operands = n->inputs();
    for (size_t i = 0; i < (concat ? operands.size() : 1); ++i) {
      INFER_ASSIGN(operands[i], (*this)(operands[i], depth + 1));
      if (!operands[i]) return nullptr;
    }
    ++moves;
    if (!b) return operands[0];
    b->Cover(n);
    return (*b)(n->op(), std::move(operands), n->attrs());
  }
};

bool IsOnIntegers(const Value& root) {
  const Node& n = *root.producer();
  if (!IsPerTensor(n) || !n.input(0)->producer()) return false;
  OnIntegers check{n};
  const auto found = check(n.input(0));
  return found.ok() && *found;
}

/// The least and largest numbers that `quantize` can say, with an eye to rounding: everything
/// beyond them becomes the same integer.
std::optional<std::pair<double, double>> RangeOf(const Node& quantize) {
  if (!IsPerTensor(quantize)) return std::nullopt;
  double low = 0, high = 0;
  switch (quantize.output()->dtype()) {
    case DType::kU8: high = 255; break;
    case DType::kI8: low = -128, high = 127; break;
    case DType::kU16: high = 65535; break;
    case DType::kI16: low = -32768, high = 32767; break;
    default: return std::nullopt;
  }
  const double scale = quantize.input(1)->constant()->At(0);
  const double zero = quantize.input(2) ? quantize.input(2)->constant()->At(0) : 0;
  if (!(scale > 0)) return std::nullopt;
  return std::pair((low - zero) * scale, (high - zero) * scale);
}

}  // namespace

Rule MoveOnIntegers() {
  Pattern root = Op("QuantizeLinear", Any(), Constant())
                     .MoreInputs()
                     .Where("quantized as what moved there was, by constants for the whole tensor",
                            IsOnIntegers);
  return {
      .name = "move-on-integers",
      .doc =
          "Quantize(Reshape|Transpose|Slice|Concat|...(Dequantize(q))) with the same scale => "
          "the move of q",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        OnIntegers build{m.node(root), &b};
        return build(m.node(root).input(0));
      },
      .fires_on = {R"(graph g(q: u8[N,3]) -> (y) { s = const f32[] {0.1}  z = const u8[] {7}
              t = DequantizeLinear(q, s, z)  y = QuantizeLinear(t, s, z) })",
                   R"(graph g(q: i8[2,3,4]) -> (y, w) { s = const f32[] {0.1}  z = const i8[] {0}
              r = const i64[2] {6,-1}  t = DequantizeLinear(q, s)  w = Relu(t)
              u = Transpose(t) {perm=[1,0,2]}  v = Reshape(u, r)  y = QuantizeLinear(v, s, z) })",
                   R"(graph g(q: u8[2,3], p: u8[2,5]) -> (y) { s = const f32[] {0.1}
              z = const u8[] {7}  e = const i64[1] {4}  b = const i64[1] {1}
              t = DequantizeLinear(q, s, z)  u = DequantizeLinear(p, s, z)
              v = Slice(u, b, e, b)  c = Concat(t, v) {axis=1}  y = QuantizeLinear(c, s, z) })"},
      .silent_on = {{R"(graph g(q: u8[N,3]) -> (y) { s = const f32[] {0.1}  r = const f32[] {0.2}
               z = const u8[] {7}  t = DequantizeLinear(q, s, z)  y = QuantizeLinear(t, r, z) })",
                     "quantized as what moved there was"},
                    {R"(graph g(q: u8[N,3]) -> (y) { s = const f32[] {0.1}  z = const u8[] {7}
               k = const i8[] {7}  t = DequantizeLinear(q, s, z)  y = QuantizeLinear(t, s, k) })",
                     "quantized as what moved there was"},
                    {R"(graph g(q: u8[N,3]) -> (y) { s = const f32[3] {0.1,0.2,0.3}
               z = const u8[3] {7,7,7}  t = DequantizeLinear(q, s, z) {axis=1}
               u = Transpose(t)  y = QuantizeLinear(u, s, z) {axis=0} })",
                     "for the whole tensor"},
                    {R"(graph g(q: u8[N,3]) -> (y, u) { s = const f32[] {0.1}  z = const u8[] {7}
               t = DequantizeLinear(q, s, z)  u = Transpose(t)  y = QuantizeLinear(u, s, z) })",
                     "quantized as what moved there was"},
                    {R"(graph g(q: u8[2,3], p: f32[2,5]) -> (y) { s = const f32[] {0.1}
               z = const u8[] {7}  t = DequantizeLinear(q, s, z)  c = Concat(t, p) {axis=1}
               y = QuantizeLinear(c, s, z) })",
                     "quantized as what moved there was"}},
  };
}

Rule DropBoundBeforeQuantize() {
  Pattern x = Any(), lo = Scalar().OrOmitted(), hi = Scalar().OrOmitted();
  Pattern relu = Op("Relu", x), clip = Op("Clip", x, lo, hi), bound = OneOf({relu, clip});
  Pattern root = Op("QuantizeLinear", bound, Scalar()).MoreInputs();
  return {
      .name = "drop-bound-before-quantize",
      .doc = "Quantize(Relu|Clip(x)) whose range ends there anyway => Quantize(x)",
      .match = root,
      .when = {{"a range of integers within the bounds",
                [=](const Match& m) {
                  const auto range = RangeOf(m.node(root));
                  if (!range) return false;
                  if (m.choice(bound) == 0) return range->first >= 0;
                  return (!m.Has(lo) || m.scalar(lo) <= range->first) &&
                         (!m.Has(hi) || m.scalar(hi) >= range->second);
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(root);
        return b("QuantizeLinear", {m[x], n.input(1), n.input(2)}, n.attrs());
      },
      .fires_on = {R"(graph g(x: f32[N,3]) -> (y) { s = const f32[] {0.1}  z = const i8[] {-128}
                     t = Relu(x)  y = QuantizeLinear(t, s, z) })",
                   R"(graph g(x: f32[N,3]) -> (y) { s = const f32[] {0.01}  z = const u8[] {0}
                     l = const f32[] {0}  h = const f32[] {6}
                     t = Clip(x, l, h)  y = QuantizeLinear(t, s, z) })",
                   R"(graph g(x: f32[N,3]) -> (y) { s = const f32[] {0.01}  t = Relu(x)
                     y = QuantizeLinear(t, s) })"},
      .silent_on = {{R"(graph g(x: f32[N,3]) -> (y) { s = const f32[] {0.1}  z = const i8[] {0}
                       t = Relu(x)  y = QuantizeLinear(t, s, z) })",
                     "a range of integers within the bounds"},
                    {R"(graph g(x: f32[N,3]) -> (y) { s = const f32[] {0.1}  z = const u8[] {0}
                       l = const f32[] {0}  h = const f32[] {6}
                       t = Clip(x, l, h)  y = QuantizeLinear(t, s, z) })",
                     "a range of integers within the bounds"},
                    {R"(graph g(x: f32[N,3]) -> (y, t) { s = const f32[] {0.1}  z = const u8[] {0}
                       t = Relu(x)  y = QuantizeLinear(t, s, z) })",
                     "'t' has other uses"}},
  };
}

Rule GatherBeforeDequantize() {
  Pattern table = Constant(), indices = Any();
  Pattern dequantize = Op("DequantizeLinear", table, Constant())
                           .MoreInputs()
                           .Where("by one constant for the whole tensor",
                                  [](const Value& v) { return IsPerTensor(*v.producer()); });
  Pattern root = Op("Gather", dequantize, indices);
  return {
      .name = "gather-before-dequantize",
      .doc = "Gather(Dequantize(table), i) => Dequantize(Gather(table, i))",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        INFER_ASSIGN(Value * rows, b("Gather", {m[table], m[indices]}, m.node(root).attrs()));
        const Node& n = m.node(dequantize);
        return b("DequantizeLinear", {rows, n.input(1), n.input(2)}, n.attrs());
      },
      .fires_on = {R"(graph g(i: i64[N,2]) -> (y) { q = const u8[4,3] {1,2,3,4,5,6,7,8,9,10,11,12}
                     s = const f32[] {0.1}  z = const u8[] {7}  t = DequantizeLinear(q, s, z)
                     y = Gather(t, i) })"},
      .silent_on = {{R"(graph g(i: i64[N,2]) -> (y) {
                       q = const u8[4,3] {1,2,3,4,5,6,7,8,9,10,11,12}
                       s = const f32[4] {0.1,0.2,0.3,0.4}  t = DequantizeLinear(q, s) {axis=0}
                       y = Gather(t, i) })",
                     "by one constant for the whole tensor"},
                    {R"(graph g(i: i64[N,2], q: u8[4,3]) -> (y) { s = const f32[] {0.1}
                       t = DequantizeLinear(q, s)  y = Gather(t, i) })",
                     "'q' is not a constant"}},
  };
}

}  // namespace infer
