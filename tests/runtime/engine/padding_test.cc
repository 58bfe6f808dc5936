/// Requests that are made longer: what may be, what stands against it, and that results stay.
#include "runtime/engine/padding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/support/random.h"
#include "runtime/engine/simulation.h"
#include "runtime/engine/stack.h"
#include "tests/runtime/engine/hooked_program.h"

namespace infer::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PaddedAxes PaddingOf(const std::string& text, const std::string& symbol = "L") {
  return ProvePadding(Parsed(text), symbol);
}

/// Attention with a mask of 0 and 1, over rows of 4; what is done with the mask is left open.
std::string Attention(const std::string& hide, const std::string& behind = "y = MatMul(p, v)") {
  return R"(graph g(x: f32[N,L,4], m: i64[N,L]) -> (y) {
    wq = const f32[4,4] ~1 wk = const f32[4,4] ~2 wv = const f32[4,4] ~3
    q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) t = Transpose(k) {perm=[0,2,1]}
    s = MatMul(q, t) one = const i64[1] {1} mu = Unsqueeze(m, one) mf = Cast(mu) {to=1} )" +
         hide + " p = Softmax(h) " + behind + " }";
}
const char* const kAdded =
    "o = const f32[] {1} c = const f32[] {-10000} r = Sub(o, mf) b = Mul(r, c) h = Add(s, b)";
const char* const kChosen = "mb = Cast(mu) {to=9} c = const f32[] {-3e38} h = Where(mb, s, c)";

TEST(Padding, RowsThatStayApart) {
  const PaddedAxes a = PaddingOf(R"(graph g(x: f32[N,L,8]) -> (y, first) {
    w = const f32[8,5] ~1 h = MatMul(x, w) r = Relu(h) y = Softmax(r)
    at = const i64[] {2} first = Gather(y, at) {axis=1} })");
  EXPECT_TRUE(a.proved) << a.reason;
  EXPECT_THAT(a.inputs, ElementsAre(ElementsAre(1)));
  EXPECT_THAT(a.outputs, ElementsAre(ElementsAre(1), ElementsAre()));
  EXPECT_TRUE(a.masks.empty());
  EXPECT_EQ(a.least, 3) << "the third place must be there";
  EXPECT_FALSE(a.takes_finite);
}

TEST(Padding, AMaskPutsWhatIsAddedOutOfSight) {
  for (const char* hide : {kAdded, kChosen}) {
    const PaddedAxes a = PaddingOf(Attention(hide));
    EXPECT_TRUE(a.proved) << a.reason;
    EXPECT_THAT(a.masks, ElementsAre(1));
    EXPECT_THAT(a.outputs, ElementsAre(ElementsAre(1)));
    EXPECT_TRUE(a.takes_finite);
  }
}

TEST(Padding, SumsSkipZeros) {
  const PaddedAxes a = PaddingOf(R"(graph g(x: f32[N,L,4], m: f32[N,L]) -> (y) {
    two = const i64[1] {2} one = const i64[1] {1} mu = Unsqueeze(m, two) z = Mul(x, mu)
    s = ReduceSum(z, one) {keepdims=0} n = ReduceSum(mu, one) {keepdims=0} y = Div(s, n) })");
  EXPECT_TRUE(a.proved) << a.reason;
  EXPECT_THAT(a.outputs, ElementsAre(ElementsAre()));
}

TEST(Padding, TablesOfPositionsAreReadFromTheFirst) {
  const std::string head = R"(graph g(x: f32[N,L]) -> (y: f32[N,L], e: f32[N,L]) {
    pos = const f32[1,9] ~1 sh = Shape(x) )";
  const std::string tail = " e = Expand(cut, sh) y = Add(x, e) }";
  const PaddedAxes from_the_first =
      PaddingOf(head + R"(zero = const i64[2] {0,0} f = Cast(sh) {to=1} most = const f32[2] {inf,9}
        least = Min(f, most) end = Cast(least) {to=7} cut = Slice(pos, zero, end))" +
                tail);
  EXPECT_TRUE(from_the_first.proved) << from_the_first.reason;
  const PaddedAxes from_the_end =
      PaddingOf(head + R"(o = const i64[1] {1} l = Gather(sh, o) n = Neg(l)
    most = const i64[1] {99} cut = Slice(pos, n, most, o))" +
                tail);
  EXPECT_FALSE(from_the_end.proved);
  EXPECT_TRUE(PaddingOf(R"(graph g(ids: i64[N,L]) -> (y) { table = const f32[9,4] ~1 sh = Shape(ids)
    o = const i64[] {1} l = Gather(sh, o) z = const i64[] {0} r = Range(z, l, o)
    p = Gather(table, r) e = Gather(table, ids) y = Add(e, p) })")
                  .proved);
}

