#include "quant/accuracy/next_token.h"

#include <gmock/gmock.h>

#include <cmath>

#include "quant/accuracy/compare.h"
#include "quant/accuracy/gate.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::DoubleNear;
using testing::HasSubstr;

// Scores of the next of three tokens are a row of a table: ln of 1/2, 1/4, 1/4 and its rotations.
constexpr std::string_view kBigram =
    R"(graph g(position: i64[1,L], ids: i64[1,L]) -> (scores: f32[1,L,3]) {
  places = const f32[8,1] {0,0,0,0,0,0,0,0}
  table = const f32[3,3] {2,1,1, 1,2,1, 1,1,2}
  p = Gather(places, position)
  t = Gather(table, ids)
  sum = Add(t, p)
  scores = Log(sum)
})";
// Every token sees the mean over all.
constexpr std::string_view kBothWays =
    R"(graph g(position: i64[1,L], ids: i64[1,L]) -> (scores: f32[1,L,3]) {
  table = const f32[3,3] {2,1,1, 1,2,1, 1,1,2}
  axes = const i64[1] {1}
  t = Gather(table, ids)
  m = ReduceMean(t, axes) {keepdims=1}
  sum = Add(t, m)
  scores = Log(sum)
})";

std::vector<Datum> Sample(std::vector<int64_t> ids) {
  const auto length = static_cast<int64_t>(ids.size());
  std::vector<int64_t> position(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) position[i] = static_cast<int64_t>(i);
  return {Tensor::Of<int64_t>({1, length}, position), Tensor::Of<int64_t>({1, length}, ids)};
}

std::string Replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out(text);
  out.replace(out.find(from), from.size(), to);
  return out;
}

