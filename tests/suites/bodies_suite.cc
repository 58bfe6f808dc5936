/// Subgraphs of control flow on the backend under test: captured weights, states that change their
/// shapes, nesting, and what a profile says of them.
#include "tests/suites/suite.h"

namespace infer {
namespace {

Datum Scalar(int64_t v) { return Tensor::Scalar<int64_t>(v); }
Datum Truth(bool v) { return Tensor::Scalar<bool>(v); }
Datum Normal(const Dims& dims, uint64_t seed = 1) {
  Random random(seed);
  return RandomInput(DType::kF32, dims, random);
}

constexpr std::string_view kBranches = R"(graph g(c: bool[], x: f32[3,8]) -> (z) {
  w = const f32[8,5] ~1
  y = If(c) [x, w] {then_branch=graph(x, w) -> (y) { m = MatMul(x, w) y = Relu(m) },
                    else_branch=graph(x, w) -> (y) { m = MatMul(x, w) y = Tanh(m) }}
  z = Neg(y) })";

TEST(Bodies, BranchesWithCapturedWeights) {
  for (bool c : {true, false}) CheckGraph(kBranches, {Truth(c), Normal({3, 8})});
}

/// The state grows in every turn: more shapes than are worth planning.
TEST(Bodies, GrowingState) {
  CheckGraph(R"(graph g(n: i64[], x: f32[1,4]) -> (y, all) {
    y, all = Loop(n, _, x) [x] {body=graph(i, c, s, x) -> (c, t, o) {
      e = Exp(x) m = Mul(e, e) t = Concat(s, m) {axis=0} a = const i64[2] {0,1} o = ReduceMean(t, a) }} })",
             {Scalar(70), Normal({1, 4})}, 1e-5);
}

TEST(Bodies, ScanWithBranchInside) {
  CheckGraph(R"(graph g(s: f32[4], x: f32[6,4]) -> (t, ys) {
    zero = const f32[] {0}
    t, ys = Scan(s, x) [zero] {num_scan_inputs=1, body=graph(s, e, zero) -> (t, y) {
      a = Add(s, e) r = ReduceMean(a) {keepdims=0} big = Greater(r, zero)
      t = If(big) [a] {then_branch=graph(a) -> (b) { b = Tanh(a) },
                       else_branch=graph(a) -> (b) { b = Abs(a) }}
      y = Sigmoid(t) }} })",
             {Normal({4}), Normal({6, 4}, 2)}, 1e-5);
}

/// Runs of one context do not see each other's states.
TEST(Bodies, RunsAgain) {
  Graph g = *ParseGraph(kBranches, SuiteOps());
  auto program = BackendUnderTest().Compile(g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto context = *(*program)->NewContext();
  for (int k = 0; k < 6; ++k) {
    const std::vector<Datum> inputs = {Truth(k % 2 == 0),
                                       Normal({3, 8}, static_cast<uint64_t>(k) + 3)};
    for (size_t i = 0; i < inputs.size(); ++i) ASSERT_TRUE(context->BindInput(i, inputs[i]).ok());
    ASSERT_TRUE(context->Run().ok());
    ExpectClose(context->output(0), (*Evaluate(g, inputs))[0], 1e-5, Cat("run ", k));
  }
}

TEST(Bodies, ProfileCountsReferenceKernelsInside) {
  Graph g = *ParseGraph(kBranches, SuiteOps());
  auto program = BackendUnderTest().Compile(g, {});
  ASSERT_TRUE(program.ok());
  auto context = *(*program)->NewContext();
  ASSERT_TRUE(context->BindInput(0, Truth(true)).ok());
  ASSERT_TRUE(context->BindInput(1, Normal({3, 8})).ok());
  ASSERT_TRUE(context->Run().ok());
  EXPECT_TRUE(context->reference_times().empty());
  ASSERT_TRUE(context->Run({.profile = true}).ok());
  double sum = 0, by_operator = 0;
  for (const StepTiming& t : context->profile()) {
    EXPECT_LE(t.reference_ms, t.duration_ms);
    sum += t.reference_ms;
  }
  for (const auto& [op, ms] : context->reference_times()) by_operator += ms;
  EXPECT_NEAR(sum, by_operator, 1e-9);
  if (BackendUnderTest().name() == "cpu")
    EXPECT_EQ(context->reference_times().size(), 0u) << context->reference_times().begin()->first;
  else
    EXPECT_EQ(context->reference_times().count("If"), 1u);
}

}  // namespace
}  // namespace infer