TEST(Padding, RefusalsNameTheNodeAndTheReason) {
  const std::pair<std::string, const char*> cases[] = {
      {Attention("h = Identity(s)"), "Softmax"},
      {Attention("c = const f32[] {-10} o = const f32[] {1} r = Sub(o, mf) b = Mul(r, c) "
                 "h = Add(s, b)"),
       "Softmax"},
      {Attention("c = const f32[] {-10000} b = Mul(mf, c) h = Add(s, b)"), "Softmax"},
      {Attention(kAdded, "u = LogSoftmax(h) y = MatMul(u, v)"), "MatMul"},
      {"graph g(x: f32[N,L,4]) -> (y) { y = ReduceMean(x) }", "ReduceMean"},
      {"graph g(x: f32[N,L,4]) -> (y) { a = const i64[1] {1} y = ReduceMax(x, a) }", "ReduceMax"},
      {"graph g(x: f32[N,L,4]) -> (y) { y = Flatten(x) }", "made of L"},
      {"graph g(x: f32[N,L,4]) -> (y) { l = const i64[] {-1} y = Gather(x, l) {axis=1} }",
       "does not stay apart"},
      {"graph g(x: f32[N,4,L]) -> (y) { w = const f32[4,4,3] ~1 y = Conv(x, w) {pads=[1,1]} }",
       "Conv"},
      {"graph g(x: f32[N,L]) -> (y) { a = const i64[] {1} y = CumSum(x, a) {reverse=1} }",
       "CumSum"},
      {"graph g(x: f32[N,L]) -> (y) { s = Shape(x) f = Cast(s) {to=1} m = ReduceMax(f) "
       "y = Mul(x, m) }",
       "depends on the extent"},
      {"graph g(x: f32[N,L]) -> (y, n) { y = Relu(x) n = Shape(x) }", "output 'n'"},
      {"graph g(x: f32[N,L]) -> (q, s, z) { q, s, z = DynamicQuantizeLinear(x) }",
       "DynamicQuantizeLinear"},
      {"graph g(x: f32[N,L]) -> (y) { r = RandomNormalLike(x) y = Add(x, r) }", "random"},
      {"graph g(x: str[L]) -> (y) { y = Identity(x) }", "cannot be padded"},
      {"graph g(x: f32[N,4]) -> (y) { y = Relu(x) }", "no input has an extent L"},
      {"graph g(x: f32[L,4], z: f32[L,4]) -> (y) { t = Transpose(z) y = MatMul(t, x) }", ""},
  };
  for (const auto& [text, reason] : cases) {
    auto graph = ParseGraph(text, Ops());
    ASSERT_TRUE(graph.ok()) << text << graph.status().message();
    const PaddedAxes a = ProvePadding(*graph, "L");
    if (std::string(reason).empty()) {
      EXPECT_TRUE(a.proved) << text << a.reason << ": zeros times zeros";
      continue;
    }
    EXPECT_FALSE(a.proved) << text;
    EXPECT_THAT(a.reason, HasSubstr(reason)) << text;
  }
}

TEST(Padding, MasksMustShowSomethingInEveryRow) {
  const PaddedAxes a = PaddingOf(Attention(kAdded));
  const auto allows = [&](std::vector<int64_t> mask) {
    Tensor m(DType::kI64, {2, 2});
    for (int64_t i = 0; i < 4; ++i) m.Set(i, static_cast<double>(mask[static_cast<size_t>(i)]));
    const Datum inputs[] = {Tensor::Zeros(DType::kF32, {2, 2, 4}), m};
    return MasksAllowPadding(a, inputs);
  };
  EXPECT_TRUE(allows({1, 0, 0, 1}));
  EXPECT_FALSE(allows({1, 1, 0, 0})) << "Softmax over nothing but hidden scores is no zero";
  EXPECT_FALSE(allows({2, 1, 2, 2}));
}

