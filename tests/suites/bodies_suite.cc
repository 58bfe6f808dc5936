/// Subgraphs of control flow on the backend under test: captured weights, states that change their
/// shapes, nesting, and what a profile says of them.
#include "lib/support/memory_limit.h"
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

/// A body may declare its number and its condition as vectors of one element.
TEST(Bodies, NumberOfOneElement) {
  for (const int64_t n : {0, 4})
    CheckGraph(
        R"(graph g(n: i64[], x: f32[5,8]) -> (last, all) {
      z = const f32[1,8] ~1
      last, all = Loop(n, _, z) [x] {body=graph(i: i64[1], c: bool[1], s: f32[1,8], v: f32[5,8]) -> (d, t, o) {
        o = Gather(v, i) {axis=0} p = Mul(s, o) t = Tanh(p) d = Identity(c) }} })",
        {Scalar(n), Normal({5, 8})});
}

/// What is stacked has the extents that an iteration would have given.
TEST(Bodies, NoIterations) {
  const auto zeros = [](Dims dims) { return Datum(Tensor::Zeros(DType::kF32, std::move(dims))); };
  CheckGraph(R"(graph g(s: f32[N], x: f32[T,?]) -> (t, ys) {
    t, ys = Scan(s, x) {num_scan_inputs=1, scan_output_axes=[1], body=graph(s, e) -> (t, y) {
      t = Add(s, e) y = Identity(t) }} })",
             {zeros({2}), zeros({0, 2})});
  CheckGraph(R"(graph g(n: i64[], x: f32[N,?]) -> (v, ys) {
    v, ys = Loop(n, _, x) {body=graph(i, c, v) -> (k, w, y) {
      k = Identity(c) w = Relu(v) y = Transpose(w) }} })",
             {Datum(Tensor::Scalar<int64_t>(0)), zeros({2, 3})});
}

/// States that change places, a state that is captured by a branch inside, the number as a result:
/// no iteration writes over what another value still is.
TEST(Bodies, ValuesThatAreHeldTwice) {
  CheckGraph(R"(graph g(n: i64[], x: f32[4], y: f32[4]) -> (a, b, xs, is) {
    a, b, xs, is = Loop(n, _, x, y) {body=graph(i, c, s, t) -> (k, u, v, o, j) {
      k = Identity(c) u = Identity(t) v = Add(s, t) o = Identity(s) j = Identity(i) }} })",
             {Scalar(7), Normal({4}), Normal({4}, 2)});
  CheckGraph(R"(graph g(n: i64[], x: f32[4]) -> (a, xs) {
    two = const i64[] {2} zero = const i64[] {0}
    a, xs = Loop(n, _, x) [two, zero, x] {body=graph(i, c, s, two, zero, x) -> (k, u, o) {
      k = Identity(c) m = Mod(i, two) e = Equal(m, zero)
      u = If(e) [s, x] {then_branch=graph(s, x) -> (t) { t = Add(s, x) },
                        else_branch=graph(s, x) -> (t) { t = Mul(s, x) }}
      o = Sub(u, s) }} })",
             {Scalar(9), Normal({4})});
}

/// What the body passes on as it came: constants, inputs of the run, through Identity, as a result
/// that somebody reads or nobody, beside states that change places.
TEST(Bodies, StatesThatNoIterationChanges) {
  for (const int64_t n : {0, 1, 6})
    CheckGraph(
        R"(graph g(n: i64[], x: f32[2,4], v: f32[4,4], y: f32[2,4]) -> (a, vs, ws, k2, p, q, all) {
      w = const f32[4,4] {1,2,0,0, 0,1,0,-1, 0,0,1,0, 0.5,0,0,1} k = const f32[] {0.25}
      a, vs, ws, k2, p, q, all = Loop(n, _, x, v, w, k, x, y) {
        body=graph(i, c, s, v, w, k, p, q) -> (d, t, v2, w, k, q2, p2, o) {
          d = Identity(c) v1 = Identity(v) v2 = Identity(v1) u = MatMul(s, w) r = MatMul(u, v)
          t = Mul(r, k) q2 = Identity(q) p2 = Identity(p) o = Identity(w) }} })",
        {Scalar(n), Normal({2, 4}), Normal({4, 4}, 2), Normal({2, 4}, 3)});
}

