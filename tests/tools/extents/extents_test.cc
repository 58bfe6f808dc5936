/// Extents for open dimensions: those that inference relates to each other are chosen together.
#include <gmock/gmock.h>

#include "lib/support/strings.h"
#include "tests/tools/extents/found_extents.h"

namespace infer {
namespace {

/// The first choice runs, and `names` have extents that add up: the first is the sum of the others.
void ExpectFirstFits(const Graph& g, const std::vector<std::string>& sum,
                     const std::vector<std::pair<std::string, std::string>>& equal = {}) {
  const Found found = Find(g);
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  const OpenExtents& e = *found.extents;
  EXPECT_EQ(found.runs, 1) << ToString(e);
  if (!sum.empty()) {
    int64_t total = 0;
    for (size_t i = 1; i < sum.size(); ++i) total += e.at(sum[i]);
    EXPECT_EQ(e.at(sum[0]), total) << ToString(e);
  }
  for (const auto& [a, b] : equal) EXPECT_EQ(e.at(a), e.at(b)) << ToString(e);
}

/// Windows of sound are padded by their reflection: ONNX Runtime wants more sound than that.
TEST(Extents, AreMoreThanWhatIsReflected) {
  const char* const text =
      R"(graph g(x: f32[B,N]) -> (y) { p = const i64[4] {0,200,0,200} y = Pad(x, p)
      {mode="reflect"} })";
  const Found found = Find(Parsed(text));
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_GT(found.extents->at("N"), 200);
  // Extents that are asked for hold.
  const Found asked = Find(Parsed(text), 2, {{"N", 4}});
  ASSERT_TRUE(asked.extents.ok()) << asked.extents.status().message();
  EXPECT_EQ(asked.extents->at("N"), 4);
}

/// The range of `n` of the graph: the least and the most of many seeds, with 3 rows of 5.
std::pair<int64_t, int64_t> DrawnFrom(const std::string& text) {
  const Graph g = Parsed(text);
  int64_t least = INT64_MAX, most = INT64_MIN;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto inputs = RandomModelInputs(g, seed, {{"B", 3}, {"S", 5}});
    EXPECT_TRUE(inputs.ok()) << inputs.status().message();
    for (int64_t v : (*inputs)[1].tensor().ToInts()) {
      least = std::min(least, v);
      most = std::max(most, v);
    }
  }
  return {least, most};
}

TEST(Extents, LengthsAreOneAndMore) {
  const std::pair<int64_t, int64_t> lengths = {1, 5};
  // Masks of padding: positions of a Range, or constant ones, before the length.
  EXPECT_EQ(
      DrawnFrom(R"(graph g(x: f32[B,S,4], n: i64[B]) -> (y) { a = const i64[] {0} b = const i64[]
      {1} c = const i64[1] {1} s = Shape(x) {start=1, end=2} l = Squeeze(s) r = Range(a, l, b) u =
      Unsqueeze(n, c) m = Less(r, u) y = Not(m) })"),
      lengths);
  EXPECT_EQ(
      DrawnFrom(R"(graph g(x: f32[B,5], n: i32[B]) -> (y) { c = const i64[1] {1} f = Cast(n) {to=7}
      r = const i64[1,5] {0,1,2,3,4} u = Unsqueeze(f, c) m = GreaterOrEqual(r, u) y = Where(m, x,
      x) })"),
      lengths);
  // Of a recurrent layer.
  EXPECT_EQ(
      DrawnFrom(R"(graph g(x: f32[S,B,4], n: i32[B]) -> (h) { w = const f32[1,6,4] ~1 r = const
      f32[1,6,2] ~2 _, h = GRU(x, w, r, _, n) {hidden_size=2} })"),
      lengths);
  // One-hot codes: any position.
  EXPECT_EQ(DrawnFrom(R"(graph g(x: f32[B,5], n: i32[B]) -> (y) { c = const i64[1] {1} r = const
      i32[1,7] {0,1,2,3,4,5,6} u = Unsqueeze(n, c) m = Equal(u, r) y = Not(m) })"),
            (std::pair<int64_t, int64_t>{0, 6}));
  // No positions: a number like others.
  EXPECT_EQ(
      DrawnFrom(R"(graph g(x: f32[B,5], n: i64[B]) -> (y) { r = const i64[1] {7} m = Less(r, n) y =
      Not(m) })"),
      (std::pair<int64_t, int64_t>{0, 1}));
}

