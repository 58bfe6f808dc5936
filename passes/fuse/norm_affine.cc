/// Factors and terms per channel behind a normalization that has such operands of its own, and
/// batch normalization written as a product and a sum.
#include <cmath>

#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Instance, group and batch normalization with constant scale and bias.
struct ChannelNorm {
  Pattern x, scale = Constant(), bias = Constant(), mean, var;
  Pattern plain = Op("InstanceNormalization|GroupNormalization", x, scale, bias);
  Pattern batch =
      Op("BatchNormalization", x, scale, bias, mean, var).With("training_mode", int64_t{0});
  Pattern node = OneOf({plain, batch});

  /// The node with scale * k and bias * k + c.
  Result<Value*> Changed(const Match& m, const Tensor* k, const Tensor* c, double sign,
                         PatchBuilder& b) const {
    const Node& n = *m[node]->producer();
    const auto channels = m.tensor(scale).num_elements();
    const int rank = RankOf(*n.output());
    std::vector<double> s = ToDoubles(m.tensor(scale)), o = ToDoubles(m.tensor(bias));
    for (const Tensor* t : {k, c}) {
      if (!t) continue;
      const auto values = rank < 2 ? std::nullopt : PerIndex(*t, rank, 1, channels);
      if (!values) return InvalidModel("needs a constant with one number per channel");
      for (size_t i = 0; i < s.size(); ++i) {
        const double v = (*values)[i];
        if (t == c) {
          o[i] += sign * v;
        } else {
          s[i] *= v;
          o[i] *= v;
        }
      }
    }
    std::vector<Value*> operands = n.inputs();
    operands[1] = b.Const(FromDoubles(m.tensor(scale).dtype(), {channels}, s));
    operands[2] = b.Const(FromDoubles(m.tensor(bias).dtype(), {channels}, o));
    return b(n.op(), operands, n.attrs());
  }
};

constexpr const char* kAffineBegin = R"(graph g(x: f32[N,3,2]) -> (y) { s = const f32[3] ~1
  o = const f32[3] ~2  c = const f32[3,1] ~3  w = const f32[2] ~4  m = const f32[3] ~5
  v = const f32[3] {1,2,3} )";
std::string AffineText(const char* rest) { return std::string(kAffineBegin) + rest + " }"; }

}  // namespace

Rule FoldNormScale() {
  const ChannelNorm norm;
  Pattern k = Constant();
  return {
      .name = "fold-norm-scale",
      .doc = "Instance|Group|BatchNormalization(x, s, b) * k => the same with s*k, b*k",
      .match = Op("Mul", norm.node, k),
      .build = [=](const Match& m,
                   PatchBuilder& b) { return norm.Changed(m, &m.tensor(k), nullptr, 1, b); },
      .fires_on = {AffineText("t = InstanceNormalization(x, s, o) y = Mul(c, t)"),
                   AffineText("t = GroupNormalization(x, s, o) {num_groups=3} y = Mul(t, c)"),
                   AffineText("t = BatchNormalization(x, s, o, m, v) y = Mul(t, c)")},
      .silent_on = {{AffineText("t = InstanceNormalization(x, s, o) y = Mul(t, w)"),
                     "one number per channel"}},
  };
}

Rule FoldNormShift() {
  const ChannelNorm norm;
  Pattern c = Constant();
  Pattern sub = Op("Sub", norm.node, c);
  return {
      .name = "fold-norm-shift",
      .doc = "Instance|Group|BatchNormalization(x, s, b) + c, - c => the same with b + c, b - c",
      .match = OneOf({Op("Add", norm.node, c), sub}),
      .build =
          [=](const Match& m, PatchBuilder& b) {
            return norm.Changed(m, nullptr, &m.tensor(c), m.Has(sub) ? -1 : 1, b);
          },
      .fires_on = {AffineText("t = InstanceNormalization(x, s, o) y = Add(c, t)"),
                   AffineText("t = GroupNormalization(x, s, o) {num_groups=3} y = Sub(t, c)"),
                   AffineText("t = BatchNormalization(x, s, o, m, v) y = Add(t, c)")},
      .silent_on = {{AffineText("t = InstanceNormalization(x, s, o) y = Add(t, w)"),
                     "one number per channel"},
                    {AffineText("t = InstanceNormalization(x, s, o) y = Sub(c, t)"),
                     "not a InstanceNormalization"}},
  };
}

Rule FuseBatchNorm() {
  Pattern x = Any().Where("a tensor of known channels",
                          [](const Value& v) { return RankOf(v) >= 3 && StaticDim(v, 1); });
  // One number for all is no normalization.
  Pattern k = Constant().Where("one number per channel",
                               [](const Value& v) { return v.constant()->num_elements() > 1; });
  Pattern c = Constant(), before = Constant();
  Pattern centred = Op("Sub", x, before), scaled = Op("Mul", OneOf({centred, x}), k);
  Pattern sub = Op("Sub", scaled, c);
  const char* begin = R"(graph g(x: f32[N,3,2,2]) -> (y) { k = const f32[3,1,1] ~1
    c = const f32[1,3,1,1] ~2  m = const f32[3,1,1] ~3  w = const f32[2] ~4 )";
  const auto text = [=](const char* rest) { return std::string(begin) + rest + " }"; };
  return {
      .name = "fuse-batchnorm",
      .doc = "(x - m) * k + c with numbers per channel => BatchNormalization(x)",
      .match = OneOf({Op("Add", scaled, c), sub}),
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int rank = RankOf(*m[x]);
        const int64_t channels = StaticDim(*m[x], 1).value_or(1);
        const auto values = [&](const Pattern& p) {
          return PerIndex(m.tensor(p), rank, 1, channels);
        };
        auto factors = values(k), terms = values(c);
        auto means = m.Has(centred) ? values(before)
                                    : std::vector<double>(static_cast<size_t>(channels), 0.0);
        if (!factors || !terms || !means) return InvalidModel("needs one number per channel");
        if (m.Has(sub))
          for (double& v : *terms) v = -v;
        const auto vector = [&](const std::vector<double>& v) {
          return b.Const(FromDoubles(m[x]->dtype(), {channels}, v));
        };
        const std::vector<double> ones(static_cast<size_t>(channels), 1.0);
        return b("BatchNormalization",
                 {m[x], vector(*factors), vector(*terms), vector(*means), vector(ones)},
                 {{"epsilon", 0.0f}});
      },
      .fires_on = {text("p = Mul(x, k) y = Add(c, p)"), text("p = Mul(k, x) y = Sub(p, c)"),
                   text("d = Sub(x, m) p = Mul(d, k) y = Add(p, c)")},
      .silent_on = {{text("p = Mul(x, w) y = Add(p, c)"), "one number per channel"},
                    {text("h = const f32[] {2} d = Sub(x, m) p = Mul(d, h) y = Add(p, c)"),
                     "is not one number per channel"},
                    {R"(graph g(x: f32[N,C,2,2]) -> (y) { k = const f32[] {2}
                       c = const f32[2] ~1  d = Sub(x, c)  p = Mul(d, k)  y = Add(p, c) })",
                     "is not a tensor of known channels"}},
  };
}

}  // namespace infer