/// Beside captures, in a loop within a loop, one of them without anything else to carry.
TEST(Bodies, StatesThatNoIterationChangesInside) {
  CheckGraph(R"(graph g(n: i64[], x: f32[4], y: f32[4]) -> (a, b, r) {
    a, b = Loop(n, _, x, y) [n, x] {body=graph(i, c, s, t, n, x) -> (k, u, t) {
      k = Identity(c)
      z, h = Loop(n, _, s, t) [x] {body=graph(i2, c2, s2, t2, x) -> (k2, u2, t2) {
        k2 = Identity(c2) e = Mul(s2, t2) u2 = Add(e, x) }}
      u = Sub(z, h) }}
    r = Loop(n, _, y) {body=graph(i, c, s) -> (k, s) { k = Identity(c) }} })",
             {Scalar(3), Normal({4}), Normal({4}, 2)});
}

/// A run changes neither what is bound to it nor what it gave before.
TEST(Bodies, RunsLeaveTensorsOfOthers) {
  Graph g = *ParseGraph(R"(graph g(n: i64[], x: f32[4]) -> (y, all) {
    y, all = Loop(n, _, x) {body=graph(i, c, s) -> (k, t, o) {
      k = Identity(c) t = Exp(s) o = Neg(t) }} })",
                        SuiteOps());
  auto program = BackendUnderTest().Compile(g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto context = *(*program)->NewContext();
  const Datum x = Tensor::Of<float>({4}, {-1, -2, -3, -4});
  ASSERT_TRUE(context->BindInput(1, x).ok());
  std::vector<Datum> before;
  for (const int64_t n : {3, 2, 0, 3}) {
    ASSERT_TRUE(context->BindInput(0, Scalar(n)).ok());
    ASSERT_TRUE(context->Run().ok());
    EXPECT_TRUE(BitEqual(x.tensor(), Tensor::Of<float>({4}, {-1, -2, -3, -4})));
    const auto want = *Evaluate(g, std::vector<Datum>{Scalar(n), x});
    for (size_t i = 0; i < want.size(); ++i)
      ExpectClose(context->output(i), want[i], 1e-5, Cat(n, " iterations, output ", i));
    if (before.empty()) before = {context->output(0), context->output(1)};
    const auto first = *Evaluate(g, std::vector<Datum>{Scalar(3), x});
    for (size_t i = 0; i < before.size(); ++i) ExpectClose(before[i], first[i], 1e-5, "kept");
  }
}

/// Iterations write what they give in its place: a tensor each would take four times as much.
TEST(Bodies, StacksTakeNoTensorForEachIteration) {
  Graph g = *ParseGraph(R"(graph g(n: i64[], x: f32[4]) -> (y, all) {
    y, all = Loop(n, _, x) {body=graph(i, c, s) -> (k, t, o) {
      k = Identity(c) t = Tanh(s) o = Neg(t) }} })",
                        SuiteOps());
  auto program = BackendUnderTest().Compile(g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto context = *(*program)->NewContext();
  ASSERT_TRUE(context->BindInput(0, Scalar(4)).ok());
  ASSERT_TRUE(context->BindInput(1, Normal({4})).ok());
  ASSERT_TRUE(context->Run().ok());
  ASSERT_TRUE(context->BindInput(0, Scalar(4000)).ok());
  SetMemoryLimit(ChargedMemory() + 300'000);
  const Status s = context->Run();
  SetMemoryLimit(INT64_MAX);
  EXPECT_TRUE(s.ok()) << s.message();
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

// ---- Shapes that hang on data ----------------------------------------------------------------

/// What follows from the number of positive elements, with weights and a result before it.
constexpr std::string_view kSelected = R"(graph g(x: f32[4,6]) -> (a, y, n) {
  w = const f32[6,5] ~1 zero = const f32[] {0} ax = const i64[1] {1}
  a = Exp(x) m = ReduceMean(x, ax) {keepdims=0} p = Greater(m, zero)
  i = NonZero(p) k = Transpose(i) r = GatherND(x, k) s = MatMul(r, w) t = Relu(s)
  e = GatherND(a, k) f = Concat(t, e) {axis=1} y = Softmax(f) n = Shape(y) })";

TEST(Late, StepsAfterASelection) {
  for (uint64_t seed = 1; seed <= 4; ++seed) CheckGraph(kSelected, {Normal({4, 6}, seed)}, 1e-5);
}

