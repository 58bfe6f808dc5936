/// gpt2-small decodes 512 tokens with weights of 4 bits, once with caches that grow by Concat, so
/// that each step has shapes of its own, and once with GroupQueryAttention on caches of fixed
/// length that are bound to past and present. Same tokens, same logits; what a step, a new set of
/// shapes and a change of shapes cost is printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "lib/ops/registry.h"
#include "lib/support/parallel.h"
#include "runtime/cpu/backend.h"
#include "tools/zoo/zoo.h"

namespace infer {
namespace {

constexpr int64_t kTokens = 512, kHeads = 12, kHead = 64;

const OpRegistry& Ops() {
  static const OpRegistry* ops = new OpRegistry(AllOps());
  return *ops;
}

double Median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<int64_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// A model, compiled, with one context.
class Decoder {
 public:
  Decoder(std::string_view name, int64_t past) : model_(Make(name, past)) {
    auto program = MakeCpuBackend()->Compile(model_.graph, {.threads = 1});
    EXPECT_TRUE(program.ok()) << program.status().message();
    program_ = *program;
    context_ = *program_->NewContext();
    caches_ = model_.graph.outputs().size() - 1;
  }

  RunContext& context() { return *context_; }
  size_t caches() const { return caches_; }
  size_t Input(std::string_view name) const {
    for (size_t i = 0; i < model_.graph.inputs().size(); ++i)
      if (model_.graph.inputs()[i]->name() == name) return i;
    ADD_FAILURE() << name;
    return 0;
  }
  void Bind(size_t i, Tensor t) {
    const Status s = context_->BindInput(i, std::move(t));
    ASSERT_TRUE(s.ok()) << s.message();
  }
  /// Microseconds of processor time of one run, which has one thread.
  double Run() {
    const auto now = [] {
      timespec t;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
    };
    const double start = now();
    const Status s = context_->Run();
    EXPECT_TRUE(s.ok()) << s.message();
    return now() - start;
  }
  int64_t Best() const {
    const auto logits = context_->output(0).tensor().data<float>();
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  }

 private:
  static Model Make(std::string_view name, int64_t past) {
    Result<Model> m = MakeZooModel(name, {.past = past}, Ops());
    EXPECT_TRUE(m.ok()) << m.status().message();
    return *std::move(m);
  }

  Model model_;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<RunContext> context_;
  size_t caches_ = 0;
};

struct Decoded {
  std::vector<int64_t> tokens;
  std::vector<float> last;  ///< logits
};

/// One buffer per cache, bound to past and present: a step reads and extends it.
Decoded DecodeInPlace() {
  Decoder d("gpt2-small-gqa-int4", kTokens);
  for (size_t c = 0; c < d.caches(); ++c) {
    Tensor cache(DType::kF32, {1, kHeads, kTokens, kHead});
    std::ranges::fill(cache.mutable_data<float>(), 0.0f);
    EXPECT_TRUE(d.context().BindOutput(c + 1, cache).ok());
    d.Bind(d.Input("past_key_values.0.key") + c, cache);
  }
  Decoded out;
  std::vector<double> us;
  int64_t token = 17;
  for (int64_t i = 0; i < kTokens; ++i) {
    d.Bind(d.Input("input_ids"), Tensor::Of<int64_t>({1, 1}, {token}));
    d.Bind(d.Input("position_ids"), Tensor::Of<int64_t>({1, 1}, {i}));
    d.Bind(d.Input("seqlens_k"), Tensor::Of<int32_t>({1}, {static_cast<int32_t>(i)}));
    us.push_back(d.Run());
    out.tokens.push_back(token = d.Best());
  }
  const auto logits = d.context().output(0).tensor().data<float>();
  out.last.assign(logits.begin(), logits.end());
  std::printf("caches in place: a step %.0f us (median of %zu), the first %.0f us\n", Median(us),
              us.size(), us[0]);
  return out;
}

/// Each step has new shapes; run twice, so that the second time they are known.
Decoded DecodeGrown() {
  Decoder d("gpt2-small-kv-int4", 0);
  const size_t first = d.Input("past_key_values.0.key");
  for (size_t c = 0; c < d.caches(); ++c)
    d.Bind(first + c, Tensor(DType::kF32, {1, kHeads, 0, kHead}));
  Decoded out;
  std::vector<double> known, made;
  int64_t token = 17;
  for (int64_t i = 0; i < kTokens; ++i) {
    d.Bind(d.Input("input_ids"), Tensor::Of<int64_t>({1, 1}, {token}));
    d.Bind(d.Input("position_ids"), Tensor::Of<int64_t>({1, 1}, {i}));
    const double with_plan = d.Run();
    known.push_back(d.Run());
    made.push_back(with_plan - known.back());
    out.tokens.push_back(token = d.Best());
    for (size_t c = 0; c < d.caches(); ++c) d.Bind(first + c, d.context().output(c + 1).tensor());
  }
  const auto logits = d.context().output(0).tensor().data<float>();
  out.last.assign(logits.begin(), logits.end());
  std::printf("caches by Concat: a step %.0f us, new shapes %.0f us more (medians of %zu)\n",
              Median(known), Median(made), known.size());
  return out;
}

TEST(Decode, BothCachesGiveTheSameTokens) {
  SetLaneBudget(1);
  const Decoded a = DecodeInPlace(), b = DecodeGrown();
  EXPECT_EQ(a.tokens, b.tokens);
  float most = 0;
  for (float v : a.last) most = std::max(most, std::abs(v));
  for (size_t i = 0; i < a.last.size(); ++i) ASSERT_NEAR(a.last[i], b.last[i], 1e-4f * most);
}

/// Two sets of shapes in turns, against each of them again and again: what is printed should be 50
/// us at most; what is asserted is that nothing is planned anew.
TEST(Decode, ChangingBetweenKnownShapesIsCheap) {
  SetLaneBudget(1);
  Decoder d("gpt2-small-kv-int4", 0);
  const size_t first = d.Input("past_key_values.0.key");
  d.Bind(d.Input("input_ids"), Tensor::Of<int64_t>({1, 1}, {17}));
  d.Bind(d.Input("position_ids"), Tensor::Of<int64_t>({1, 1}, {8}));
  std::vector<Tensor> pasts[2];
  for (int64_t length : {7, 8})
    for (size_t c = 0; c < d.caches(); ++c) {
      Tensor& t = pasts[length - 7].emplace_back(DType::kF32, Dims{1, kHeads, length, kHead});
      std::ranges::fill(t.mutable_data<float>(), 0.5f);
    }
  const auto run = [&](int which) {
    for (size_t c = 0; c < d.caches(); ++c) d.Bind(first + c, pasts[which][c]);
    return d.Run();
  };
  for (int i : {0, 1}) run(i);
  // The least of many: other processes disturb single runs by more than what is looked for.
  double same = 1e9, turns = 1e9;
  for (int round = 0; round < 150; ++round) {
    run(0);
    same = std::min(same, run(0));
    turns = std::min(turns, run(1));
    run(1);
    turns = std::min(turns, run(0));
  }
  std::printf("the same shapes again %.0f us, others that are known %.0f us (least of 150)\n", same,
              turns);
  // On a busy machine the difference is at 45 to 50 us, the bound that is wanted: no verdict here.
  EXPECT_LE(turns - same, 0.1 * same);
}

}  // namespace
}  // namespace infer
