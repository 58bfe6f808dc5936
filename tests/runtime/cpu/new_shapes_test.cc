/// A program that runs with one set of shapes after the other gives, bit for bit and by the same
/// kernels, what a program gives that runs with that set alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "runtime/cpu/backend.h"
#include "runtime/plan_ir/executor_program.h"

namespace infer {
namespace {

using Inputs = std::vector<Tensor>;

std::shared_ptr<const Program> CompiledAnew(std::string_view text, int threads) {
  static const OpRegistry ops = AllOps();
  auto program = MakeCpuBackend()->Compile(*ParseGraph(text, ops), {.threads = threads});
  EXPECT_TRUE(program.ok()) << program.status().message();
  return *program;
}

Tensor Normal(Dims dims, uint64_t seed) {
  Random random(seed);
  Tensor t(DType::kF32, std::move(dims));
  for (float& v : t.mutable_data<float>()) v = static_cast<float>(random.Normal());
  return t;
}

/// What a run gave, and by which kernels.
struct Ran {
  std::vector<Tensor> outputs;
  std::vector<std::string> kernels;
};

Ran RunOf(RunContext& context, const Inputs& inputs, size_t outputs) {
  for (size_t i = 0; i < inputs.size(); ++i) EXPECT_TRUE(context.BindInput(i, inputs[i]).ok());
  const Status s = context.Run();
  EXPECT_TRUE(s.ok()) << s.message();
  Ran ran;
  for (size_t o = 0; s.ok() && o < outputs; ++o)
    ran.outputs.push_back(context.output(o).tensor().Clone());
  ran.kernels.assign(context.step_kernels().begin(), context.step_kernels().end());
  return ran;
}

Ran RunAlone(std::string_view text, const Inputs& inputs, int threads) {
  const auto program = CompiledAnew(text, threads);
  return RunOf(**program->NewContext(), inputs, program->outputs().size());
}

void ExpectSameRun(const Ran& got, const Ran& want) {
  EXPECT_EQ(got.kernels, want.kernels);
  ASSERT_EQ(got.outputs.size(), want.outputs.size());
  for (size_t o = 0; o < want.outputs.size(); ++o) {
    ASSERT_EQ(got.outputs[o].dims(), want.outputs[o].dims()) << o;
    EXPECT_TRUE(std::ranges::equal(got.outputs[o].bytes(), want.outputs[o].bytes())) << o;
  }
}

void ExpectAsAlone(std::string_view text, const std::vector<Inputs>& sets, int threads = 1) {
  const auto program = CompiledAnew(text, threads);
  const auto context = *program->NewContext();
  for (const Inputs& inputs : sets)
    ExpectSameRun(RunOf(*context, inputs, program->outputs().size()),
                  RunAlone(text, inputs, threads));
}

/// Two layers over caches that grow, with a mask that follows from shapes, and a cache that is a
/// result as it came.
constexpr const char* kTwoLayers = R"(graph g(x: f32[B,S,16], p0: f32[B,2,P,8], p1: f32[B,2,P,8])
    -> (y, k0, k1, p0) {
  w0 = const f32[16,16] ~1  w1 = const f32[16,16] ~2  w2 = const f32[16,16] ~3
  heads = const i64[4] {0, 0, 2, 8}  flat = const i64[3] {0, 0, 16}  f = const f32[] {0.3}
  zero = const i64[] {0} one = const i64[] {1} two = const i64[] {2} ax = const i64[1] {1}
  none = const f32[] {-10} shown = const f32[] {0}
  ps = Shape(p0) seen = Gather(ps, two) xs = Shape(x) more = Gather(xs, one)
  total = Add(seen, more)
  keys = Range(zero, total, one) queries = Range(seen, total, one) rows = Unsqueeze(queries, ax)
  visible = LessOrEqual(keys, rows) mask = Where(visible, shown, none)
  a0 = MatMul(x, w0) r0 = Reshape(a0, heads) q0 = Transpose(r0) {perm=[0,2,1,3]}
  k0 = Concat(p0, q0) {axis=2} t0 = Transpose(k0) {perm=[0,1,3,2]} s0 = MatMul(q0, t0)
  m0 = Mul(s0, f) n0 = Add(m0, mask) b0 = Softmax(n0) o0 = MatMul(b0, k0)
  u0 = Transpose(o0) {perm=[0,2,1,3]} v0 = Reshape(u0, flat) h = Add(v0, x)
  a1 = MatMul(h, w1) r1 = Reshape(a1, heads) q1 = Transpose(r1) {perm=[0,2,1,3]}
  k1 = Concat(p1, q1) {axis=2} t1 = Transpose(k1) {perm=[0,1,3,2]} s1 = MatMul(q1, t1)
  m1 = Mul(s1, f) n1 = Add(m1, mask) b1 = Softmax(n1) o1 = MatMul(b1, k1)
  u1 = Transpose(o1) {perm=[0,2,1,3]} v1 = Reshape(u1, flat) z = MatMul(v1, w2) y = Add(z, h) })";

Inputs OfTwoLayers(int64_t batch, int64_t tokens, int64_t past) {
  const auto seed = static_cast<uint64_t>(batch * 10007 + tokens * 101 + past);
  return {Normal({batch, tokens, 16}, seed), Normal({batch, 2, past, 8}, seed + 1),
          Normal({batch, 2, past, 8}, seed + 2)};
}

TEST(NewShapes, APromptAndItsTokens) {
  for (int threads : {1, 2}) {
    std::vector<Inputs> sets = {OfTwoLayers(1, 20, 0)};
    for (int64_t past = 20; past < 60; ++past) sets.push_back(OfTwoLayers(1, 1, past));
    ExpectAsAlone(kTwoLayers, sets, threads);
  }
}

TEST(NewShapes, AnyExtentsInAnyOrder) {
  Random random(11);
  std::vector<Inputs> sets;
  for (int i = 0; i < 80; ++i) {
    const int64_t long_past = random.Below(4) == 0 ? random.Below(700) : random.Below(20);
    sets.push_back(OfTwoLayers(random.Below(3) + 1, random.Below(3) + 1, long_past));
  }
  ExpectAsAlone(kTwoLayers, sets);
}

/// Plans of a decoder share what runs in which order: else each of them was made whole. On two
/// lanes a step may come to be worth both.
TEST(NewShapes, TokensShareAFrame) {
  for (int threads : {1, 2}) {
    const auto compiled = CompiledAnew(kTwoLayers, threads);
    const auto& program = dynamic_cast<const ExecutorProgram&>(*compiled);
    std::set<std::shared_ptr<const PlanFrame>> frames;
    for (int64_t past = 7; past < 40; ++past)
      frames.insert(
          (*program.PlanFor(std::vector<Dims>{{1, 1, 16}, {1, 2, past, 8}, {1, 2, past, 8}}))
              ->frame);
    EXPECT_LE(frames.size(), threads == 1 ? 2U : 5U);
  }
}

/// Bodies are inferred where they stand, so their plans are made whole.
TEST(NewShapes, Bodies) {
  constexpr const char* text = R"(graph g(c: bool[], x: f32[N,4], p: f32[P,4]) -> (y, n, all) {
    k = Concat(p, x) {axis=0}  e = Exp(k)
    y = If(c) [e] {then_branch=graph(v) -> (w) { w = Tanh(v) },
                   else_branch=graph(v) -> (w) { w = Relu(v) }}
    three = const i64[] {3}
    last, all = Loop(three, _, x) [k] {body=graph(i, d, s, v) -> (d2, t, o) {
      m = ReduceSum(v) {keepdims=0} t = Add(s, m) d2 = Identity(d) o = Tanh(t) }}
    n = NonZero(k) })";
  Random random(5);
  std::vector<Inputs> sets;
  for (int i = 0; i < 24; ++i) {
    const bool c = random.Below(2) == 0;
    const auto seed = static_cast<uint64_t>(i);
    sets.push_back({Tensor::Scalar<bool>(c), Normal({random.Below(3) + 1, 4}, seed),
                    Normal({random.Below(6), 4}, seed + 100)});
  }
  ExpectAsAlone(text, sets);
}