TEST(Late, OneContextManyShapes) {
  Graph g = *ParseGraph(kSelected, SuiteOps());
  auto program = BackendUnderTest().Compile(g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto context = *(*program)->NewContext();
  for (uint64_t seed = 1; seed <= 9; ++seed) {
    const std::vector<Datum> inputs = {Normal({4, 6}, seed)};
    ASSERT_TRUE(context->BindInput(0, inputs[0]).ok());
    ASSERT_TRUE(context->Run({.profile = true}).ok());
    const auto want = *Evaluate(g, inputs);
    for (size_t i = 0; i < want.size(); ++i)
      ExpectClose(context->output(i), want[i], 1e-5, Cat("seed ", seed, " output ", i));
    for (const StepTiming& t : context->profile()) {
      EXPECT_LT(t.step, (*program)->steps().size());
      EXPECT_GE(t.duration_ms, 0);
    }
    if (BackendUnderTest().name() == "cpu") {
      EXPECT_EQ(context->reference_times().count("MatMul+Relu"), 0u);
      EXPECT_EQ(context->reference_times().count("NonZero"), 1u);
    }
  }
}

/// A selection of a selection; a branch whose results differ in rank; a sequence on the way.
TEST(Late, Nested) {
  CheckGraph(R"(graph g(x: f32[40]) -> (y) {
    zero = const f32[] {0} one = const f32[] {1}
    p = Greater(x, zero) a = Compress(x, p) b = Exp(a) q = Greater(b, one) c = Compress(b, q)
    d = Neg(c) y = Mul(d, d) })",
             {Normal({40})}, 1e-5);
  for (bool c : {true, false})
    CheckGraph(R"(graph g(c: bool[], x: f32[1,6]) -> (y) {
      z = If(c) [x] {then_branch=graph(x) -> (a) { s = const i64[1] {6} a = Reshape(x, s) },
                     else_branch=graph(x) -> (b) { b = Neg(x) }}
      e = Exp(z) y = Add(e, x) })",
               {Truth(c), Normal({1, 6})}, 1e-5);
  CheckGraph(R"(graph g(x: f32[5,2]) -> (y) {
    s = SplitToSequence(x) {keepdims=0} one = const i64[] {1} t = SequenceAt(s, one)
    e = Exp(t) y = Add(e, t) })",
             {Normal({5, 2})}, 1e-5);
}

/// The branch that is not taken contradicts the shape that the run brings.
TEST(Late, BranchThatDoesNotFit) {
  CheckGraph(R"(graph g(x: f32[7]) -> (y) {
    zero = const f32[] {0} p = Greater(x, zero) a = Compress(x, p) r = Shape(a)
    one = const i64[1] {1} c = Equal(r, one) s = Squeeze(c)
    z = If(s) [a] {then_branch=graph(a) -> (b) { k = const i64[1] {0} q = Squeeze(a, k) b = Exp(q) },
                   else_branch=graph(a) -> (b) { b = Neg(a) }}
    y = Abs(z) })",
             {Tensor::Of<float>({7}, {1, -1, 2, 3, -4, 5, 6})}, 1e-5);
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
  if (BackendUnderTest().name() == "reference")
    EXPECT_EQ(context->reference_times().count("If"), 1u);
  else
    EXPECT_EQ(context->reference_times().size(), 0u) << context->reference_times().begin()->first;
}

/// A body whose shapes come again runs on planned kernels, however many they are.
TEST(Bodies, AStateThatGrowsIsPlannedWhenItComesAgain) {
  Graph g = *ParseGraph(R"(graph g(n: i64[], x: f32[1,8]) -> (all) {
    all = Loop(n, _, x) [x] {body=graph(i, c, s: f32[?,8], x) -> (k, t) {
      k = Identity(c) m = Tanh(s) t = Concat(m, x) {axis=0} }} })",
                        SuiteOps());
  auto program = BackendUnderTest().Compile(g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto context = *(*program)->NewContext();
  const std::vector<Datum> inputs = {Scalar(100), Normal({1, 8})};
  for (size_t i = 0; i < inputs.size(); ++i) ASSERT_TRUE(context->BindInput(i, inputs[i]).ok());
  const Datum want = (*Evaluate(g, inputs))[0];
  for (int run = 0; run < 3; ++run) {
    ASSERT_TRUE(context->Run({.profile = true}).ok());
    ExpectClose(context->output(0), want, 1e-5, Cat("run ", run));
  }
  if (BackendUnderTest().name() != "reference") {
    EXPECT_TRUE(context->reference_times().empty()) << context->reference_times().begin()->first;
  }
}

}  // namespace
}  // namespace infer
