/// What scales and shifts the channels of a linear layer becomes part of its weights and bias.
#include "passes/fuse/fusions.h"
#include "passes/fuse/linear.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// The constant operand as one number per output channel of `linear`.
Result<std::vector<double>> PerChannel(const Match& m, const Pattern& c, const Node& linear) {
  INFER_ASSIGN(const int64_t channels, OutputChannels(linear));
  const int rank = RankOf(*linear.output());
  if (rank >= 2)
    if (auto values = PerIndex(m.tensor(c), rank, 1, channels)) return *std::move(values);
  return InvalidModel("needs a constant with one number per output channel");
}

constexpr const char* kConvInputs =
    "x: f32[1,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1  b = const f32[3] ~2 ";

std::string Example(const char* begin, const char* rest) {
  return std::string("graph g(") + begin + rest + " }";
}

}  // namespace

Rule FoldBatchNorm() {
  const LinearPattern l;
  Pattern scale = Constant(), shift = Constant(), mean = Constant(), var = Constant();
  Pattern bn =
      Op("BatchNormalization", l.node, scale, shift, mean, var).With("training_mode", int64_t{0});
  const char* params = R"( s = const f32[3] ~3  o = const f32[3] ~4  m = const f32[3] ~5
                           v = const f32[3] {0.5, 1, 2} )";
  const auto with = [=](const char* begin, const char* rest) {
    return Example(begin, (std::string(params) + rest).c_str());
  };
  return {
      .name = "fold-batchnorm",
      .doc =
          "BatchNormalization(Conv|ConvTranspose|Gemm|MatMul(x, W, B)) => the same layer with "
          "W*k, (B-mean)*k+shift",
      .match = bn,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& linear = m.node(l.node);
        INFER_ASSIGN(const int64_t channels, OutputChannels(linear));
        const ChannelAffine a = AffineOf(m.node(bn));
        if (static_cast<int64_t>(a.k.size()) != channels)
          return InvalidModel("needs a normalization over the output channels");
        return WithAffine(linear, a, b);
      },
      .fires_on = {with(kConvInputs, "t = Conv(x, w, b)  y = BatchNormalization(t, s, o, m, v)"),
                   with("x: f32[N,4,5,5]) -> (y) { w = const f32[3,4,3,3] ~1 ",
                        R"(t = Conv(x, w) {pads=[1,1,1,1]}
                           y = BatchNormalization(t, s, o, m, v) {epsilon=0.01})"),
                   with("x: f32[2,4]) -> (y) { w = const f32[3,4] ~1  b = const f32[1,3] ~2 ",
                        R"(t = Gemm(x, w, b) {transB=1, beta=0.5, alpha=2.0}
                           y = BatchNormalization(t, s, o, m, v))"),
                   with("x: f32[N,4]) -> (y) { w = const f32[4,3] ~1 ",
                        "t = MatMul(x, w)  y = BatchNormalization(t, s, o, m, v)"),
                   with("x: f32[1,2,4,4]) -> (y) { w = const f32[2,3,3,3] ~1 ",
                        "t = ConvTranspose(x, w)  y = BatchNormalization(t, s, o, m, v)")},
      .silent_on = {{with("x: f32[1,2,4,4]) -> (y, t) { w = const f32[3,2,3,3] ~1 ",
                          "t = Conv(x, w)  y = BatchNormalization(t, s, o, m, v)"),
                     "'t' has other uses"},
                    {with("x: f32[1,2,4,4], b: f32[3]) -> (y) { w = const f32[3,2,3,3] ~1 ",
                          "t = Conv(x, w, b)  y = BatchNormalization(t, s, o, m, v)"),
                     "'b' is not a constant"},
                    {with("x: f32[2,3,4]) -> (y) { w = const f32[4,3] ~1 ",
                          "t = MatMul(x, w)  y = BatchNormalization(t, s, o, m, v)"),
                     "a product of two matrices"},
                    {Example("x: f32[1,2,4,4]) -> (y) { w = const f32[3,2,3,3] ~1 ",
                             R"(s = const f32[3] {1, inf, 1}  o = const f32[3] ~4
                                m = const f32[3] ~5  v = const f32[3] {0.5, 1, 2}
                                t = Conv(x, w)  y = BatchNormalization(t, s, o, m, v))"),
                     "finite factors"},
                    {with("x: f32[3,4]) -> (y) { w = const f32[4,3] ~1  c = const f32[3,3] ~9 ",
                          "t = Gemm(x, w, c)  y = BatchNormalization(t, s, o, m, v)"),
                     "the same in all rows"}},
  };
}

