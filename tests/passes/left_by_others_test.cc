/// What ONNX Runtime 1.30 leaves unfused on the CPU with all its rewrites on, row by row, and what
/// it gets wrong: the operators that are left here, and the values before and after.
#include <gmock/gmock.h>

#include "lib/ir/eval.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

/// "Conv=1 Relu=2".
std::string Left(const Graph& g) {
  std::vector<std::string> ops;
  for (const auto& [op, n] : StatisticsOf(g).operators) ops.push_back(Cat(op, '=', n));
  return Join(ops, " ");
}

struct Case {
  const char* name;
  const char* graph;
  const char* left;
};

class LeftByOthers : public testing::TestWithParam<Case> {};

TEST_P(LeftByOthers, IsFusedHere) {
  auto parsed = ParseGraph(GetParam().graph, Ops());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  Graph g = *std::move(parsed);
  const Graph before = g.Clone();
  const auto report = Optimize(g);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(Left(g), GetParam().left) << Print(g);
  for (const uint64_t seed : {1, 2}) {
    const auto inputs = RandomInputs(before, seed);
    ASSERT_TRUE(inputs.ok()) << inputs.status().message();
    const auto want = Evaluate(before, *inputs), got = Evaluate(g, *inputs);
    ASSERT_TRUE(want.ok()) << want.status().message();
    ASSERT_TRUE(got.ok()) << got.status().message();
    for (size_t i = 0; i < want->size(); ++i) {
      const auto error = RelativeError((*want)[i], (*got)[i]);
      ASSERT_TRUE(error.ok()) << error.status().message();
      EXPECT_LE(*error, 2e-5) << "output " << i;
    }
  }
}