/// Many samples of sound beside a state of one stream, whose extents are named apart.
TEST(Extents, OneIsLongWhereTheOthersAreOne) {
  std::string window = "0";
  for (int i = 1; i < 200; ++i) window += ", 0";
  const Graph g = Parsed(Cat(R"(graph g(x: f32[batch,samples], state: f32[2,streams,3]) -> (y, z) {
    w = const f32[1,1,200] {)",
                             window, R"(}
    a = const i64[] {1}
    c = Unsqueeze(x, a)
    y = Conv(c, w)
    s = const i64[3] {2, 1, 3}
    z = Reshape(state, s)
  })"));
  const Found found = Find(g);
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_GE(found.extents->at("samples"), 200);
  EXPECT_EQ(found.extents->at("streams"), 1);
}

/// An audio model asks for its sampling rate, and knows two.
TEST(Inputs, NumbersThatTheModelComparesAnInputWith) {
  const Graph g = Parsed(R"(graph g(rate: i64[1], x: f32[2]) -> (a, b) {
    low = const i64[] {8000}
    high = const i64[] {16000}
    s = Squeeze(rate)
    a = Equal(s, low)
    b = Equal(high, s)
  })");
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto inputs = RandomModelInputs(g, seed);
    ASSERT_TRUE(inputs.ok());
    seen.insert((*inputs)[0].tensor().IntAt(0));
  }
  EXPECT_THAT(seen, testing::ElementsAre(8000, 16000));
}

TEST(Extents, OfAFusedDecoderWithAMaskOfPastAndNewKeys) {
  const Graph g = Parsed(R"(graph g(q: f32[batch,new,8], k: f32[batch,new,8], v: f32[batch,new,8],
      mask: i32[batch,total], a: f32[batch,2,past,4], c: f32[batch,2,past,4]) -> (y, k2, v2) {
    y, k2, v2 = com.microsoft::MultiHeadAttention(q, k, v, _, mask, _, a, c) {num_heads=2} })");
  ExpectFirstFits(g, {"total", "past", "new"});
}

/// Llama by TorchScript: the mask is made as long as the input that counts past and new keys, and
/// cut to the keys, which says nothing of a mask that is too long.
TEST(Extents, OfAMaskThatIsCutToTheKeys) {
  const Graph g = Parsed(R"(graph g(q: f32[b,2,new,4], mask: f32[b,total], a: f32[b,2,past,4])
      -> (y) {
    k = Concat(a, q) {axis=2}
    kt = Transpose(k) {perm=[0,1,3,2]}
    w = MatMul(q, kt)
    n = Shape(k) {start=2, end=3}
    z = const i64[1] {0}
    i = const i64[1] {3}
    u = const i64[2] {1, 2}
    m = Unsqueeze(mask, u)
    c = Slice(m, z, n, i)
    s = Add(w, c)
    y = MatMul(s, k) })");
  ExpectFirstFits(g, {"total", "past", "new"});
}

/// GPT-2 by TorchScript, the axes of each input with names of their own: mask.view(batch, -1).
TEST(Extents, OfAViewWithTheBatchOfAnotherInput) {
  const Graph g = Parsed(R"(graph g(q: f32[b,2,new,4], mask: f32[c,total], a: f32[d,2,past,4])
      -> (y) {
    k = Concat(a, q) {axis=2}
    kt = Transpose(k) {perm=[0,1,3,2]}
    w = MatMul(q, kt)
    n = Shape(q) {start=0, end=1}
    l = const i64[1] {-1}
    v = Concat(n, l) {axis=0}
    r = Reshape(mask, v)
    u = const i64[2] {1, 2}
    m = Unsqueeze(r, u)
    s = Add(w, m)
    y = MatMul(s, k) })");
  ExpectFirstFits(g, {"total", "past", "new"}, {{"b", "c"}, {"b", "d"}});
}

