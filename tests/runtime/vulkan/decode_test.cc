/// Decoders whose caches stay on the device from step to step: no step of theirs leaves it, and the
/// results are the CPU's.
#include <algorithm>

#include "lib/ir/carried.h"
#include "runtime/plan_ir/executor_program.h"
#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

using ::testing::Each;
using ::testing::StartsWith;

constexpr int64_t kPlaces = 24;

/// A layer whose caches grow by Concat.
constexpr const char* kGrowing = R"(graph g(x: f32[1,64], pk: f32[1,4,N,16], pv: f32[1,4,N,16])
    -> (y, k, v) {
  wq = const f32[64,64] ~1  wk = const f32[64,64] ~2  wv = const f32[64,64] ~3
  s = const i64[4] {1, 4, 1, 16}  r = const i64[2] {1, 64}  f = const f32[] {0.02}
  a = MatMul(x, wq)  q = Reshape(a, s)
  b = MatMul(x, wk)  nk = Reshape(b, s)  k = Concat(pk, nk) {axis=2}
  c = MatMul(x, wv)  nv = Reshape(c, s)  v = Concat(pv, nv) {axis=2}
  t = Transpose(k) {perm=[0,1,3,2]}  z = MatMul(q, t)  m = Mul(z, f)  p = Softmax(m)
  h = MatMul(p, v)  o = Reshape(h, r)  y = Add(o, x) })";

/// The same by the operator, whose caches have places for all tokens.
std::string InPlaces() {
  return Cat("graph g(x: f32[1,64], l: i32[1], pk: f32[1,4,", kPlaces, ",16], pv: f32[1,4,",
             kPlaces, ",16]) -> (y, k2, v2) { wq = const f32[64,64] ~1  wk = const f32[64,64] ~2 ",
             "wv = const f32[64,64] ~3  s = const i64[3] {1, 1, 64}  r = const i64[2] {1, 64} ",
             "t = const i32[] {", kPlaces, "} a = MatMul(x, wq)  q = Reshape(a, s) ",
             "b = MatMul(x, wk)  k = Reshape(b, s)  c = MatMul(x, wv)  v = Reshape(c, s) ",
             "o, k2, v2 = com.microsoft::GroupQueryAttention(q, k, v, pk, pv, l, t) ",
             "{num_heads=4, kv_num_heads=4, scale=0.02} p = Reshape(o, r)  y = Add(p, x) }");
}

/// A context of one backend, and the run of one token after the other.
class DecodeRun {
 public:
  DecodeRun(const Backend& backend, const Graph& g, int64_t past)
      : caches_(FindCarried(g)), by_length_(g.inputs().size() == 4) {
    auto program = backend.Compile(g, {});
    EXPECT_TRUE(program.ok()) << program.status().message();
    program_ = *program;
    context_ = *program_->NewContext();
    EXPECT_EQ(caches_.size(), 2U);
    for (const CarriedValue& c : caches_) {
      Tensor empty(DType::kF32, {1, 4, past, 16});
      std::ranges::fill(empty.mutable_data<float>(), 0.0f);
      Check(context_->BindInput(c.input, empty));
    }
  }

  Tensor Step(int64_t at, const Tensor& x) {
    Check(context_->BindInput(0, x));
    if (by_length_)
      Check(context_->BindInput(1, Tensor::Of<int32_t>({1}, {static_cast<int32_t>(at)})));
    Check(context_->Run({.leave_resident = true}));
    for (const CarriedValue& c : caches_) Check(context_->Carry(c.output, c.input));
    return context_->output(0).tensor().Clone();
  }

  RunContext& context() { return *context_; }
  /// Values that cross between the spaces, of the plan for a cache of so many tokens.
  int64_t Crossings(int64_t past) const {
    std::vector<Dims> dims;
    for (const Value* v : program_->inputs())
      dims.push_back(v->shape().rank() == 4 ? Dims{1, 4, past, 16} : v->shape().static_dims());
    const auto plan = dynamic_cast<const ExecutorProgram&>(*program_).PlanFor(dims);
    EXPECT_TRUE(plan.ok());
    return std::ranges::count_if((*plan)->frame->launches, [](const auto& l) { return l.crosses; });
  }

 private:
  static void Check(const Status& s) { ASSERT_TRUE(s.ok()) << s.message(); }

  std::vector<CarriedValue> caches_;
  bool by_length_;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<RunContext> context_;
};

Tensor Token(int64_t at) {
  Random random(static_cast<uint64_t>(at) + 7);
  Tensor x(DType::kF32, {1, 64});
  for (float& v : x.mutable_data<float>()) v = static_cast<float>(random.Normal());
  return x;
}

/// Decodes kPlaces - 1 tokens on the device and on the CPU; the device chooses where steps run, as
/// for a user.
void ExpectTokensOf(const std::string& text, int64_t past) {
  const Graph g = ParsedGraph(text);
  const auto vulkan = VulkanOver({}, false), cpu = MakeCpuBackend();
  DecodeRun device(*vulkan, g, past), host(*cpu, g, past);
  for (int64_t at = 0; at < kPlaces - 1; ++at) {
    const Tensor got = device.Step(at, Token(at)), want = host.Step(at, Token(at));
    ExpectCloseTo(got, want, Cat("token ", at));
    const auto kernels = device.context().step_kernels();
    std::vector<std::string> ran;
    for (const std::string& k : kernels)
      if (k != "view") ran.push_back(k);
    EXPECT_THAT(ran, Each(StartsWith("vulkan:"))) << at;
  }
  EXPECT_EQ(device.Crossings(past > 0 ? past : 7), 2) << "the token, and its result";
}

TEST(VulkanDecode, CachesThatGrowStayOnTheDevice) { ExpectTokensOf(kGrowing, 0); }

TEST(VulkanDecode, CachesOfTheOperatorStayOnTheDevice) { ExpectTokensOf(InPlaces(), kPlaces); }

/// The first token hands its commands over once; two caches that take turns make two recordings.
TEST(VulkanDecode, NothingIsRecordedAfterTheFirstTokens) {
  constexpr int64_t kWarmUp = 3;
  const auto vulkan = VulkanOver({}, false);
  DecodeRun run(*vulkan, ParsedGraph(InPlaces()), kPlaces);
  for (int64_t at = 0; at < kWarmUp; ++at) run.Step(at, Token(at));
  const CommandInfo warm = run.context().commands();
  for (int64_t at = kWarmUp; at < kPlaces - 1; ++at) run.Step(at, Token(at));
  const CommandInfo more = run.context().commands() - warm;
  EXPECT_EQ(more.recorded, 0);
  EXPECT_EQ(more.submissions, kPlaces - 1 - kWarmUp) << "one for each token";
}

TEST(VulkanDecode, MemoryOfCachesIsUsedAgainAndGivenBack) {
  const auto vulkan = VulkanOver({}, false);
  {
    DecodeRun run(*vulkan, ParsedGraph(InPlaces()), kPlaces);
    run.Step(0, Token(0));
    run.Step(1, Token(1));
    const VulkanMemoryUse early = VulkanMemoryOf(*vulkan);
    for (int64_t at = 2; at < kPlaces - 1; ++at) run.Step(at, Token(at));
    const VulkanMemoryUse late = VulkanMemoryOf(*vulkan);
    EXPECT_EQ(late.used_bytes, early.used_bytes);
    EXPECT_EQ(late.live, early.live);
  }
  EXPECT_EQ(VulkanMemoryOf(*vulkan).live, 0);
}

}  // namespace
}  // namespace infer