/// Every operator's example that is proved along any axis of its first operand: run with 3 places,
/// and with 5 of which the last are zeros.
TEST(Padding, ProvedExamplesKeepTheirFirstPlaces) {
  int proved = 0;
  for (const OpDef* def : Ops().all()) {
    if (def->example.empty()) continue;
    const std::string example(def->example);
    const size_t input = example.find("f32["), close = example.find(']', input);
    if (input == std::string::npos || example.find("const") < input) continue;
    std::vector<std::string> dims;
    for (size_t at = input + 4; at < close; at = example.find_first_of(",]", at) + 1)
      dims.push_back(example.substr(at, example.find_first_of(",]", at) - at));
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      std::string list;
      for (size_t i = 0; i < dims.size(); ++i)
        list += (i > 0 ? "," : "") + (i == axis ? std::string("L") : dims[i]);
      std::string text = example;
      text.replace(input + 4, close - input - 4, list);
      auto graph = ParseGraph(text, Ops());
      if (!graph.ok() || graph->inputs().size() != 1) continue;
      const PaddedAxes a = ProvePadding(*graph, "L");
      if (!a.proved) continue;
      auto program = MakeReferenceBackend()->Compile(*graph, {});
      ASSERT_TRUE(program.ok()) << text;
      Dims extents;
      for (const Dim& d : graph->inputs()[0]->shape().dims())
        extents.push_back(d.is_static() ? d.value() : 3);
      Tensor x(DType::kF32, extents);
      for (int64_t i = 0; i < x.num_elements(); ++i)
        x.Set(i, 0.125 + 0.125 * static_cast<double>(i % 5));
      const Datum alone[] = {x}, padded[] = {PaddedWithZeros(x, a.inputs[0], 5)};
      const auto want = RunOnce(**program, alone), got = RunOnce(**program, padded);
      if (!want.ok() || !got.ok() || a.least > 3) continue;  // of its own extents only
      ++proved;
      for (size_t o = 0; o < want->size(); ++o) {
        Datum d = (*got)[o];
        for (int at : a.outputs[o]) d = Part(d.tensor(), at, 0, 3);
        ASSERT_TRUE(BitEqual(d.tensor(), (*want)[o].tensor())) << text;
      }
    }
  }
  EXPECT_GT(proved, 100) << "operators whose examples could be judged";
}

// ---- in the engine ------------------------------------------------------------------------------

struct Padded {
  std::shared_ptr<Simulation> sim = std::make_shared<Simulation>(1, 2);
  std::unique_ptr<Engine> engine = *Engine::Make({.clock = sim, .executor = sim});
  std::vector<Outcome> outcomes;

  void Send(int64_t at, Request r) {
    const size_t i = outcomes.size();
    outcomes.emplace_back();
    sim->At(at, [this, r, i] {
      engine->Submit(r, [this, i](Outcome o) { outcomes[i] = std::move(o); });
    });
  }
  int64_t count(Padding p) const { return engine->Stats()[0].padding[static_cast<size_t>(p)]; }
};

TEST(Padding, RequestsOfABucketShareARunAndKeepTheirLengths) {
  Padded t;
  ASSERT_TRUE(t.engine
                  ->Load("m", SourceOf(kRowsModel),
                         {.batch = {.max_rows = 8, .max_delay_ns = 100},
                          .buckets = {.symbol = "L", .extents = {8, 4}}})
                  .ok());
  for (int64_t length : {2, 3, 4, 7, 9})
    t.Send(1, {.model = "m", .inputs = {Filled(static_cast<float>(length), 1, length)}});
  t.sim->RunAll();
  const int64_t rows[] = {3, 3, 3, 1, 1}, to[] = {4, 4, 0, 8, 0};
  for (size_t i = 0; i < t.outcomes.size(); ++i) {
    const Outcome& o = t.outcomes[i];
    ASSERT_EQ(o.end, State::kSucceeded) << o.status.message();
    EXPECT_EQ(o.batch_rows, rows[i]);
    EXPECT_EQ(o.padded_to, to[i]);
    const int64_t length = i < 3 ? static_cast<int64_t>(i) + 2 : i == 3 ? 7 : 9;
    ASSERT_EQ(o.outputs[0].tensor().dims(), (Dims{1, length}));
    for (int64_t k = 0; k < length; ++k)
      EXPECT_EQ(o.outputs[0].tensor().At(k), 2.0 * static_cast<double>(length));
  }
  EXPECT_EQ(t.count(Padding::kPadded), 3);
  EXPECT_EQ(t.count(Padding::kExact), 1);
  EXPECT_EQ(t.count(Padding::kLonger), 1);
  const ModelStats s = t.engine->Stats()[0];
  EXPECT_EQ(s.padded_from, 12);
  EXPECT_EQ(s.padded_to, 16);
}

TEST(Padding, WhatIsNotProvedRunsAsItIs) {
  Padded t;
  const auto source = SourceOf("graph g(x: f32[N,L]) -> (y) { y = Softmax(x) }");
  ASSERT_TRUE(t.engine->Load("m", source, {.buckets = {.extents = {8}}}).ok());
  EXPECT_THAT(t.engine->Stats()[0].unpaddable, HasSubstr("L: node Softmax"));
  t.Send(1, {.model = "m", .inputs = {Filled(1, 1, 4)}});
  t.sim->RunAll();
  EXPECT_EQ(FirstOf(t.outcomes[0]), 0.25f);
  EXPECT_EQ(t.outcomes[0].padded_to, 0);
}

