/// GroupQueryAttention over caches: steps and prompts, grouped heads, rotation, windows, and past
/// and present in one buffer.
#include "tests/suites/suite.h"

namespace infer {
namespace {

struct GroupForm {
  int64_t batch = 2, queries = 1, heads = 4, groups = 2, size = 20, past = 9;
  std::string lengths = "{7, 4}";
  int64_t total = 9;
  bool packed = false;
  std::string attrs;
  std::string results = "y, k2, v2";  ///< what the graph gives
  bool late_total = false;            ///< only the run knows total_sequence_length
};

std::string Text(const GroupForm& f) {
  const auto head = [&](int64_t heads) {
    return Cat("f32[", f.batch, ",", f.queries, ",", heads * f.size, "]");
  };
  std::string text = f.packed ? Cat("graph g(q: ", head(f.heads + 2 * f.groups))
                              : Cat("graph g(q: ", head(f.heads), ", k: ", head(f.groups),
                                    ", v: ", head(f.groups));
  const std::string cache = Cat("f32[", f.batch, ",", f.groups, ",", f.past, ",", f.size, "]");
  if (f.past > 0) text += Cat(", pk: ", cache, ", pv: ", cache);
  const bool rotates = f.attrs.find("do_rotary") != std::string::npos;
  text += Cat(f.late_total ? ", t: i32[]" : "", ") -> (", f.results, ") { l = const i32[", f.batch,
              "] ", f.lengths, " ");
  if (!f.late_total) text += Cat("t = const i32[] {", f.total, "} ");
  if (rotates) text += "c = const f32[80,8] ~1 s = const f32[80,8] ~2 ";
  return text + Cat("y, k2, v2 = com.microsoft::GroupQueryAttention(q, ",
                    f.packed ? "_, _" : "k, v", f.past > 0 ? ", pk, pv" : ", _, _", ", l, t",
                    rotates ? ", c, s" : "", ") {num_heads=", f.heads, ", kv_num_heads=", f.groups,
                    f.attrs, "} }");
}

TEST(GroupAttention, StepsAndPrompts) {
  for (const char* attrs : {"", ", scale=0.3", ", local_window_size=3", ", do_rotary=1",
                            ", do_rotary=1, rotary_interleaved=1"})
    for (bool packed : {false, true}) {
      CheckGraph(Text({.packed = packed, .attrs = attrs}));
      CheckGraph(Text({.queries = 3, .lengths = "{8, 2}", .packed = packed, .attrs = attrs}));
      CheckGraph(Text({.queries = 6,
                       .past = 0,
                       .lengths = "{5, 3}",
                       .total = 6,
                       .packed = packed,
                       .attrs = attrs}));
      CheckGraph(Text({.heads = 6,
                       .groups = 1,
                       .past = 20,
                       .lengths = "{20, 0}",
                       .total = 21,
                       .packed = packed,
                       .attrs = attrs}));
    }
  for (int64_t size : {16, 64, 80, 128})
    CheckGraph(Text({.size = size, .past = 130, .lengths = "{129, 30}", .total = 130}));
}

/// More queries than a step of decoding has, at the start and behind a past.
TEST(GroupAttention, Prompts) {
  for (const char* attrs : {"", ", scale=0.3", ", local_window_size=3", ", do_rotary=1",
                            ", do_rotary=1, rotary_interleaved=1, local_window_size=9"})
    for (bool packed : {false, true})
      for (int64_t queries : {4, 15, 33}) {
        const int64_t old = 6;
        CheckGraph(Text({.queries = queries,
                         .past = 0,
                         .lengths = Cat("{", queries - 1, ", ", queries - 2, "}"),
                         .total = queries,
                         .packed = packed,
                         .attrs = attrs}));
        CheckGraph(Text({.queries = queries,
                         .past = old,
                         .lengths = Cat("{", old + queries - 1, ", ", queries + 1, "}"),
                         .total = old + queries,
                         .packed = packed,
                         .attrs = attrs}));
      }
  CheckGraph(Text({.queries = 20,
                   .heads = 6,
                   .groups = 1,
                   .size = 64,
                   .past = 300,
                   .lengths = "{250, 40}",
                   .total = 251}));
}

TEST(GroupAttention, SameBitsForAnyNumberOfThreads) {
  CheckSameBits(Text({.queries = 40,
                      .heads = 6,
                      .groups = 2,
                      .past = 30,
                      .lengths = "{60, 45}",
                      .total = 70,
                      .attrs = ", do_rotary=1"}));
  CheckSameBits(Text(
      {.heads = 12, .groups = 6, .size = 64, .past = 300, .lengths = "{299, 100}", .total = 300}));
}

/// A step of decoding spelled out in nodes: few queries, caches that grow by Concat.
TEST(GroupAttention, FewQueriesSpelledOut) {
  for (int64_t queries : {1, 2, 3, 4})
    for (int64_t size : {16, 20, 64})
      for (int64_t past : {1, 6, 130})
        for (bool masked : {false, true}) {
          const std::string cache = Cat("f32[2,3,", past, ",", size, "]");
          const std::string rows = Cat("f32[2,", queries, ",3,", size, "]");
          CheckGraph(Cat(
              "graph g(q: ", rows, ", k: ", rows, ", v: ", rows, ", pk: ", cache, ", pv: ", cache,
              ") -> (y, k2, v2) { d = const f32[] {8} m = const f32[", queries, ",", past + queries,
              "] ~1", " a = Transpose(q) {perm=[0,2,1,3]} b = Transpose(k) {perm=[0,2,1,3]}",
              " c = Transpose(v) {perm=[0,2,1,3]} k2 = Concat(pk, b) {axis=2}",
              " v2 = Concat(pv, c) {axis=2} t = Transpose(k2) {perm=[0,1,3,2]}",
              " s = MatMul(a, t) w = Div(s, d) ", masked ? "x = Add(w, m)" : "x = Mul(w, d)",
              " p = Softmax(x) {axis=-1} o = MatMul(p, v2)",
              " y = Transpose(o) {perm=[0,2,1,3]} }"));
        }
}

/// Whichever results nobody reads: the kernel still needs the caches, and a place for them.
TEST(GroupAttention, ResultsThatNobodyReads) {
  for (const char* results : {"y", "y, k2", "y, v2", "k2", "v2", "k2, v2"})
    for (const char* attrs : {"", ", do_rotary=1"})
      for (bool packed : {false, true})
        for (int64_t queries : {1, 6}) {
          const auto steps = CheckGraph(Text({.queries = queries,
                                              .past = 9,
                                              .lengths = "{8, 6}",
                                              .total = 9,
                                              .packed = packed,
                                              .attrs = attrs,
                                              .results = results}));
          EXPECT_EQ(steps.size(), 1u);
          ExpectFast(steps);
        }
}

/// The caches are as long as the model says where total_sequence_length comes with the run; where
/// it says something else the run is refused, before anything is written.
TEST(GroupAttention, LengthsThatOnlyTheRunKnows) {
  const auto declared = [](int64_t cache) {
    const std::string type = Cat(": f32[2,2,", cache, ",20]");
    return Text({.past = 12, .results = Cat("y, k2", type, ", v2", type), .late_total = true});
  };
  for (int64_t cache : {12, 4, 13, 5000}) {
    auto g = ParseGraph(declared(cache), SuiteOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    Random random(4);
    std::vector<Datum> inputs;
    for (const Value* v : g->inputs())
      inputs.push_back(v->name() == "t" ? Datum(Tensor::Scalar<int32_t>(9))
                                        : Datum(RandomInput(v->dtype(), DimsOf(*v), random)));
    if (cache == 12) {
      const auto steps = CheckGraph(declared(cache), inputs);
      EXPECT_EQ(steps.size(), 1u);
      ExpectFast(steps);
      continue;
    }
    EXPECT_EQ(Evaluate(*g, inputs).status().code(), Code::kInvalidModel) << cache;
    auto program = BackendUnderTest().Compile(*g, {});
    ASSERT_TRUE(program.ok()) << program.status().message();
    EXPECT_EQ(RunOnce(**program, inputs).status().code(), Code::kInvalidModel) << cache;
  }
  // Neither caches nor total are known before the run.
  const std::string text = Text({.past = 12, .results = "y", .late_total = true});
  auto g = ParseGraph(text, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  Random random(4);
  std::vector<Datum> inputs;
  for (const Value* v : g->inputs())
    inputs.push_back(v->name() == "t" ? Datum(Tensor::Scalar<int32_t>(9))
                                      : Datum(RandomInput(v->dtype(), DimsOf(*v), random)));
  CheckGraph(text, inputs);
}

/// The caller gives one buffer for past and present; lengths come as an input.
TEST(GroupAttention, PastAndPresentMayBeOneBuffer) {
  constexpr int64_t kSteps = 20, kWidth = 32;
  const auto g = ParseGraph(
      Cat("graph g(q: f32[1,1,", 3 * kWidth, "], l: i32[1], pk: f32[1,4,", kSteps,
          ",8], pv: f32[1,4,", kSteps, ",8]) -> (y, k2, v2) {", " t = const i32[] {", kSteps, "}",
          " y, k2, v2 = com.microsoft::GroupQueryAttention(q, _, _, pk, pv,",
          " l, t) {num_heads=4, kv_num_heads=4} }"),
      SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto program = BackendUnderTest().Compile(*g, {});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto context = *(*program)->NewContext();
  Tensor shared[2] = {Tensor(DType::kF32, {1, 4, kSteps, 8}),
                      Tensor(DType::kF32, {1, 4, kSteps, 8})};
  Tensor apart[2];
  for (int i : {0, 1}) {
    for (float& v : shared[i].mutable_data<float>()) v = 0;
    apart[i] = shared[i].Clone();
    ASSERT_TRUE(context->BindOutput(static_cast<size_t>(i) + 1, shared[i]).ok());
    ASSERT_TRUE(context->BindInput(static_cast<size_t>(i) + 2, shared[i]).ok());
  }
  Random random(3);
  for (int32_t step = 0; step < kSteps; ++step) {
    const Tensor q = RandomInput(DType::kF32, {1, 1, 3 * kWidth}, random);
    const Tensor length = Tensor::Of<int32_t>({1}, {step});
    ASSERT_TRUE(context->BindInput(0, q).ok() && context->BindInput(1, length).ok());
    const Status run = context->Run();
    ASSERT_TRUE(run.ok()) << run.message();
    const std::vector<Datum> inputs = {q, length, apart[0], apart[1]};
    const auto want = Evaluate(*g, inputs);
    ASSERT_TRUE(want.ok()) << want.status().message();
    ExpectClose(context->output(0), (*want)[0], 1e-5, Cat("step ", step));
    for (size_t i : {0, 1}) apart[i] = (*want)[i + 1].tensor();
  }
}

}  // namespace
}  // namespace infer
