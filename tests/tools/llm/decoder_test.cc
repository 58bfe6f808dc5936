/// A decoder's caches are carried from run to run, in one buffer or grown, and roles of inputs are
/// found by name.
#include "tools/infer_bench/llm/decoder.h"

#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/cpu/backend.h"

namespace infer::bench {
namespace {

const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

std::shared_ptr<const Program> Compiled(std::string_view text) {
  auto graph = ParseGraph(text, Ops());
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  auto program = MakeCpuBackend()->Compile(*graph, {.threads = 1});
  EXPECT_TRUE(program.ok()) << program.status().message();
  return *program;
}

/// One head of 8 elements over caches of 12 tokens, which stay in one buffer.
constexpr const char* kFixed = R"(
graph g(input_ids: i64[B,S], seqlens_k: i32[B], past_key: f32[B,1,12,8], past_value: f32[B,1,12,8])
    -> (y, present_key, present_value) {
  tq = const f32[16,8] ~1
  tk = const f32[16,8] ~2
  tv = const f32[16,8] ~3
  total = const i32[1] {12}
  q = Gather(tq, input_ids)
  k = Gather(tk, input_ids)
  v = Gather(tv, input_ids)
  y, present_key, present_value = com.microsoft::GroupQueryAttention(
      q, k, v, past_key, past_value, seqlens_k, total) {kv_num_heads=1, num_heads=1} })";

/// The same with caches that grow by Concat. It has no causal mask, so it is right token by token.
constexpr const char* kGrown = R"(
graph g(input_ids: i64[B,S], past_key: f32[B,1,P,8], past_value: f32[B,1,P,8])
    -> (y, present_key, present_value) {
  tq = const f32[16,8] ~1
  tk = const f32[16,8] ~2
  tv = const f32[16,8] ~3
  axis = const i64[1] {1}
  scale = const f32[] {0.35355338}
  q = Gather(tq, input_ids)
  k0 = Gather(tk, input_ids)
  v0 = Gather(tv, input_ids)
  k = Unsqueeze(k0, axis)
  v = Unsqueeze(v0, axis)
  q1 = Unsqueeze(q, axis)
  present_key = Concat(past_key, k) {axis=2}
  present_value = Concat(past_value, v) {axis=2}
  t = Transpose(present_key) {perm=[0,1,3,2]}
  s = MatMul(q1, t)
  s1 = Mul(s, scale)
  p = Softmax(s1) {axis=-1}
  m = MatMul(p, present_value)
  y = Squeeze(m, axis) })";

std::vector<float> LastRow(const Decoder& d) {
  const Tensor& y = d.context().output(0).tensor();
  const auto all = y.data<float>();
  return {all.end() - 8, all.end()};
}

Decoder Made(std::string_view text, int64_t batch = 1) {
  auto d = Decoder::Make(Compiled(text), batch, 16, 5);
  EXPECT_TRUE(d.ok()) << d.status().message();
  return *std::move(d);
}

void Feed(Decoder& d, int64_t tokens) {
  const Status s = d.Feed(tokens);
  ASSERT_TRUE(s.ok()) << s.message();
}

TEST(LlmDecoder, StepsContinueAPrompt) {
  Decoder whole = Made(kFixed), parts = Made(kFixed);
  EXPECT_EQ(whole.capacity(), 12);
  EXPECT_EQ(whole.step(), 0);
  ASSERT_TRUE(whole.Begin(0).ok() && parts.Begin(0).ok());
  Feed(whole, 7);
  Feed(parts, 5);
  Feed(parts, 1);
  Feed(parts, 1);
  const auto want = LastRow(whole), got = LastRow(parts);
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(got[i], want[i], 1e-5f) << i;
}

TEST(LlmDecoder, GrownCachesComputeWhatFixedOnesDo) {
  Decoder fixed = Made(kFixed), grown = Made(kGrown);
  EXPECT_EQ(grown.capacity(), 0);
  ASSERT_TRUE(fixed.Begin(0).ok() && grown.Begin(0).ok());
  for (int step = 0; step < 6; ++step) {
    Feed(fixed, 1);
    Feed(grown, 1);
    const auto want = LastRow(fixed), got = LastRow(grown);
    for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(got[i], want[i], 1e-5f) << step << ", " << i;
  }
}

TEST(LlmDecoder, CachesHaveTheirSizes) {
  EXPECT_EQ(Made(kFixed, 3).cache_bytes(5), 2 * 3 * 12 * 8 * 4);
  EXPECT_EQ(Made(kGrown, 3).cache_bytes(5), 2 * 3 * 5 * 8 * 4);
}

/// Behind other tokens the same token is answered otherwise: depth is in the caches.
TEST(LlmDecoder, DepthCounts) {
  Decoder shallow = Made(kGrown), deep = Made(kGrown);
  ASSERT_TRUE(shallow.Begin(0).ok() && deep.Begin(9).ok());
  Feed(shallow, 1);
  Feed(deep, 1);
  EXPECT_EQ(deep.context().output(1).tensor().dim(2), 10);
  EXPECT_NE(LastRow(shallow), LastRow(deep));
}

TEST(LlmDecoder, RefusesWhatIsNoDecoder) {
  const auto why = [](std::string_view text) {
    return Decoder::Make(Compiled(text), 1, 16, 5).status().message();
  };
  EXPECT_NE(why("graph g(x: f32[B,4]) -> (y) { y = Relu(x) }").find("input 'x'"),
            std::string::npos);
  EXPECT_NE(why("graph g(input_ids: i64[2,S]) -> (y) { y = Add(input_ids, input_ids) }")
                .find("fixed batch of 2"),
            std::string::npos);
  EXPECT_NE(why("graph g(input_ids: i64[B,S], past_key: f32[B,1,P,8]) -> (y, z) "
                "{ y = Add(input_ids, input_ids) z = ReduceSum(past_key) {keepdims=0} }")
                .find("1 caches as inputs and 0 as outputs"),
            std::string::npos);
  EXPECT_NE(why("graph g(input_ids: i64[B,S], past_key: f32[B,1,4,8]) -> (y, z) "
                "{ y = Add(input_ids, input_ids) z = Concat(past_key, past_key) {axis=2} }")
                .find("can be read once"),
            std::string::npos);
}

}  // namespace
}  // namespace infer::bench