TEST(NextToken, IsFoundByTheTableOfTokens) {
  const auto task = NextTokenOf(MustParse(kBigram));
  ASSERT_TRUE(task);
  EXPECT_EQ(task->input, 1u);  // positions have a table of another size
  EXPECT_EQ(task->output, 0u);
  EXPECT_FALSE(task->mask);
  EXPECT_FALSE(NextTokenOf(MustParse("graph g(x: f32[1,4]) -> (y) { y = Neg(x) }")));
  // Scores of other classes than tokens: a tagger.
  EXPECT_FALSE(NextTokenOf(MustParse(R"(graph g(ids: i64[1,L]) -> (y: f32[1,L,2]) {
    table = const f32[3,2] {1,2,3,4,5,6}
    y = Gather(table, ids)
  })")));
}

TEST(NextToken, PerplexityOfBothSidesAndItsRise) {
  const Graph golden = MustParse(kBigram);
  const Graph candidate =
      MustParse(Replaced(kBigram, "{2,1,1, 1,2,1, 1,1,2}", "{2,1,1, 1,2,1, 1,1,6}"));
  const auto backend = MakeReferenceBackend();
  // Probabilities of what follows, golden: 1/2, 1/4, 1/2; 1/2. Candidate: 2/2 + 1 + 1 as golden for
  // rows 0 and 1, and 6/8 for 2 behind 2.
  const Samples samples = InMemory({Sample({0, 0, 1, 1}), Sample({2, 2})});
  const auto r = Compare(golden, *backend, candidate, *backend, samples);
  ASSERT_TRUE(r.ok()) << r.status().message();
  ASSERT_TRUE(r->perplexity);
  EXPECT_EQ(r->perplexity->tokens(), 4);
  EXPECT_EQ(r->perplexity->sequences(), 2);
  EXPECT_THAT(r->perplexity->golden(),
              DoubleNear(std::pow(0.5 * 0.25 * 0.5 * 0.5, -1.0 / 4), 1e-6));
  EXPECT_THAT(r->perplexity->candidate(),
              DoubleNear(std::pow(0.5 * 0.25 * 0.5 * 0.75, -1.0 / 4), 1e-6));
  EXPECT_THAT(r->perplexity->rise(), DoubleNear(std::pow(2.0 / 3, 1.0 / 4) - 1, 1e-6));
  // d = (0, ln 2/3) of n = (3, 1): mean m = ln(2/3) / 4; residuals -3 m and 3 m of each.
  const double m = std::log(2.0 / 3) / 4;
  const double half = 12.706205 * std::sqrt((9 * m * m + 9 * m * m) * 2) / 4;
  ASSERT_TRUE(r->perplexity->rise_interval());
  EXPECT_THAT(r->perplexity->rise_interval()->hi, DoubleNear(std::expm1(m + half), 1e-4));
}

TEST(NextToken, NoPerplexityWhereLaterTokensAreSeen) {
  const Graph g = MustParse(kBothWays);
  ASSERT_TRUE(NextTokenOf(g));
  const auto backend = MakeReferenceBackend();
  const auto r = Compare(g, *backend, g, *backend, InMemory({Sample({0, 1, 2})}));
  ASSERT_TRUE(r.ok()) << r.status().message();
  EXPECT_FALSE(r->perplexity);
  // Nor of drawn numbers, nor where one sequence is too short to tell.
  const Graph bigram = MustParse(kBigram);
  Samples random = InMemory({Sample({0, 1, 2})});
  random.random = true;
  EXPECT_FALSE(Compare(bigram, *backend, bigram, *backend, random)->perplexity);
  EXPECT_FALSE(Compare(bigram, *backend, bigram, *backend, InMemory({Sample({0})}))->perplexity);
}

TEST(NextToken, MaskedTokensDoNotCount) {
  const NextToken task{.input = 0, .output = 0, .mask = 1};
  const Tensor scores = Tensor::Of<float>({1, 4, 2}, {0, 0, 0, 0, 0, 0, 0, 0});
  PairedPerplexity p;
  ASSERT_TRUE(
      p.Add(task,
            {Tensor::Of<int64_t>({1, 4}, {1, 0, 1, 0}), Tensor::Of<int64_t>({1, 4}, {0, 1, 1, 0})},
            scores, scores)
          .ok());
  EXPECT_EQ(p.tokens(), 1);
  EXPECT_DOUBLE_EQ(p.golden(), 2);
  EXPECT_FALSE(p.rise_interval());
  EXPECT_THAT(p.Add({}, {Tensor::Of<int64_t>({1, 4}, {1, 0, 2, 0})}, scores, scores).message(),
              HasSubstr("token 2 is outside the 2 scores"));
  EXPECT_THAT(p.Add({}, {Tensor::Of<int64_t>({1, 3}, {1, 0, 2})}, scores, scores).message(),
              HasSubstr("do not belong"));
}

TEST(NextToken, Gate) {
  const Graph golden = MustParse(kBigram);
  const Graph candidate =
      MustParse(Replaced(kBigram, "{2,1,1, 1,2,1, 1,1,2}", "{2,1,1, 1,2,1, 3,3,2}"));
  const auto backend = MakeReferenceBackend();
  const Samples samples = InMemory({Sample({2, 2, 2, 2}), Sample({2, 2}), Sample({2, 2, 2})});
  const auto r = Compare(golden, *backend, candidate, *backend, samples);
  ASSERT_TRUE(r.ok()) << r.status().message();
  const auto gate = [&](double limit) {
    return CheckGates(*r, {.max_perplexity_rise = limit}).front();
  };
  EXPECT_FALSE(gate(0.5).passed);  // from 2 to 4
  EXPECT_TRUE(gate(1.01).passed);
  EXPECT_THAT(gate(0.5).message, HasSubstr("rise of perplexity 100 %, limit 50 %"));
  EXPECT_THAT(CheckGates({}, {.max_perplexity_rise = 0.1}).front().message,
              HasSubstr("needs a causal language model"));
}

}  // namespace
}  // namespace infer