TEST(Extents, OfAnAttentionMaskThatIsAnInput) {
  const Graph g = Parsed(R"(graph g(q: f32[b,2,new,4], k: f32[b,2,new,4], v: f32[b,2,new,4],
      mask: f32[b,1,rows,total], a: f32[b,2,past,4], c: f32[b,2,past,4]) -> (y, k2, v2) {
    y, k2, v2 = Attention(q, k, v, mask, a, c) })");
  ExpectFirstFits(g, {"total", "past", "new"}, {{"rows", "new"}});
}

/// What torch.onnx.export(dynamo=True) writes: each input with symbols of its own, or with none.
constexpr std::string_view kDecoder = R"(graph g(ids: i64[@s0@,@s1@], mask: i64[@s2@,@s3@],
    pk: f32[@s4@,2,@s5@,4], pv: f32[@s6@,2,@s7@,4]) -> (y, k, v) {
  table = const f32[11,8] ~1
  heads = const i64[4] {0, 0, 2, 4}
  places = const i64[2] {1, 2}
  x = Gather(table, ids)
  split = Reshape(x, heads)
  q = Transpose(split) {perm=[0, 2, 1, 3]}
  k = Concat(pk, q) {axis=2}
  v = Concat(pv, q) {axis=2}
  kt = Transpose(k) {perm=[0, 1, 3, 2]}
  scores = MatMul(q, kt)
  floats = Cast(mask) {to=1}
  bias = Unsqueeze(floats, places)
  biased = Add(scores, bias)
  p = Softmax(biased)
  y = MatMul(p, v)
})";

std::string WithDims(bool named) {
  std::string text(kDecoder), out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = text.find('@', at), end = text.find('@', begin + 1);
    if (begin == std::string::npos) return out + text.substr(at);
    out += text.substr(at, begin - at) + (named ? text.substr(begin + 1, end - begin - 1) : "?");
    at = end + 1;
  }
  return out;
}

TEST(Extents, OfInputsWithSymbolsOfTheirOwn) {
  ExpectFirstFits(Parsed(WithDims(true)), {"s3", "s5", "s1"},
                  {{"s0", "s2"}, {"s0", "s4"}, {"s0", "s6"}, {"s5", "s7"}});
}

TEST(Extents, OfInputsWithoutNames) {
  ExpectFirstFits(Parsed(WithDims(false)), {"mask[1]", "pk[2]", "ids[1]"},
                  {{"ids[0]", "mask[0]"}, {"ids[0]", "pv[0]"}, {"pk[2]", "pv[2]"}});
}

TEST(Extents, FollowFromWhatIsFixed) {
  const Found found = Find(Parsed(WithDims(true)), 1, {{"s3", 7}, {"s1", 2}, {"s6", 3}});
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_THAT(*found.extents, testing::IsSupersetOf({testing::Pair("s5", 5), testing::Pair("s7", 5),
                                                     testing::Pair("s0", 3)}));
  EXPECT_EQ(found.runs, 1);
}

