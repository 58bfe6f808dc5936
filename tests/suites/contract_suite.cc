/// What every backend promises around a run: binding, changing shapes, stop, profile, concurrency.
#include <atomic>
#include <thread>

#include "lib/support/parallel.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

constexpr std::string_view kNet = R"(graph g(x: f32[N,3,8,8]) -> (y: f32[N,4]) {
  w = const f32[8,3,3,3] ~1
  b = const f32[8] ~2
  c = Conv(x, w, b) {pads=[1,1,1,1]}
  r = Relu(c)
  w2 = const f32[8,8,3,3] ~3
  d = Conv(r, w2) {pads=[1,1,1,1]}
  s = Add(d, r)
  p = GlobalAveragePool(s)
  f = Flatten(p)
  m = const f32[8,4] ~4
  y = MatMul(f, m)
})";

std::shared_ptr<const Program> Compiled(const Graph& g, const CompileOptions& options = {}) {
  auto program = BackendUnderTest().Compile(g, options);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return program.ok() ? *program : nullptr;
}

Tensor Batch(int64_t n, uint64_t seed) {
  Random random(seed);
  return RandomInput(DType::kF32, {n, 3, 8, 8}, random);
}

TEST(Contract, ChangingShapesInOneContext) {
  auto g = ParseGraph(kNet, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  auto context = *Compiled(*g)->NewContext();
  for (int64_t n : {1, 3, 1, 2, 17, 3, 1}) {
    const Datum x = Batch(n, static_cast<uint64_t>(n));
    ASSERT_TRUE(context->BindInput(0, x).ok());
    const Status s = context->Run();
    ASSERT_TRUE(s.ok()) << s.message();
    auto want = Evaluate(*g, std::vector<Datum>{x});
    ASSERT_TRUE(want.ok());
    ExpectClose(context->output(0), (*want)[0], 1e-5, Cat("batch ", n));
  }
}

/// A plan without steps, as the branch of an If that returns its operand.
TEST(Contract, InputsThatAreOutputsChangeTheirShape) {
  auto g = ParseGraph("graph g(x: f32[N,3], z: f32[3,N]) -> (x, z) { }", SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  auto context = *Compiled(*g)->NewContext();
  for (int64_t n : {1, 5, 2, 300, 7}) {
    for (const bool profile : {false, true}) {
      Random random(static_cast<uint64_t>(n));
      const Datum x = RandomInput(DType::kF32, {n, 3}, random);
      const Datum z = RandomInput(DType::kF32, {3, n}, random);
      ASSERT_TRUE(context->BindInput(0, x).ok());
      ASSERT_TRUE(context->BindInput(1, z).ok());
      const Status s = context->Run({.profile = profile});
      ASSERT_TRUE(s.ok()) << s.message();
      ExpectClose(context->output(0), x, 0, Cat(n));
      ExpectClose(context->output(1), z, 0, Cat(n));
    }
  }
}

/// Converters of tree models declare labels for one sample, whatever the input may be.
TEST(Contract, ResultsDeclaredForOneBatchHaveTheirOwnExtents) {
  auto g = ParseGraph(R"(graph g(x: f32[N,3]) -> (label: i64[1], name: str[1], p: f32[1,3]) {
    label = ArgMax(x) {axis=1, keepdims=0}
    name = ai.onnx.ml::LabelEncoder(label) {keys_int64s=[0, 1, 2], values_strings=["a", "b", "c"]}
    p = Softmax(x)
  })",
                      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  auto context = *Compiled(*g)->NewContext();
  for (int64_t n : {1, 5, 1, 2}) {
    Random random(static_cast<uint64_t>(n));
    const Datum x = RandomInput(DType::kF32, {n, 3}, random);
    ASSERT_TRUE(context->BindInput(0, x).ok());
    const Status s = context->Run();
    ASSERT_TRUE(s.ok()) << s.message();
    auto want = Evaluate(*g, std::vector<Datum>{x});
    ASSERT_TRUE(want.ok()) << want.status().message();
    EXPECT_EQ((*want)[1].tensor().dims(), Dims{n});
    for (size_t i = 0; i < 3; ++i) ExpectClose(context->output(i), (*want)[i], 1e-5, Cat(n));
  }
}

TEST(Contract, AGraphThatIsGivenAwayRunsAlike) {
  // Large enough that a backend lets them go once they are packed; w is read as it is, too.
  auto g = ParseGraph(R"(graph g(x: f32[20,96]) -> (y: f32[20,96], z: f32[96,96]) {
    w = const f32[96,96] ~1
    v = const f32[96,96] ~2
    a = MatMul(x, w)
    b = MatMul(a, v)
    y = Relu(b)
    z = Add(w, w)
  })",
                      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  Random random(5);
  const std::vector<Datum> x = {RandomInput(DType::kF32, {20, 96}, random)};
  auto program = BackendUnderTest().CompileOwned(g->Clone(), {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto want = Evaluate(*g, x);
  ASSERT_TRUE(want.ok());
  for (int run = 0; run < 2; ++run) {
    auto got = RunOnce(**program, x);
    ASSERT_TRUE(got.ok()) << got.status().message();
    for (size_t i = 0; i < 2; ++i) ExpectClose((*got)[i], (*want)[i], 1e-5, Cat("output ", i));
  }
}

TEST(Contract, KeptOutputsDoNotChange) {
  auto g = ParseGraph(kNet, SuiteOps());
  ASSERT_TRUE(g.ok());
  auto context = *Compiled(*g)->NewContext();
  ASSERT_TRUE(context->BindInput(0, Batch(2, 1)).ok());
  ASSERT_TRUE(context->Run().ok());
  const Datum kept = context->output(0);
  const Tensor copy = kept.tensor().Clone();
  ASSERT_TRUE(context->BindInput(0, Batch(2, 9)).ok());
  ASSERT_TRUE(context->Run().ok());
  EXPECT_TRUE(BitEqual(kept.tensor(), copy));
  EXPECT_FALSE(BitEqual(context->output(0).tensor(), copy));
}

TEST(Contract, BoundOutput) {
  auto g = ParseGraph(kNet, SuiteOps());
  ASSERT_TRUE(g.ok());
  auto context = *Compiled(*g)->NewContext();
  Tensor buffer = Tensor::Zeros(DType::kF32, {2, 4});
  ASSERT_TRUE(context->BindInput(0, Batch(2, 1)).ok());
  ASSERT_TRUE(context->BindOutput(0, buffer).ok());
  ASSERT_TRUE(context->Run().ok());
  EXPECT_EQ(context->output(0).tensor().raw(), buffer.raw());
  auto want = Evaluate(*g, std::vector<Datum>{Batch(2, 1)});
  ExpectClose(buffer, (*want)[0], 1e-5, "bound");
  ASSERT_TRUE(context->BindOutput(0, Tensor::Zeros(DType::kF32, {3, 4})).ok());
  EXPECT_EQ(context->Run().code(), Code::kInvalidArgument);
}

TEST(Contract, WrongInputsAreRefused) {
  auto g = ParseGraph(kNet, SuiteOps());
  ASSERT_TRUE(g.ok());
  auto context = *Compiled(*g)->NewContext();
  EXPECT_EQ(context->Run().code(), Code::kInvalidArgument) << "not bound";
  EXPECT_EQ(context->BindInput(7, Batch(1, 1)).code(), Code::kInvalidArgument);
  EXPECT_FALSE(context->BindInput(0, Tensor::Zeros(DType::kF32, {1, 3, 8, 9})).ok());
  EXPECT_FALSE(context->BindInput(0, Tensor::Zeros(DType::kI64, {1, 3, 8, 8})).ok());
}

/// One symbol is one extent, whichever inputs have it.
TEST(Contract, TwoExtentsForOneSymbolAreRefused) {
  auto g = ParseGraph(
      "graph g(x: f32[N,2], y: f32[3,N], z: f32[M+1], w: f32[M+1]) -> (a, b: "
      "f32[N,2]) { a = Identity(y) c = Identity(w) b = Relu(x) }",
      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  auto program = Compiled(*g);
  ASSERT_TRUE(program);
  auto context = *program->NewContext();
  const auto run = [&](int64_t n, int64_t other, int64_t m, int64_t another) {
    const Dims dims[] = {{n, 2}, {3, other}, {m}, {another}};
    for (size_t i = 0; i < 4; ++i)
      EXPECT_TRUE(context->BindInput(i, Tensor::Zeros(DType::kF32, dims[i])).ok());
    return context->Run();
  };
  EXPECT_TRUE(run(4, 4, 2, 2).ok());
  const Status s = run(4, 5, 2, 2);
  EXPECT_EQ(s.code(), Code::kInvalidArgument) << s.message();
  EXPECT_NE(s.message().find("'y' has N = 5"), std::string::npos) << s.message();
  EXPECT_EQ(run(4, 4, 2, 3).code(), Code::kInvalidArgument);
  EXPECT_TRUE(run(5, 5, 3, 3).ok());
}

TEST(Contract, AStartedRunEndsAsRunDoes) {
  auto g = ParseGraph(kNet, SuiteOps());
  const auto program = Compiled(*g);
  auto context = *program->NewContext();
  EXPECT_EQ(context->Start()->Wait().code(), Code::kInvalidArgument) << "nothing is bound";
  const Datum x = Batch(2, 5);
  ASSERT_TRUE(context->BindInput(0, x).ok());
  for (int run = 0; run < 3; ++run) {
    const auto started = context->Start();
    const Status s = started->Wait();
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_TRUE(started->done());
    EXPECT_TRUE(started->Wait().ok()) << "it may be asked again";
    ExpectClose(context->output(0), (*Evaluate(*g, std::vector<Datum>{x}))[0], 1e-5, "started");
  }
  // Several contexts, of which one is stopped before it begins.
  std::stop_source stopped;
  stopped.request_stop();
  auto other = *program->NewContext();
  ASSERT_TRUE(other->BindInput(0, x).ok());
  const auto first = context->Start(), second = other->Start({.stop = stopped.get_token()});
  EXPECT_EQ(second->Wait().code(), Code::kCancelled);
  EXPECT_TRUE(first->Wait().ok());
  context->Start();  // dropped: waits
  EXPECT_TRUE(context->Run().ok());
}

TEST(Contract, StopToken) {
  auto g = ParseGraph(kNet, SuiteOps());
  ASSERT_TRUE(g.ok());
  auto context = *Compiled(*g)->NewContext();
  ASSERT_TRUE(context->BindInput(0, Batch(1, 1)).ok());
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(context->Run({.stop = source.get_token()}).code(), Code::kCancelled);
  const Status again = context->Run();
  EXPECT_TRUE(again.ok()) << again.message();
}

TEST(Contract, ProfileAndSteps) {
  auto g = ParseGraph(kNet, SuiteOps());
  ASSERT_TRUE(g.ok());
  auto program = Compiled(*g);
  auto context = *program->NewContext();
  ASSERT_TRUE(context->BindInput(0, Batch(1, 1)).ok());
  ASSERT_TRUE(context->Run().ok());
  EXPECT_TRUE(context->profile().empty());
  ASSERT_TRUE(context->Run({.profile = true}).ok());
  EXPECT_FALSE(context->profile().empty());
  for (const StepTiming& t : context->profile()) {
    ASSERT_LT(t.step, program->steps().size());
    EXPECT_GE(t.duration_ms, 0);
  }
  for (const StepInfo& s : program->steps()) {
    EXPECT_FALSE(s.kernel.empty());
    EXPECT_FALSE(s.precision.empty());
    EXPECT_FALSE(s.op.empty());
  }
}

TEST(Contract, SameBitsForAnyThreadCount) {
  auto g = ParseGraph(kNet, SuiteOps());
  ASSERT_TRUE(g.ok());
  const int before = LaneBudget();
  SetLaneBudget(7);
  std::vector<Datum> first;
  for (int threads : {1, 2, 3, 7}) {
    auto out = RunOnce(*Compiled(*g, {.threads = threads}), std::vector<Datum>{Batch(5, 3)});
    ASSERT_TRUE(out.ok()) << out.status().message();
    if (first.empty()) first = *out;
    EXPECT_TRUE(BitEqual((*out)[0].tensor(), first[0].tensor())) << threads << " threads";
  }
  SetLaneBudget(before);
}

/// Throws in its last range: on a lane that is not the caller's, where there is another.
Status ThrowInALoop(OpRun& run) {
  Tensor& out = run.Out(0, DType::kF32, run.in(0).dims());
  ParallelFor(64, 1, [&](int64_t begin, int64_t end) {
    if (end == 64 && run.in(0).data<float>()[0] > 0) throw std::bad_alloc();
    for (int64_t i = begin; i < end; ++i) out.mutable_data<float>()[i] = 1;
  });
  return {};
}

TEST(Contract, AnExceptionInALoopEndsTheRunAsAStatus) {
  static const OpDef kThrows[] = {{.name = "Throws",
                                   .inputs = {{"X", "T"}},
                                   .outputs = {{"Y", "T"}},
                                   .constraints = {{"T", TypeSet{DType::kF32}}},
                                   .infer = SameAsInput,
                                   .reference = ThrowInALoop}};
  const std::span<const OpDef> families[] = {kThrows};
  const OpRegistry ops(families);
  auto g = ParseGraph("graph g(x: f32[64]) -> (y: f32[64]) {\n y = Throws(x)\n}", ops);
  ASSERT_TRUE(g.ok()) << g.status().message();
  const int before = LaneBudget();
  SetLaneBudget(7);
  for (int threads : {1, 2, 3, 7}) {
    const auto program = Compiled(*g, {.threads = threads});
    ASSERT_TRUE(program);
    auto context = *program->NewContext();
    for (float first : {1.f, 0.f, 1.f, 0.f}) {
      Tensor x = Tensor::Zeros(DType::kF32, {64});
      x.mutable_data<float>()[0] = first;
      ASSERT_TRUE(context->BindInput(0, x).ok());
      const Status s = context->Run();
      EXPECT_EQ(s.code(), first > 0 ? Code::kResource : Code::kOk) << threads << s.message();
      if (s.ok()) {
        EXPECT_EQ(context->output(0).tensor().data<float>()[63], 1);
      }
    }
  }
  SetLaneBudget(before);
}

TEST(Contract, EightThreadsOneProgram) {
  auto g = ParseGraph(kNet, SuiteOps());
  ASSERT_TRUE(g.ok());
  auto program = Compiled(*g);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      const Datum x = Batch(1 + t % 3, static_cast<uint64_t>(t));
      auto want = Evaluate(*g, std::vector<Datum>{x});
      auto context = program->NewContext();
      for (int i = 0; i < 20; ++i) {
        if (!(*context)->BindInput(0, x).ok() || !(*context)->Run().ok()) {
          ++wrong;
          continue;
        }
        const Tensor& got = (*context)->output(0).tensor();
        for (int64_t k = 0; k < got.num_elements(); ++k)
          if (std::abs(got.At(k) - (*want)[0].tensor().At(k)) > 1e-4) {
            ++wrong;
            break;
          }
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace infer