constexpr Case kCases[] = {
    // Einsum over heads as tf2onnx 1.17 takes it apart, keys first, batch and length open: axes of
    // one element, batch and heads folded by targets that the run computes.
    {"Tf2onnxEinsum", R"(graph g(x: f32[B,S,6]) -> (y) { flat = const i64[2] {-1,6}
      w1 = const f32[6,6] ~1  w2 = const f32[6,6] ~2  w3 = const f32[6,6] ~3
      w4 = const f32[6,6] ~4  a1 = const i64[1] {1}  a2 = const i64[1] {2}  a3 = const i64[1] {3}
      a4 = const i64[1] {4}  a23 = const i64[2] {2,3}  a01 = const i64[2] {0,1}
      heads = const i64[3] {2,3,1}  all = const i64[1] {6}  rest = const i64[1] {-1}
      xu = Unsqueeze(x, a23)  xs = Shape(xu)  bs = Gather(xs, a01)
      t = Concat(bs, heads) {axis=0}  x2 = Reshape(x, flat)
      q2 = Gemm(x2, w1) {transB=1}  q5 = Reshape(q2, t)  q4 = Squeeze(q5, a4)
      k2 = Gemm(x2, w2) {transB=1}  k5 = Reshape(k2, t)  k4 = Squeeze(k5, a4)
      v2 = Gemm(x2, w3) {transB=1}  v5 = Reshape(v2, t)  v4 = Squeeze(v5, a4)
      qu = Unsqueeze(q4, a1)  qt = Transpose(qu) {perm=[0,3,1,2,4]}
      ku = Unsqueeze(k4, a3)  kt = Transpose(ku) {perm=[0,2,1,3,4]}  ks = Shape(kt)
      e = Gather(ks, a01)  l = Gather(ks, a2)  p = ReduceProd(e) {keepdims=1}
      f = Concat(p, rest, a3) {axis=0}  qf = Reshape(qt, f)  qx = Transpose(qf) {perm=[0,2,1]}
      kf = Reshape(kt, f)  s3 = MatMul(kf, qx)  r = Concat(e, l, l, a1) {axis=0}
      s5 = Reshape(s3, r)  s4 = Squeeze(s5, a4)  c = const f32[] {0.5}  s = Mul(s4, c)
      m = Softmax(s) {axis=2}  mu = Unsqueeze(m, a2)  mt = Transpose(mu) {perm=[0,1,4,2,3]}
      h = Concat(p, rest, l) {axis=0}  mf = Reshape(mt, h)  vu = Unsqueeze(v4, a2)
      vt = Transpose(vu) {perm=[0,3,2,4,1]}  vf = Reshape(vt, h)
      vx = Transpose(vf) {perm=[0,2,1]}  o3 = MatMul(mf, vx)  i = Concat(e, l, a3, a1) {axis=0}
      o5 = Reshape(o3, i)  o4 = Squeeze(o5, a4)  o = Transpose(o4) {perm=[0,2,1,3]}
      of = Reshape(o, flat)  y2 = Gemm(of, w4) {transB=1}  j = Concat(bs, all) {axis=0}
      y = Reshape(y2, j) })",
     "Attention=1 MatMul=2 Split=1"},
    {"GeluByFactor",
     R"(graph g(x: f32[N,5]) -> (y) { k = const f32[] {0.70710677}  one = const f32[] {1}
      half = const f32[] {0.5}  s = Mul(x, k)  e = Erf(s)  a = Add(e, one)  h = Mul(half, a)
      y = Mul(h, x) })",
     "Gelu=1"},
    {"GeluTanhByProducts", R"(graph g(x: f32[N,5]) -> (y) { c = const f32[] {0.044715}
      k = const f32[] {0.7978846}  one = const f32[] {1}  half = const f32[] {0.5}  s = Mul(x, x)
      t = Mul(s, x)  u = Mul(t, c)  v = Add(x, u)  w = Mul(v, k)  z = Tanh(w)  a = Add(z, one)
      b = Mul(x, a)  y = Mul(b, half) })",
     "Gelu=1"},
    {"HardSwishByHardSigmoid",
     "graph g(x: f32[N,5]) -> (y) { s = HardSigmoid(x) {alpha=0.16666667}  y = Mul(x, s) }",
     "HardSwish=1"},
    {"HardSwishByClip",
     R"(graph g(x: f32[N,5]) -> (y) { three = const f32[] {3}  zero = const f32[] {0}
      six = const f32[] {6}  a = Add(x, three)  c = Clip(a, zero, six)  p = Mul(x, c)  y = Div(p, six) })",
     "HardSwish=1"},
    {"Mish", "graph g(x: f32[N,5]) -> (y) { s = Softplus(x)  t = Tanh(s)  y = Mul(x, t) }",
     "Mish=1"},
    {"Swish", R"(graph g(x: f32[N,5]) -> (y) { k = const f32[] {1.5}  a = Mul(x, k)  s = Sigmoid(a)
      y = Mul(x, s) })",
     "Swish=1"},
    {"LayerNormByProducts", R"(graph g(x: f32[N,8]) -> (y) { a = const i64[1] {-1}
      e = const f32[] {1e-5}  g = const f32[8] ~1  b = const f32[8] ~2  r = Relu(x)  m = ReduceMean(r, a)
      d = Sub(r, m)  s = Mul(d, d)  v = ReduceMean(s, a)  w = Add(v, e)  z = Sqrt(w)  n = Div(d, z)
      t = Mul(n, g)  y = Add(t, b) })",
     "LayerNormalization=1 Relu=1"},
    {"LayerNormWithoutAffine", R"(graph g(x: f32[N,8]) -> (y) { a = const i64[1] {-1}
      p = const f32[] {2}  e = const f32[] {1e-5}  m = ReduceMean(x, a)  d = Sub(x, m)  s = Pow(d, p)
      v = ReduceMean(s, a)  w = Add(v, e)  z = Sqrt(w)  y = Div(d, z) })",
     "LayerNormalization=1"},
    {"RmsNormByProductAndDiv", R"(graph g(x: f32[N,8]) -> (y) { a = const i64[1] {-1}
      e = const f32[] {1e-5}  g = const f32[8] ~1  s = Mul(x, x)  v = ReduceMean(s, a)  w = Add(v, e)
      z = Sqrt(w)  n = Div(x, z)  y = Mul(n, g) })",
     "RMSNormalization=1"},
    {"RmsNormByOneOver", R"(graph g(x: f32[N,8]) -> (y) { a = const i64[1] {-1}
      e = const f32[] {1e-5}  one = const f32[] {1}  g = const f32[8] ~1  s = Mul(x, x)
      v = ReduceMean(s, a)  w = Add(v, e)  z = Sqrt(w)  i = Div(one, z)  n = Mul(x, i)  y = Mul(g, n) })",
     "RMSNormalization=1"},
    {"RmsNormByReciprocal", R"(graph g(x: f32[N,8]) -> (y) { a = const i64[1] {-1}
      e = const f32[] {1e-5}  g = const f32[8] ~1  p = const f32[] {2}  s = Pow(x, p)
      v = ReduceMean(s, a)  w = Add(v, e)  z = Sqrt(w)  i = Reciprocal(z)  n = Mul(x, i)  y = Mul(n, g) })",
     "RMSNormalization=1"},
    {"SkipAndRmsNorm", R"(graph g(x: f32[2,3,8], r: f32[2,3,8]) -> (y, s) { g = const f32[8] ~1
      s = Add(x, r)  y = RMSNormalization(s, g) })",
     "infer::SkipRMSNormalization=1"},
    {"ConvTransposeAndBatchNorm", R"(graph g(x: f32[N,2,4,4]) -> (y) { w = const f32[2,3,3,3] ~1
      s = const f32[3] ~2  b = const f32[3] ~3  m = const f32[3] ~4  v = const f32[3] {0.5, 1, 2}
      t = ConvTranspose(x, w)  y = BatchNormalization(t, s, b, m, v) })",
     "ConvTranspose=1"},
    {"BatchNormBeforeConv", R"(graph g(x: f32[N,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
      s = const f32[2] ~2  b = const f32[2] ~3  m = const f32[2] ~4  v = const f32[2] {0.5, 1}
      t = BatchNormalization(x, s, b, m, v)  y = Conv(t, w) })",
     "Conv=1"},
    {"GemmAndBatchNorm", R"(graph g(x: f32[N,4]) -> (y) { w = const f32[4,3] ~1  c = const f32[3] ~9
      s = const f32[3] ~2  b = const f32[3] ~3  m = const f32[3] ~4  v = const f32[3] {0.5, 1, 2}
      t = Gemm(x, w, c)  y = BatchNormalization(t, s, b, m, v) })",
     "Gemm=1"},
    // Nothing to fold: Relu stands between. It is one chain of steps for the runtime.
    {"BatchNormReluConvStays", R"(graph g(x: f32[N,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
      s = const f32[2] ~2  b = const f32[2] ~3  m = const f32[2] ~4  v = const f32[2] {0.5, 1}
      t = BatchNormalization(x, s, b, m, v)  r = Relu(t)  y = Conv(r, w) })",
     "BatchNormalization=1 Conv=1 Relu=1"},
    {"ConvAndSilu", R"(graph g(x: f32[N,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1  t = Conv(x, w)
      s = Sigmoid(t)  y = Mul(t, s) })",
     "Conv=1 infer::Silu=1"},
    {"ConstantPlusConv", R"(graph g(x: f32[N,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
      c = const f32[1,3,1,1] ~2  t = Conv(x, w)  y = Add(c, t) })",
     "Conv=1"},
    {"MatMulAddWithOpenBatch",
     R"(graph g(x: f32[N,4]) -> (y) { w = const f32[4,3] ~1  c = const f32[3] ~2
      t = MatMul(x, w)  y = Add(t, c) })",
     "Gemm=1"},
    {"QueryKeyValue",
     R"(graph g(x: f32[2,5,8]) -> (a, b, c) { p = const f32[8,8] ~1  q = const f32[8,8] ~2
      r = const f32[8,8] ~3  k = MatMul(x, p)  l = MatMul(x, q)  m = MatMul(x, r)  a = Relu(k)
      b = Neg(l)  c = Abs(m) })",
     "Abs=1 MatMul=1 Neg=1 Relu=1 Split=1"},
    {"ScaledDotProductAttention", R"(graph g(q: f32[2,3,5,8], k: f32[2,3,7,8], v: f32[2,3,7,8],
      m: f32[2,1,5,7]) -> (y) { s = const f32[] {0.35355338}  t = Transpose(k) {perm=[0,1,3,2]}
      z = MatMul(q, t)  c = Mul(z, s)  a = Add(c, m)  p = Softmax(a) {axis=-1}  y = MatMul(p, v) })",
     "Attention=1"},
    {"GroupNorm",
     R"(graph g(x: f32[2,6,4,4]) -> (y) { r = const i64[3] {0,3,-1}  o = const f32[3] {1,1,1}
      z = const f32[3] {0,0,0}  d = const i64[4] {2,6,4,4}  s = const f32[6,1,1] ~1  b = const f32[6,1,1] ~2
      t = Reshape(x, r)  n = InstanceNormalization(t, o, z)  u = Reshape(n, d)  v = Mul(u, s)
      y = Add(v, b) })",
     "GroupNormalization=1"},
    {"MeanAsGlobalAveragePool", R"(graph g(x: f32[N,6,4,4]) -> (y) { a = const i64[2] {2,3}
      y = ReduceMean(x, a) {keepdims=1} })",
     "GlobalAveragePool=1"},
    {"SqueezeExcite",
     R"(graph g(x: f32[N,6,4,4]) -> (y) { a = const i64[2] {2,3}  w = const f32[2,6,1,1] ~1
      b = const f32[2] ~2  u = const f32[6,2,1,1] ~3  d = const f32[6] ~4  m = ReduceMean(x, a) {keepdims=1}
      p = Conv(m, w, b)  r = Relu(p)  q = Conv(r, u, d)  s = Sigmoid(q)  y = Mul(x, s) })",
     "infer::SqueezeExcite=1"},
    {"SwiGlu", R"(graph g(x: f32[2,5,8]) -> (y) { w = const f32[8,12] ~1  u = const f32[8,12] ~2
      a = MatMul(x, w)  b = MatMul(x, u)  s = Sigmoid(a)  t = Mul(a, s)  y = Mul(t, b) })",
     "MatMul=2 infer::SwiGLU=1"},
    {"Einsum",
     R"(graph g(x: f32[2,5,8], z: f32[8,3]) -> (y) { y = Einsum(x, z) {equation="bij,jk->bik"} })",
     "MatMul=1"},
    {"PixelShuffle", R"(graph g(x: f32[1,8,3,3]) -> (y) { s = const i64[6] {1,2,2,2,3,3}
      d = const i64[4] {1,2,6,6}  t = Reshape(x, s)  u = Transpose(t) {perm=[0,1,4,2,5,3]}
      y = Reshape(u, d) })",
     "DepthToSpace=1"},
    {"ConcatOfConcat",
     R"(graph g(x: f32[N,2], z: f32[N,3], w: f32[N,4]) -> (y) { t = Concat(x, z) {axis=1}
      y = Concat(t, w) {axis=1} })",
     "Concat=1"},
    {"SplitAndConcat", R"(graph g(x: f32[N,4]) -> (y) { a, b = Split(x) {axis=1, num_outputs=2}
      t = Concat(a, b) {axis=1}  y = Relu(t) })",
     "Relu=1"},
    {"UnsqueezeAndSqueeze",
     R"(graph g(x: f32[N,4]) -> (y) { a = const i64[1] {1}  t = Unsqueeze(x, a)
      u = Squeeze(t, a)  y = Relu(u) })",
     "Relu=1"},
    {"VectorOfZeros", R"(graph g(x: f32[N,3]) -> (y) { z = const f32[3] {0,0,0}  t = Add(x, z)
      y = Relu(t) })",
     "Relu=1"},
    {"PowOfOne", "graph g(x: f32[N,3]) -> (y) { o = const f32[] {1}  t = Pow(x, o)  y = Relu(t) }",
     "Relu=1"},
    {"ReluOfRelu", "graph g(x: f32[N,3]) -> (y) { t = Relu(x)  y = Relu(t) }", "Relu=1"},
    // What it gets wrong: zeros before MaxPool became -infinity, and largest where all others are
    // negative.
    {"ZerosBeforeMaxPoolStay", R"(graph g(x: f32[1,1,4]) -> (y) { p = const i64[6] {0,0,1,0,0,1}
      t = Pad(x, p)  y = MaxPool(t) {kernel_shape=[2]} })",
     "MaxPool=1 Pad=1"},
    {"ZerosBeforeMaxPoolOfRelu", R"(graph g(x: f32[1,1,4]) -> (y) { p = const i64[6] {0,0,1,0,0,1}
      r = Relu(x)  t = Pad(r, p)  y = MaxPool(t) {kernel_shape=[2]} })",
     "MaxPool=1 Relu=1"},
    // Its tool takes the bias of a LayerNorm over channels from the weights.
    {"LayerNormOverChannels", R"(graph g(x: f32[2,4,3,3]) -> (y) { a = const i64[1] {1}
      e = const f32[] {1e-5}  g = const f32[1,4,1,1] ~1  b = const f32[1,4,1,1] ~2  p = const f32[] {2}
      m = ReduceMean(x, a)  d = Sub(x, m)  s = Pow(d, p)  v = ReduceMean(s, a)  w = Add(v, e)  z = Sqrt(w)
      n = Div(d, z)  t = Mul(n, g)  y = Add(t, b) })",
     "LayerNormalization=1 Transpose=2"},
};

INSTANTIATE_TEST_SUITE_P(Rows, LeftByOthers, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace infer