TEST(NewShapes, LateStepsBesideCachesThatGrow) {
  constexpr const char* text = R"(graph g(x: f32[N,4], p: f32[P,4]) -> (k, e, h) {
    k = Concat(p, x) {axis=0}  e = Tanh(k)  i = NonZero(x)  t = Transpose(i) {perm=[1,0]}
    g = GatherND(x, t)  h = Exp(g) })";
  Random random(6);
  std::vector<Inputs> sets;
  for (int i = 0; i < 30; ++i)
    sets.push_back({Normal({random.Below(3) + 1, 4}, static_cast<uint64_t>(i)),
                    Normal({random.Below(9), 4}, static_cast<uint64_t>(i) + 50)});
  ExpectAsAlone(text, sets);
}

/// Plans that contexts in several threads use are made by whoever needs one, and share their parts.
TEST(NewShapes, ContextsInSeveralThreads) {
  constexpr int64_t kLengths = 40;
  std::vector<Inputs> sets;
  std::vector<Ran> want;
  for (int64_t past = 0; past < kLengths; ++past) {
    sets.push_back(OfTwoLayers(1, 1, past));
    want.push_back(RunAlone(kTwoLayers, sets.back(), 1));
  }
  const auto program = CompiledAnew(kTwoLayers, 1);
  std::vector<std::vector<Ran>> got(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < got.size(); ++t)
    threads.emplace_back([&, t] {
      const auto context = *program->NewContext();
      for (size_t i = 0; i < sets.size(); ++i)
        got[t].push_back(RunOf(*context, sets[(i * (2 * t + 1)) % sets.size()], 4));
    });
  for (std::thread& t : threads) t.join();
  for (size_t t = 0; t < got.size(); ++t)
    for (size_t i = 0; i < sets.size(); ++i)
      ExpectSameRun(got[t][i], want[(i * (2 * t + 1)) % sets.size()]);
}

}  // namespace
}  // namespace infer
