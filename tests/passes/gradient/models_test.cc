/// Whole backward graphs: a small residual CNN, a ViT and an MLP beside central differences of a
/// random projection, and on the CPU's kernels.
#include "runtime/cpu/backend.h"
#include "tests/passes/gradient/differences.h"

namespace infer {
namespace {

constexpr std::string_view kCnn = R"(graph cnn(x: f32[2,3,8,8]) -> (y) {
  w0 = const f32[4,3,3,3] ~1  b0 = const f32[4] ~2
  c0 = Conv(x, w0, b0) {pads=[1,1,1,1]}  a0 = Relu(c0)
  w1 = const f32[4,4,3,3] ~3  b1 = const f32[4] ~4
  c1 = Conv(a0, w1, b1) {pads=[1,1,1,1]}
  s = const f32[4] ~5  o = const f32[4] ~6  m = const f32[4] ~7  v = const f32[4] {1, 2, 0.5, 3}
  n1 = BatchNormalization(c1, s, o, m, v)
  r1 = Add(n1, a0)  a1 = Relu(r1)
  w2 = const f32[8,4,3,3] ~8
  c2 = Conv(a1, w2) {pads=[1,1,1,1], strides=[2,2]}
  w3 = const f32[8,4,1,1] ~9
  c3 = Conv(a1, w3) {strides=[2,2]}
  r2 = Add(c2, c3)  a2 = LeakyRelu(r2)
  d = const f32[8,1,3,3] ~10
  c4 = Conv(a2, d) {group=8, pads=[1,1,1,1]}
  p = MaxPool(c4) {kernel_shape=[2,2], strides=[2,2]}
  q = GlobalAveragePool(p)  f = Flatten(q)
  wf = const f32[5,8] ~11  bf = const f32[5] ~12
  z = Gemm(f, wf, bf) {transB=1}
  y = LogSoftmax(z) })";

constexpr std::string_view kVit = R"(graph vit(x: f32[2,3,8,8]) -> (y) {
  wp = const f32[6,3,4,4] ~1  bp = const f32[6] ~2
  c = Conv(x, wp, bp) {strides=[4,4]}
  s3 = const i64[3] {0, 0, -1}  f = Reshape(c, s3)  t = Transpose(f) {perm=[0,2,1]}
  e = const f32[1,4,6] ~3  h = Add(t, e)
  g1 = const f32[6] ~4  o1 = const f32[6] ~5
  n = LayerNormalization(h, g1, o1)
  wq = const f32[6,18] ~6  bq = const f32[18] ~7
  qm = MatMul(n, wq)  qkv = Add(qm, bq)
  q, k, v = Split(qkv) {axis=2, num_outputs=3}
  s4 = const i64[4] {0, 0, 2, 3}
  q4 = Reshape(q, s4)  k4 = Reshape(k, s4)  v4 = Reshape(v, s4)
  qh = Transpose(q4) {perm=[0,2,1,3]}  kh = Transpose(k4) {perm=[0,2,3,1]}
  vh = Transpose(v4) {perm=[0,2,1,3]}
  scores = MatMul(qh, kh)  r = const f32[] {0.57735}  scaled = Mul(scores, r)
  p = Softmax(scaled)  a = MatMul(p, vh)
  at = Transpose(a) {perm=[0,2,1,3]}  am = Reshape(at, s3)
  wo = const f32[6,6] ~8  ao = MatMul(am, wo)  h1 = Add(h, ao)
  g2 = const f32[6] ~9  o2 = const f32[6] ~10  n2 = LayerNormalization(h1, g2, o2)
  w1 = const f32[6,12] ~11  b1 = const f32[12] ~12  m1 = MatMul(n2, w1)  m2 = Add(m1, b1)
  ge = Gelu(m2)
  w2 = const f32[12,6] ~13  m3 = MatMul(ge, w2)  h2 = Add(h1, m3)
  i0 = const i64[] {0}  cls = Gather(h2, i0) {axis=1}
  wc = const f32[6,5] ~14  y = MatMul(cls, wc) })";