Rule FoldChannelScale() {
  const LinearPattern l;
  Pattern c = Constant(), mul = Op("Mul", l.node, c), div = Op("Div", l.node, c);
  Pattern root = OneOf({mul, div});
  return {
      .name = "fold-channel-scale",
      .doc =
          "Conv|ConvTranspose|Gemm|MatMul(x, W, B) * k => the same layer with W*k, B*k; also / k",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& linear = m.node(l.node);
        INFER_ASSIGN(std::vector<double> k, PerChannel(m, c, linear));
        if (m.choice(root) == 1)
          for (double& v : k) v = 1 / v;
        return WithAffine(linear, {k, std::vector<double>(k.size(), 0.0)}, b);
      },
      .fires_on = {Example(kConvInputs,
                           "c = const f32[3,1,1] ~3  t = Conv(x, w, b)  y = Mul(c, t)"),
                   Example(kConvInputs, "c = const f32[] {4}  t = Conv(x, w, b)  y = Div(t, c)"),
                   Example("x: f32[N,4]) -> (y) { w = const f32[4,3] ~1 ",
                           "c = const f32[3] ~3  t = MatMul(x, w)  y = Mul(t, c)")},
      .silent_on = {{Example(kConvInputs, "c = const f32[3] ~3  t = Conv(x, w, b)  y = Mul(t, c)"),
                     "one number per output channel"},
                    {Example(kConvInputs, "c = const f32[] {4}  t = Conv(x, w, b)  y = Div(c, t)"),
                     "'c' is a constant, not a Conv"},
                    {Example(kConvInputs, "c = const f32[] {0}  t = Conv(x, w, b)  y = Div(t, c)"),
                     "finite factors"}},
  };
}

Rule FoldChannelShift() {
  const LinearPattern l;
  Pattern c = Constant();
  Pattern root = OneOf({Op("Add", l.node, c), Op("Sub", l.node, c), Op("Sub", c, l.node)});
  return {
      .name = "fold-channel-shift",
      .doc =
          "Conv|ConvTranspose|Gemm|MatMul(x, W, B) + c => the same layer with bias B+c; also - c, "
          "c - layer",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& linear = m.node(l.node);
        INFER_ASSIGN(std::vector<double> shift, PerChannel(m, c, linear));
        if (m.choice(root) == 1)
          for (double& v : shift) v = -v;
        const double k = m.choice(root) == 2 ? -1 : 1;
        return WithAffine(linear, {std::vector<double>(shift.size(), k), shift}, b);
      },
      .fires_on = {Example(kConvInputs,
                           "c = const f32[1,3,1,1] ~3  t = Conv(x, w, b)  y = Add(c, t)"),
                   Example(kConvInputs, "c = const f32[] {4}  t = Conv(x, w)  y = Sub(c, t)"),
                   Example("x: f32[N,4]) -> (y) { w = const f32[3,4] ~1 ",
                           R"(c = const f32[3] ~3  t = Gemm(x, w) {transB=1, beta=0.0}
                              y = Sub(t, c))")},
      .silent_on = {{Example(kConvInputs, "c = const f32[3] ~3  t = Conv(x, w, b)  y = Add(t, c)"),
                     "one number per output channel"},
                    {Example("x: f32[2,4], c: f32[3]) -> (y) { w = const f32[4,3] ~1 ",
                             "t = Gemm(x, w)  y = Add(t, c)"),
                     "'c' is not a constant"}},
  };
}

}  // namespace infer
