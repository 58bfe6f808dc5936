/// The operator Attention as one step, against its reference kernel: both forms of its operands,
/// grouped heads, masks, causality, windows, softcap, caches, and what moves its operands.
#include <array>

#include "tests/suites/suite.h"

namespace infer {
namespace {

/// Whether the backend has its own kernel for every attention, and `count` steps in all.
void ExpectBlock(const std::vector<StepInfo>& steps, size_t count, const std::string& what) {
  if (AttentionKernel().empty() || !BackendUnderTest().HasKernelFor(*SuiteOps().Find("Attention")))
    return;
  for (const StepInfo& s : steps) {
    if (s.op.find("Attention") == std::string::npos) continue;
    EXPECT_TRUE(s.kernel.starts_with(AttentionKernel())) << s.kernel << what;
  }
  EXPECT_EQ(steps.size(), count) << what;
}

struct BlockForm {
  int64_t batch = 2, heads = 4, groups = 4, queries = 5, keys = 5, past = 0, size = 8, values = 8;
  bool split = true;  ///< [B, heads, length, size], else [B, length, heads * size]
  std::string mask = {}, attrs = {}, results = "y";
};

std::string Text(const BlockForm& f) {
  const auto type = [&](int64_t heads, int64_t length, int64_t size) {
    return f.split ? Cat("f32[", f.batch, ",", heads, ",", length, ",", size, "]")
                   : Cat("f32[", f.batch, ",", length, ",", heads * size, "]");
  };
  std::string text =
      Cat("graph g(q: ", type(f.heads, f.queries, f.size), ", k: ", type(f.groups, f.keys, f.size),
          ", v: ", type(f.groups, f.keys, f.values));
  if (!f.mask.empty()) text += Cat(", m: ", f.mask);
  if (f.past > 0)
    for (const auto& [name, size] : {std::pair("pk", f.size), std::pair("pv", f.values)})
      text += Cat(", ", name, ": f32[", f.batch, ",", f.groups, ",", f.past, ",", size, "]");
  std::string attrs = f.attrs;
  if (!f.split)
    attrs =
        Cat("q_num_heads=", f.heads, ", kv_num_heads=", f.groups, attrs.empty() ? "" : ", ", attrs);
  return Cat(text, ") -> (", f.results, ") { ", f.results, " = Attention(q, k, v",
             f.mask.empty() ? f.past > 0 ? ", _" : "" : ", m", f.past > 0 ? ", pk, pv" : "", ") {",
             attrs, "} }");
}

void Check(const BlockForm& f, size_t steps = 1) {
  const std::string text = Text(f);
  ExpectBlock(CheckGraph(text, static_cast<uint64_t>(f.queries + f.keys), 4e-6), steps, text);
}

TEST(AttentionBlock, Extents) {
  for (bool split : {false, true})
    for (const auto& [heads, groups] : {std::pair<int64_t, int64_t>{1, 1}, {4, 4}, {6, 2}, {4, 1}})
      for (int64_t queries : {1, 3, 4, 15, 33})
        for (int64_t keys : {1, 16, 37})
          for (int64_t size : {1, 8, 20, 64})
            Check({.heads = heads,
                   .groups = groups,
                   .queries = queries,
                   .keys = keys,
                   .size = size,
                   .values = size == 20 ? 33 : size,
                   .split = split});
}

TEST(AttentionBlock, Positions) {
  for (std::string_view attrs :
       {"is_causal=1", "left_window_size=2", "right_window_size=1",
        "left_window_size=0, right_window_size=0", "left_window_size=3, is_causal=1", "scale=-0.7",
        "softcap=1.5", "softcap=2.5, is_causal=1, scale=0.3"})
    for (int64_t past : {0, 1, 6, 30})
      for (int64_t length : {1, 2, 5, 17, 40}) {
        Check({.queries = length, .keys = length, .past = past, .attrs = std::string(attrs)});
        Check({.groups = 2,
               .queries = length,
               .keys = length,
               .past = past,
               .split = false,
               .attrs = std::string(attrs),
               .results = "y, pk2, pv2"});
      }
  // As many keys as there are, more queries than keys.
  Check({.queries = 20, .keys = 7, .attrs = "is_causal=1"});
  Check({.queries = 7, .keys = 20, .attrs = "is_causal=1"});
  Check({.queries = 30, .keys = 7, .attrs = "left_window_size=2"});
}

TEST(AttentionBlock, Masks) {
  for (std::string_view type : {"f32", "bool"})
    for (std::string_view extents :
         {"[20]", "[1,1,1,20]", "[2,1,1,20]", "[9,20]", "[2,1,9,20]", "[1,4,9,20]", "[2,4,9,20]",
          "[4,9,20]", "[4,1,20]", "[9,13]", "[1]", "[2,1,9,3]"})
      for (std::string_view attrs : {"", "is_causal=1", "softcap=3.0, left_window_size=4"})
        for (int64_t past : {0, 11})
          Check({.groups = 2,
                 .queries = 9,
                 .keys = 20 - past,
                 .past = past,
                 .mask = Cat(type, extents),
                 .attrs = std::string(attrs)});
}

TEST(AttentionBlock, QueriesThatSeeNothing) {
  const auto text = std::string(
      "graph g(q: f32[1,2,3,8], k: f32[1,2,6,8], v: f32[1,2,6,8]) -> (y) { m = const bool[3,6] "
      "{1,0,0,0,0,0, 0,0,0,0,0,0, 1,1,1,1,1,1} y = Attention(q, k, v, m) }");
  ExpectBlock(CheckGraph(text, 1, 4e-6), 1, text);
  const auto added = std::string(
      "graph g(q: f32[1,2,3,8], k: f32[1,2,4,8], v: f32[1,2,4,8]) -> (y) { m = const f32[3,4] "
      "{0,0,0,0, -inf,-inf,-inf,-inf, -inf,1,-inf,2} y = Attention(q, k, v, m) }");
  ExpectBlock(CheckGraph(added, 1, 4e-6), 1, added);
}

TEST(AttentionBlock, KeysThatCount) {
  for (std::string_view counts : {"{5, 3}", "{9, 1}", "{0, 9}"})
    for (std::string_view attrs : {"", "is_causal=1", "left_window_size=2"})
      for (int64_t queries : {1, 2, 6}) {
        const auto text = Cat("graph g(q: f32[2,4,", queries,
                              ",8], k: f32[2,2,9,8], v: f32[2,2,9,8]) -> (y) { "
                              "n = const i64[2] ",
                              counts, " y = Attention(q, k, v, _, _, _, n) {", attrs, "} }");
        ExpectBlock(CheckGraph(text, 3, 4e-6), 1, text);
      }
}

/// A cache may be empty, wanted alone, or read elsewhere.
TEST(AttentionBlock, Caches) {
  for (int64_t queries : {1, 6}) {
    const std::string rows = Cat("f32[2,", queries, ",16]");
    for (std::string_view results : {"y, a, b", "y, a", "y, _, b"}) {
      std::string wanted(results);
      if (wanted == "y, _, b") wanted = "y, b";
      for (int64_t past : {0, 5}) {
        const std::string old = Cat("f32[2,2,", past, ",8]");
        const auto text =
            Cat("graph g(q: ", rows, ", k: ", rows, ", v: ", rows, ", pk: ", old, ", pv: ", old,
                ") -> (", wanted, ") { ", results,
                " = Attention(q, k, v, _, pk, pv) {q_num_heads=2, kv_num_heads=2, is_causal=1} }");
        ExpectBlock(CheckGraph(text, 3, 4e-6), 1, text);
      }
    }
  }
}

/// What only moves operands and the result is a part of the step.
TEST(AttentionBlock, MovedOperands) {
  const auto split = std::string(
      "graph g(x: f32[2,11,72]) -> (y) { n = const i64[3] {24,24,24} q, k, v = Split(x, n) "
      "{axis=2} y = Attention(q, k, v) {q_num_heads=3, kv_num_heads=3, is_causal=1} }");
  ExpectBlock(CheckGraph(split, 1, 4e-6), 1, split);
  const auto moved = std::string(
      "graph g(q: f32[2,11,24], k: f32[2,13,24], v: f32[2,13,24], c: f32[2,3,4,8], d: f32[2,3,4,8])"
      " -> (y, a, b) { s = const i64[4] {0,0,3,8} r = const i64[3] {0,0,24} f = const f32[] {0.5} "
      "qr = Reshape(q, s) kr = Reshape(k, s) vr = Reshape(v, s) qt = Transpose(qr) "
      "{perm=[0,2,1,3]} kt = Transpose(kr) {perm=[0,2,1,3]} vt = Transpose(vr) {perm=[0,2,1,3]} "
      "qf = Mul(qt, f) h, a, b = Attention(qf, kt, vt, _, c, d) {scale=0.7} t = Transpose(h) "
      "{perm=[0,2,1,3]} y = Reshape(t, r) }");
  ExpectBlock(CheckGraph(moved, 1, 4e-6), 1, moved);
  // A factor on the keys is one on those that the cache takes, not on those that it had.
  const auto scaled = std::string(
      "graph g(q: f32[2,3,4,8], k: f32[2,3,4,8], v: f32[2,3,4,8], c: f32[2,3,5,8], d: f32[2,3,5,8])"
      " -> (y, a, b) { f = const f32[] {0.5} kf = Mul(k, f) y, a, b = Attention(q, kf, v, _, c, d) "
      "}");
  CheckGraph(scaled, 1, 4e-6);
  // What others read, too, stays a value.
  const auto shared = std::string(
      "graph g(x: f32[2,11,3,8]) -> (y, t) { t = Transpose(x) {perm=[0,2,1,3]} "
      "y = Attention(t, t, t) }");
  ExpectBlock(CheckGraph(shared, 1, 4e-6), 2, shared);
}

/// Scores as a result and types that the kernel leaves to others.
TEST(AttentionBlock, LeftToOthers) {
  for (std::string_view mode : {"0", "1", "2", "3"})
    CheckGraph(
        Cat("graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,8], m: f32[3,5]) -> "
            "(y, s) { y, _, _, s = Attention(q, k, v, m) {qk_matmul_output_mode=",
            mode, "} }"));
  CheckGraph(
      "graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,8], m: i32[3,5]) -> (y) "
      "{ y = Attention(q, k, v, m) }");
}

/// What reads the cache before what the result becomes keeps its place.
TEST(AttentionBlock, CacheIsReadBeforeTheResult) {
  CheckGraph(
      "graph g(q: f32[2,3,8], k: f32[2,3,8], v: f32[2,3,8], pk: f32[2,2,4,4], pv: f32[2,2,4,4]) -> "
      "(c, z) { h, a, b = Attention(q, k, v, _, pk, pv) {q_num_heads=2, kv_num_heads=2} "
      "i = const i64[1] {0} ua = Unsqueeze(a, i) ub = Unsqueeze(b, i) c = Concat(ua, ub) {axis=0} "
      "s = const i64[2] {6, 8} y = Reshape(h, s) z = Relu(y) }");
}

TEST(AttentionBlock, OpenExtents) {
  const std::string text =
      "graph g(q: f32[B,S,24], k: f32[B,S,8], v: f32[B,S,8], m: f32[B,1,S,P+S], pk: f32[B,1,P,8], "
      "pv: f32[B,1,P,8]) -> (y, a, b) { s = const i64[4] {0,0,3,8} r = const i64[3] {0,0,24} "
      "qr = Reshape(q, s) qt = Transpose(qr) {perm=[0,2,1,3]} n = const i64[4] {0,0,1,8} "
      "kr = Reshape(k, n) kt = Transpose(kr) {perm=[0,2,1,3]} vr = Reshape(v, n) "
      "vt = Transpose(vr) {perm=[0,2,1,3]} h, a, b = Attention(qt, kt, vt, m, pk, pv) "
      "t = Transpose(h) {perm=[0,2,1,3]} y = Reshape(t, r) }";
  auto g = ParseGraph(text, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  auto program = BackendUnderTest().Compile(*g, {.level = 2});
  ASSERT_TRUE(program.ok()) << program.status().message();
  ExpectBlock((*program)->steps(), 1, text);
  Random random(9);
  for (const auto& [b, s, p] :
       std::vector<std::array<int64_t, 3>>{{1, 4, 4}, {2, 17, 5}, {3, 1, 40}, {1, 6, 0}}) {
    std::vector<Datum> inputs = {RandomInput(DType::kF32, {b, s, 24}, random),
                                 RandomInput(DType::kF32, {b, s, 8}, random),
                                 RandomInput(DType::kF32, {b, s, 8}, random),
                                 RandomInput(DType::kF32, {b, 1, s, p + s}, random),
                                 RandomInput(DType::kF32, {b, 1, p, 8}, random),
                                 RandomInput(DType::kF32, {b, 1, p, 8}, random)};
    const auto want = Evaluate(*g, inputs), got = RunOnce(**program, inputs);
    ASSERT_TRUE(want.ok() && got.ok()) << got.status().message();
    for (size_t i = 0; i < 3; ++i)
      ExpectClose((*got)[i], (*want)[i], 4e-6, Cat(b, " ", s, " ", p, " result ", i));
  }
}

TEST(AttentionBlock, Halves) {
  for (std::string_view t : {"f16", "bf16"})
    CheckGraph(Cat("graph g(q: ", t, "[2,7,16], k: ", t, "[2,7,16], v: ", t,
                   "[2,7,16]) -> (y) { y = Attention(q, k, v) {q_num_heads=2, kv_num_heads=2, "
                   "is_causal=1} }"),
               1, t == "f16" ? 1e-3 : 1e-2);
}

TEST(AttentionBlock, SameBitsForAnyNumberOfThreads) {
  for (int64_t queries : {1, 30, 100})
    CheckSameBits(Text({.heads = 6,
                        .groups = 2,
                        .queries = queries,
                        .keys = queries,
                        .past = 40,
                        .size = 16,
                        .values = 16,
                        .attrs = "is_causal=1, softcap=4.0",
                        .results = "y, pk2, pv2"}));
}

}  // namespace
}  // namespace infer