TEST(Extents, OfADecoderThatCountsItsKeys) {
  // The length is the sum of a mask, or given: random numbers would contradict the shapes.
  constexpr std::string_view kInputs = R"(graph g(q: f32[b,s,64], k: f32[b,s,32], v: f32[b,s,32],
      pk: f32[b,2,p,16], pv: f32[b,2,p,16], )";
  constexpr std::string_view kAttention = R"(y, nk, nv = com.microsoft::GroupQueryAttention(
      q, k, v, pk, pv, last, total) {num_heads=4, kv_num_heads=2} })";
  const Graph summed = Parsed(Cat(kInputs, R"(mask: i64[b,t]) -> (y, nk, nv) {
      axis = const i64[1] {1}  one = const i64[] {1}  sum = ReduceSum(mask, axis) {keepdims=0}
      less = Sub(sum, one)  last = Cast(less) {to=6}  shape = Shape(mask)
      t = Gather(shape, one)  total = Cast(t) {to=6}
      )",
                                  kAttention));
  ExpectFirstFits(summed, {"t", "p", "s"});
  const Graph given =
      Parsed(Cat(kInputs, "last: i32[b], total: i32[1]) -> (y, nk, nv) { ", kAttention));
  const Found found = Find(given);
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_EQ(found.runs, 1);
  for (const Graph* g : {&summed, &given})
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const auto inputs = RandomModelInputs(*g, seed, *Find(*g).extents);
      ASSERT_TRUE(inputs.ok());
      EXPECT_TRUE(Evaluate(*g, *inputs).ok());
    }
}

TEST(Extents, OfAReshapeToAnotherInputsExtents) {
  // 6 * n elements of x are [m, 2, k] of y.
  const Graph g = Parsed(R"(graph g(x: f32[n,6], y: f32[m,2,3]) -> (z) {
    s = Shape(y)
    r = Reshape(x, s)
    z = Add(r, y) })");
  ExpectFirstFits(g, {}, {{"n", "m"}});
}

/// Frames of a spectrum: a scale per band, then windows over time that want more than one frame.
TEST(Extents, OfAConstantWithMoreThanASmallSample) {
  const Found found = Find(Parsed(R"(graph g(x: f32[T,F,C]) -> (y) {
    s = const f32[80,3] ~1  m = Mul(x, s)
    a = const i64[1] {0}  u = Unsqueeze(m, a)  n = Transpose(u) {perm=[0,3,1,2]}
    w = const f32[2,3,7,3] ~2  y = Conv(n, w) })"));
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_EQ(found.extents->at("F"), 80);
  EXPECT_EQ(found.extents->at("C"), 3);
  EXPECT_GE(found.extents->at("T"), 7);
}

/// Rows of a Reshape to [-1, 1060] in front of a product: 10 channels of F - 38 bands.
TEST(Extents, OfRowsThatHoldAllAxesBehindTheFirst) {
  const Found found = Find(Parsed(R"(graph g(x: f32[T,F]) -> (y) {
    a = const i64[2] {0,1}  u = Unsqueeze(x, a)
    w = const f32[10,1,3,39] ~1  c = Conv(u, w)
    p = Transpose(c) {perm=[0,2,1,3]}  z = const i64[1] {0}  q = Squeeze(p, z)
    s = const i64[2] {-1,1060}  r = Reshape(q, s)
    v = const f32[1060,2] ~2  y = MatMul(r, v) })"));
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_EQ(found.extents->at("F"), 144);
  EXPECT_GE(found.extents->at("T"), 3);
}

/// Tokens of any number divide into rows, so that nothing is said about them.
TEST(Extents, OfRowsThatDivideStayOpen) {
  const Found found = Find(Parsed(R"(graph g(x: f32[B,T,8]) -> (y) {
    s = const i64[2] {-1,8}  r = Reshape(x, s)  w = const f32[8,2] ~1  y = MatMul(r, w) })"));
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_GT(found.extents->at("T"), 1);
}

TEST(Extents, ThatOnlyValuesRelateAreTriedOneByOne) {
  // What goes through a float is no longer followed: d = 2 * a is found by trying.
  const Graph g = Parsed(R"(graph g(a: f32[a], b: f32[b], c: f32[c], d: f32[d]) -> (x, y, z) {
    s = Shape(a)
    f = Cast(s) {to=1}
    i = Cast(f) {to=7}
    two = const i64[1] {2}
    t = Concat(two, i) {axis=0}
    x = Reshape(d, t)
    y = Neg(b)
    z = Neg(c) })");
  const Found found = Find(g);
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_EQ(found.extents->at("d"), 2 * found.extents->at("a"));
}