TEST(Padding, BucketsThatMeanNothingAreRefused) {
  const auto engine = *Engine::Make();
  const auto load = [&](Buckets b) {
    return engine->Load("m", SourceOf(kRowsModel), {.buckets = std::move(b)}).message();
  };
  EXPECT_THAT(load({.symbol = "K", .extents = {8}}), HasSubstr("has no extent 'K'"));
  EXPECT_THAT(load({.symbol = "L", .extents = {8, 0}}), HasSubstr("a bucket of extent 0"));
}

/// A run that fails, or whose numbers are not finite, for what was added: again as it was.
TEST(Padding, WhatTheRunRefutesRunsAgainAsItIs) {
  for (const bool alone : {true, false}) {
    Padded t;
    const auto hook = [](const std::vector<Datum>& in, const RunOptions&) {
      return in[0].tensor().dim(1) == 8 ? Internal("no such place") : Status();
    };
    ASSERT_TRUE(
        t.engine
            ->Load("m", SourceOf(kRowsModel, hook),
                   {.batch = {.max_rows = 8, .max_delay_ns = 100}, .buckets = {.extents = {8}}})
            .ok());
    for (int i = 0; i < (alone ? 1 : 3); ++i)
      t.Send(1, {.model = "m", .inputs = {Filled(5, 1, 4 + i)}});
    t.sim->RunAll();
    for (const Outcome& o : t.outcomes) {
      ASSERT_EQ(o.end, State::kSucceeded) << o.status.message();
      EXPECT_EQ(FirstOf(o), 10);
      EXPECT_EQ(o.padded_to, 0);
    }
    EXPECT_EQ(t.count(Padding::kRefuted), alone ? 1 : 3);
  }
  // 0 * log(0) is no zero.
  Padded t;
  ASSERT_TRUE(t.engine
                  ->Load("m", SourceOf(R"(graph g(x: f32[N,L,1], m: f32[N,L,1]) -> (y) {
                    one = const i64[1] {1} l = Log(x) z = Mul(l, m) y = ReduceSum(z, one) })"),
                         {.buckets = {.extents = {8}}})
                  .ok());
  Tensor ones(DType::kF32, {1, 3, 1});
  for (float& v : ones.mutable_data<float>()) v = 1;
  t.Send(1, {.model = "m", .inputs = {ones, ones}});
  t.sim->RunAll();
  ASSERT_EQ(t.outcomes[0].end, State::kSucceeded);
  EXPECT_EQ(FirstOf(t.outcomes[0]), 0);
  EXPECT_EQ(t.count(Padding::kRefuted), 1);
}

TEST(Padding, TheWarmUpRefutesAProofThatDoesNotHold) {
  auto source = SourceOf("graph g(x: f32[N,L]) -> (y) { y = Softmax(x) }");
  source.padding[0].proved = true;
  source.padding[0].reason = "";
  source.padding[0].outputs = {{1}};
  const auto engine = *Engine::Make();
  ASSERT_TRUE(
      engine->Load("m", source, {.buckets = {.extents = {8}}, .warm_inputs = {Filled(1, 1, 4)}})
          .ok());
  EXPECT_THAT(engine->Stats()[0].unpaddable, HasSubstr("outputs differ"));
  EXPECT_EQ(FirstOf(engine->Infer({.model = "m", .inputs = {Filled(1, 1, 4)}})), 0.25f);
}

TEST(Padding, CancelledAndLateRequestsLeaveTheOthersTheirNumbers) {
  Padded t;
  std::stop_source stop;
  const auto hook = [&](const auto&, const RunOptions&) {
    stop.request_stop();
    t.sim->Elapse(1000);
    return Status();
  };
  ASSERT_TRUE(
      t.engine
          ->Load("m", SourceOf(kRowsModel, hook),
                 {.batch = {.max_rows = 4, .max_delay_ns = 100}, .buckets = {.extents = {8}}})
          .ok());
  for (int64_t length : {3, 4, 5})
    t.Send(1, {.model = "m",
               .inputs = {Filled(static_cast<float>(length), 1, length)},
               .timeout_ns = length == 4 ? 600 : kNever,
               .stop = length == 5 ? stop.get_token() : std::stop_token()});
  t.sim->RunAll();
  EXPECT_EQ(t.outcomes[0].end, State::kSucceeded);
  EXPECT_EQ(FirstOf(t.outcomes[0]), 6);
  EXPECT_EQ(t.outcomes[1].end, State::kTimedOut);
  EXPECT_EQ(t.outcomes[2].end, State::kCancelled);
}

}  // namespace
}  // namespace infer::engine
