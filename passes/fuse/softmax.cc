/// Softmax written out: exp(x) / sum(exp(x)), with or without the largest element taken off.
#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// ReduceX(v) over one axis, which stays as 1.
Pattern Reduced(std::string_view op, const Pattern& v, const Pattern& axis) {
  return Op(op, v, axis).With("keepdims", int64_t{1});
}

constexpr const char* kSoftmaxBegin =
    "graph g(x: f32[N,4,5]) -> (y) { a = const i64[1] {-1}  b = const i64[1] {1} ";
std::string SoftmaxText(const char* rest) { return std::string(kSoftmaxBegin) + rest + " }"; }

AttrMap AxisOf(const Match& m, const Pattern& axis) {
  return {{"axis", m.tensor(axis).ToInts()[0]}};
}

}  // namespace

Rule FuseSoftmax() {
  Pattern x = Operand(), axis = Scalar();
  Pattern e = Op("Exp", x), sum = Reduced("ReduceSum", e, axis);
  return {
      .name = "fuse-softmax",
      .doc = "Exp(x) / ReduceSum(Exp(x)) => Softmax(x)",
      .match = OneOf({Op("Div", e, sum), Op("Mul", e, Op("Reciprocal", sum))}),
      .build = [=](const Match& m,
                   PatchBuilder& b) { return b("Softmax", {m[x]}, AxisOf(m, axis)); },
      .fires_on = {SoftmaxText("e = Exp(x) s = ReduceSum(e, b) y = Div(e, s)"),
                   SoftmaxText("m = ReduceMax(x, a) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, a) "
                               "y = Div(e, s)"),
                   SoftmaxText("e = Exp(x) s = ReduceSum(e, a) r = Reciprocal(s) y = Mul(r, e)")},
      .silent_on =
          {{SoftmaxText("e = Exp(x) s = ReduceSum(e, a) y = Div(s, e)"), "not a Exp"},
           {SoftmaxText("e = Exp(x) s = ReduceSum(e, a) {keepdims=0} k = const i64[3] {-1,4,1} "
                        "r = Reshape(s, k) y = Div(e, r)"),
            "not a ReduceSum"},
           {SoftmaxText("c = const i64[2] {1,2} e = Exp(x) s = ReduceSum(e, c) y = Div(e, s)"),
            "'c' is not one number"}},
  };
}

Rule RemoveSoftmaxShift() {
  Pattern x = Operand(), axis = Scalar();
  Pattern soft = Op("Softmax|LogSoftmax", Op("Sub", x, Reduced("ReduceMax", x, axis)));
  return {
      .name = "remove-softmax-shift",
      .doc = "Softmax|LogSoftmax(x - ReduceMax(x)) => Softmax|LogSoftmax(x), which takes it off",
      .match = soft,
      .when = {{"the maximum along the axis of the Softmax",
                [=](const Match& m) {
                  const int64_t a = m.tensor(axis).ToInts()[0], rank = RankOf(*m[x]),
                                own = m.node(soft).Attr<int64_t>("axis");
                  return (a < 0 ? a + rank : a) == (own < 0 ? own + rank : own);
                }}},
      .build =
          [=](const Match& m, PatchBuilder& b) {
            const Node& n = m.node(soft);
            return b(n.op(), {m[x]}, n.attrs());
          },
      .fires_on = {SoftmaxText("m = ReduceMax(x, b) d = Sub(x, m) y = Softmax(d) {axis=1}"),
                   SoftmaxText("m = ReduceMax(x, a) d = Sub(x, m) y = LogSoftmax(d) {axis=2}")},
      .silent_on = {{SoftmaxText("m = ReduceMax(x, b) d = Sub(x, m) y = Softmax(d) {axis=2}"),
                     "the maximum along the axis of the Softmax"},
                    {SoftmaxText("m = ReduceMin(x, a) d = Sub(x, m) y = Softmax(d) {axis=2}"),
                     "not a ReduceMax"}},
  };
}

Rule FuseLogSoftmax() {
  Pattern x = Operand(), axis = Scalar();
  Pattern soft = Op("Softmax", x);
  Pattern lse = OneOf(
      {Reduced("ReduceLogSumExp", x, axis), Op("Log", Reduced("ReduceSum", Op("Exp", x), axis))});
  return {
      .name = "fuse-logsoftmax",
      .doc = "Log(Softmax(x)), x - Log(ReduceSum(Exp(x))) => LogSoftmax(x)",
      .match = OneOf({Op("Log", soft), Op("Sub", x, lse)}),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        if (m.Has(soft)) return b("LogSoftmax", {m[x]}, m.node(soft).attrs());
        return b("LogSoftmax", {m[x]}, AxisOf(m, axis));
      },
      .fires_on = {"graph g(x: f32[N,5]) -> (y) { s = Softmax(x) {axis=1}  y = Log(s) }",
                   SoftmaxText("l = ReduceLogSumExp(x, a) y = Sub(x, l)"),
                   SoftmaxText("e = Exp(x) s = ReduceSum(e, b) l = Log(s) y = Sub(x, l)")},
      .silent_on = {{"graph g(x: f32[N,5]) -> (y, s) { s = Softmax(x)  y = Log(s) }",
                     "'s' has other uses"},
                    {SoftmaxText("l = ReduceLogSumExp(x, a) y = Sub(l, x)"),
                     "not a ReduceLogSumExp"}},
  };
}

}  // namespace infer