/// Masks and caches have four axes, and one to four heads.
TEST(Extents, OfMasksAndCachesStaySmall) {
  const Graph mask = Parsed(R"(graph g(x: f32[b,s,8], m: f32[b,1,s,s]) -> (y, z) {
    y = Neg(x)
    z = Neg(m) })");
  EXPECT_EQ(Find(mask, 1).extents->at("s"), 4);
  const Graph cache = Parsed(R"(graph g(k: f32[b,4,past,16], v: f32[b,4,past,16]) -> (y, z) {
    y = Neg(k)
    z = Neg(v) })");
  EXPECT_EQ(Find(cache, 1).extents->at("past"), 4);
}

/// Caches that the branch of a decoder with a past leaves empty (as Optimum merges decoders): six
/// runs tell that no extent fills them, and no large one is tried.
TEST(Extents, OutputsThatStayEmptyEndTheSearch) {
  const Graph g = Parsed(R"(graph g(x: f32[b,n], past: f32[b,p,4]) -> (y, z) {
    none = const f32[0,4] {}
    z = Identity(none)
    y = Relu(x) })");
  const Found found = Find(g);
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_EQ(found.extents->at("n"), 4);
  EXPECT_EQ(found.runs, 6);
}

/// A mask that has to be as long as cache and new tokens together, which only runs tell: small
/// extents are combined before any large one is run, those with several queries first.
TEST(Extents, ThatOnlyRunsTellAreCombinedBeforeLargeOnes) {
  const Graph g = Parsed(R"(graph g(ids: f32[b,seq], mask: f32[b,total], k: f32[b,2,past,8])
    -> (x, y, z) { x = Neg(ids)  y = Neg(mask)  z = Neg(k) })");
  ExtentSearch search{.first_batch = 2};
  int64_t largest = 0;
  search.run = [&](const OpenExtents& e) -> Result<bool> {
    largest = std::max(largest, e.at("total"));
    if (e.at("total") != e.at("past") + e.at("seq")) return InvalidArgument("out of range");
    return false;
  };
  const auto found = FindExtents(g, search);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(ToString(*found), "b = 1, past = 2, seq = 2, total = 4");
  EXPECT_LE(largest, 16);
}

/// Choices that are too large end nothing: smaller ones may fit.
TEST(Extents, ThatAreTooLargeGiveWayToSmallerOnes) {
  const Graph g = Parsed(R"(graph g(x: f32[b,n]) -> (y) { y = Neg(x) })");
  ExtentSearch search{.first_batch = 2};
  std::vector<OpenExtents> ran;
  search.run = [&](const OpenExtents& e) -> Result<bool> {
    ran.push_back(e);
    if (e.at("n") > 1) return ResourceExhausted("too much");
    return false;
  };
  const auto found = FindExtents(g, search);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->at("n"), 1);
  for (size_t i = 0; i < ran.size(); ++i)  // nothing as large as what was too large
    for (size_t k = 0; k < i; ++k)
      EXPECT_FALSE(ran[i].at("n") >= ran[k].at("n") && ran[i].at("b") >= ran[k].at("b"));
  search.run = [&](const OpenExtents&) -> Result<bool> { return ResourceExhausted("too much"); };
  EXPECT_EQ(FindExtents(g, search).status().code(), Code::kResource);
}

TEST(Extents, OfAModelThatWeDoNotRunSayWhy) {
  const Graph g = Parsed(R"(graph g(q: f32[b,s,8], m: i32[b,1,n,n]) -> (y) { y = Neg(q) })");
  int runs = 0;
  ExtentSearch search;
  search.run = [&](const OpenExtents&) -> Result<bool> {
    ++runs;
    return Unsupported("no kernel");
  };
  const auto found = FindExtents(g, search);
  EXPECT_EQ(found.status().code(), Code::kUnsupported);
  EXPECT_LE(runs, 4);
  search.run = [&](const OpenExtents&) -> Result<bool> { return Cancelled("stopped"); };
  EXPECT_EQ(FindExtents(g, search).status().code(), Code::kCancelled);
}

// ---- The equations ---------------------------------------------------------------------------

}  // namespace
}  // namespace infer