constexpr std::string_view kMlp = R"(graph mlp(x: f32[4,6]) -> (y) {
  w1 = const f32[6,9] ~1  b1 = const f32[9] ~2  m1 = MatMul(x, w1)  h1 = Add(m1, b1)
  a1 = Tanh(h1)
  w2 = const f32[7,9] ~3  b2 = const f32[7] ~4  h2 = Gemm(a1, w2, b2) {transB=1}
  a2 = HardSwish(h2)
  g = Sigmoid(h2)  u = Mul(a2, g)
  w3 = const f32[7,3] ~5  z = MatMul(u, w3)  y = Softmax(z) })";

Movable Model(std::string_view text, bool f64) {
  auto g = ParseGraph(f64 ? InF64(text) : std::string(text), TestOps());
  INFER_CHECK(g.ok());
  Random random(3);
  return MakeMovable(
      *std::move(g), [&] { return random.Normal(); },
      [](const Node& n, size_t i) { return n.op() == "BatchNormalization" && i > 2; });
}

TEST(BackwardGraph, OfModelsBesideDifferences) {
  for (const std::string_view text : {kCnn, kVit, kMlp}) {
    SCOPED_TRACE(text.substr(0, 12));
    EXPECT_GT(ExpectGradients(Model(text, true), 12), 60);
  }
}

/// The gradients that are wanted, as outputs behind those of the model.
void AddBackward(Movable& m) {
  const size_t loss = AddProjection(m.graph);
  const auto gradients = AddGradients(m.graph, loss, m.wanted);
  INFER_CHECK(gradients.ok());
  for (Value* v : *gradients) GraphEditor(m.graph).MarkOutput(v);
}

/// The same numbers in f64.
std::vector<Datum> Widened(const std::vector<Datum>& inputs) {
  std::vector<Datum> wide = inputs;
  for (Datum& d : wide) {
    if (d.tensor().dtype() != DType::kF32) continue;
    Tensor t(DType::kF64, d.tensor().dims());
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.mutable_data<double>()[static_cast<size_t>(i)] = d.tensor().At(i);
    d = std::move(t);
  }
  return wide;
}

double LargestDifference(const Tensor& a, const Tensor& b) {
  double off = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) off = std::max(off, std::abs(a.At(i) - b.At(i)));
  return off;
}

/// On the CPU's kernels the backward graph gives what f64 gives, and no convolution or product of
/// it runs on reference kernels. These are 3.4e-5 off in f32 themselves (the ViT), by as much on
/// the other side, so that beside them nothing is told.
TEST(BackwardGraph, RunsOnTheKernelsOfTheCpu) {
  const auto backend = MakeCpuBackend();
  for (const std::string_view text : {kCnn, kVit, kMlp}) {
    SCOPED_TRACE(text.substr(0, 12));
    Movable m = Model(text, false), wide = Model(text, true);
    AddBackward(m);
    AddBackward(wide);
    const auto exact = Evaluate(wide.graph, Widened(m.inputs));
    ASSERT_TRUE(exact.ok()) << exact.status().message();
    const auto program = backend->Compile(m.graph, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const auto got = RunOnce(**program, m.inputs);
    ASSERT_TRUE(got.ok()) << got.status().message();
    for (size_t k = 0; k < exact->size(); ++k) {
      const Tensor& e = (*exact)[k].tensor();
      double top = 0;
      for (int64_t i = 0; i < e.num_elements(); ++i) top = std::max(top, std::abs(e.At(i)));
      EXPECT_LE(LargestDifference((*got)[k].tensor(), e), 1e-4 * top)
          << m.graph.outputs()[k]->name();
    }
    for (const StepInfo& step : (*program)->steps()) {
      if (!step.op.starts_with("Conv") && !step.op.starts_with("MatMul") &&
          !step.op.starts_with("Gemm"))
        continue;
      EXPECT_NE(step.kernel, "reference") << step.op << " " << step.node;
    }
  }
}

}  // namespace
}  // namespace infer
