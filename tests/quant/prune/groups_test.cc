/// Dependency groups: what goes together, what cannot go and why, and that zero units can.
#include "quant/prune/groups.h"

#include <gmock/gmock.h>

#include "tests/quant/prune/removal_property.h"

namespace infer {
namespace {

std::vector<ChannelGroup> GroupsOf(const Graph& g) {
  const auto layers = FindPrunable(g, g, {});
  EXPECT_TRUE(layers.ok()) << layers.status().message();
  return layers.ok() ? FindGroups(g, *layers) : std::vector<ChannelGroup>();
}

/// "c1: 8 units of 1, made by c1, read by c2", or "c2: reason".
std::string Text(const ChannelGroup& group) {
  const auto names = [](const std::vector<WeightsOfGroup>& all) {
    std::vector<std::string> out;
    for (const WeightsOfGroup& w : all)
      if (std::find(out.begin(), out.end(), w.layer) == out.end()) out.push_back(w.layer);
    std::sort(out.begin(), out.end());
    return Join(out, "+");
  };
  if (!group.reason.empty()) return Cat(group.name, ": ", group.reason);
  return Cat(group.name, ": ", group.units.size(), group.heads ? " heads of " : " units of ",
             group.unit_width(), ", made by ", names(group.producers), ", read by ",
             names(group.readers));
}

struct GroupCase {
  const char* name;
  const char* graph;
  std::vector<std::string> groups;
};

class Groups : public testing::TestWithParam<GroupCase> {};

TEST_P(Groups, AreFound) {
  const Graph g = MustParse(GetParam().graph);
  std::vector<std::string> found;
  for (const ChannelGroup& group : GroupsOf(g)) found.push_back(Text(group));
  EXPECT_EQ(found, GetParam().groups);
}

INSTANTIATE_TEST_SUITE_P(
    Graphs, Groups,
    testing::Values(
        GroupCase{"Chain",
                  R"(graph g(x: f32[1,3,4,4]) -> (y) {
                    w1 = const f32[8,3,1,1] ~1 c1 = Conv(x, w1) r = Relu(c1)
                    w2 = const f32[5,8,1,1] ~2 y = Conv(r, w2) })",
                  {"c1: 8 units of 1, made by c1, read by y", "y: 'y' is an output of the graph"}},
        GroupCase{
            "Residual",
            R"(graph g(x: f32[1,3,4,4]) -> (y) {
                    w1 = const f32[8,3,1,1] ~1 c1 = Conv(x, w1)
                    w2 = const f32[8,8,1,1] ~2 c2 = Conv(c1, w2)
                    s = Add(c1, c2) p = GlobalAveragePool(s) f = Flatten(p)
                    w3 = const f32[8,2] ~3 y = MatMul(f, w3) })",
            {"c1: 8 units of 1, made by c1+c2, read by c2+y", "y: 'y' is an output of the graph"}},
        GroupCase{"FlattenIntoGemm",
                  R"(graph g(x: f32[1,3,4,4]) -> (y) {
                    w1 = const f32[8,3,1,1] ~1 c1 = Conv(x, w1) f = Flatten(c1)
                    w3 = const f32[2,128] ~3 y = Gemm(f, w3) {transB=1} })",
                  {"c1: 8 units of 1, made by c1, read by y", "y: 'y' is an output of the graph"}},
        GroupCase{"Depthwise",
                  R"(graph g(x: f32[1,3,4,4]) -> (y) {
                    w1 = const f32[8,3,1,1] ~1 c1 = Conv(x, w1)
                    w2 = const f32[8,1,3,3] ~2 c2 = Conv(c1, w2) {group=8}
                    w3 = const f32[5,8,1,1] ~3 y = Conv(c2, w3) })",
                  {"c1: 8 units of 1, made by c1, read by y", "y: 'y' is an output of the graph"}},
        GroupCase{
            "GroupedByGroups",
            R"(graph g(x: f32[1,3,4,4]) -> (y) {
                    w1 = const f32[8,3,1,1] ~1 c1 = Conv(x, w1)
                    w2 = const f32[12,2,1,1] ~2 c2 = Conv(c1, w2) {group=4}
                    w3 = const f32[5,12,1,1] ~3 y = Conv(c2, w3) })",
            {"c1: 4 units of 2, made by c1+c2, read by y", "y: 'y' is an output of the graph"}},
        GroupCase{
            "Heads",
            R"(graph g(x: f32[1,3,6]) -> (y) {
                    wq = const f32[6,8] ~1 wk = const f32[6,8] ~2 wv = const f32[6,8] ~3
                    q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
                    s = const i64[4] {0, 3, 4, 2}
                    q1 = Reshape(q, s) k1 = Reshape(k, s) v1 = Reshape(v, s)
                    q2 = Transpose(q1) {perm=[0, 2, 1, 3]} k2 = Transpose(k1) {perm=[0, 2, 3, 1]}
                    v2 = Transpose(v1) {perm=[0, 2, 1, 3]}
                    a = MatMul(q2, k2) p = Softmax(a) o = MatMul(p, v2)
                    o1 = Transpose(o) {perm=[0, 2, 1, 3]} t = const i64[3] {0, 0, -1}
                    o2 = Reshape(o1, t) wo = const f32[8,5] ~4 y = MatMul(o2, wo) })",
            {"q: 4 heads of 2, made by k+q+v, read by y", "y: 'y' is an output of the graph"}},
        GroupCase{
            "SharedHeads",
            R"(graph g(x: f32[1,3,6]) -> (y) {
                    wq = const f32[6,8] ~1 wk = const f32[6,4] ~2 wv = const f32[6,4] ~3
                    q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
                    o = Attention(q, k, v) {q_num_heads=4, kv_num_heads=2}
                    wo = const f32[8,5] ~4 y = MatMul(o, wo) })",
            {"q: 2 heads of 4, made by k+q+v, read by y", "y: 'y' is an output of the graph"}},
        GroupCase{
            "HeadsOfMultiHeadAttention",
            R"(graph g(x: f32[1,3,6]) -> (y) {
                    wq = const f32[6,8] ~1 wk = const f32[6,8] ~2 wv = const f32[6,8] ~3
                    q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) b = const f32[24] ~5
                    o = com.microsoft::MultiHeadAttention(q, k, v, b) {num_heads=4}
                    wo = const f32[8,5] ~4 y = MatMul(o, wo) })",
            {"q: 4 heads of 2, made by k+q+v, read by y", "y: 'y' is an output of the graph"}},
        GroupCase{
            "WholeGroupsOfGroupQueryAttention",
            R"(graph g(x: f32[1,3,6]) -> (y) {
                    wq = const f32[6,16] ~1 wk = const f32[6,8] ~2 wv = const f32[6,8] ~3
                    q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv)
                    l = const i32[1] {2} t = const i32[] {3}
                    o = com.microsoft::GroupQueryAttention(q, k, v, _, _, l, t)
                        {num_heads=4, kv_num_heads=2}
                    wo = const f32[16,5] ~4 y = MatMul(o, wo) })",
            {"q: 2 heads of 8, made by k+q+v, read by y", "y: 'y' is an output of the graph"}},
        GroupCase{
            "PackedHeadsStay",
            R"(graph g(x: f32[1,3,6]) -> (y) {
                    w = const f32[6,32] ~1 q = MatMul(x, w)
                    l = const i32[1] {2} t = const i32[] {3}
                    o = com.microsoft::GroupQueryAttention(q, _, _, _, _, l, t)
                        {num_heads=4, kv_num_heads=2}
                    wo = const f32[16,5] ~4 y = MatMul(o, wo) })",
            {"q: GroupQueryAttention -> 'o' takes queries, keys and values packed in one operand, "
             "of which heads do not leave",
             "y: 'y' is an output of the graph"}},
        GroupCase{"Gate",
                  R"(graph g(x: f32[1,3,4,4]) -> (y) {
                    w1 = const f32[8,3,1,1] ~1 c1 = Conv(x, w1)
                    p = GlobalAveragePool(c1) w2 = const f32[4,8,1,1] ~2 c2 = Conv(p, w2)
                    r = Relu(c2) w3 = const f32[8,4,1,1] ~3 c3 = Conv(r, w3) e = Sigmoid(c3)
                    m = Mul(c1, e) w4 = const f32[5,8,1,1] ~4 y = Conv(m, w4) })",
                  {"c1: 8 units of 1, made by c1+c3, read by c2+y",
                   "c2: 4 units of 1, made by c2, read by c3", "y: 'y' is an output of the graph"}},
        GroupCase{"Normalized",
                  R"(graph g(x: f32[1,3,6]) -> (y) {
                    w1 = const f32[6,8] ~1 h = MatMul(x, w1) s = const f32[8] ~2
                    n = LayerNormalization(h, s) w2 = const f32[8,5] ~3 y = MatMul(n, w2) })",
                  {"h: LayerNormalization -> 'n' normalizes over the axis: without channels its "
                   "statistics are others",
                   "y: 'y' is an output of the graph"}},
        GroupCase{
            "Softmaxed",
            R"(graph g(x: f32[1,3,6]) -> (y) {
                    w1 = const f32[6,8] ~1 h = MatMul(x, w1) n = Softmax(h)
                    w2 = const f32[8,5] ~3 y = MatMul(n, w2) })",
            {"h: Softmax -> 'n' shares out one over the axis", "y: 'y' is an output of the graph"}},
        GroupCase{"Summed",
                  R"(graph g(x: f32[1,3,4,4]) -> (y) {
                    w1 = const f32[8,3,1,1] ~1 c1 = Conv(x, w1) a = const i64[1] {1}
                    m = ReduceMean(c1, a) w2 = const f32[5,1,1,1] ~2 y = Conv(m, w2) })",
                  {"c1: ReduceMean -> 'm' makes one number of the whole axis",
                   "y: 'y' is an output of the graph"}},
        GroupCase{"CutElsewhere",
                  R"(graph g(x: f32[4,6]) -> (y) {
                    w1 = const f32[6,6] ~1 h = MatMul(x, w1) s = const i64[2] {6, 4}
                    r = Reshape(h, s) w2 = const f32[4,5] ~2 y = MatMul(r, w2) })",
                  {"h: Reshape -> 'r' cuts the axis in other places",
                   "y: 'y' is an output of the graph"}},
        GroupCase{"FromTheInput",
                  R"(graph g(x: f32[1,8,4,4]) -> (y) {
                    w1 = const f32[8,8,1,1] ~1 c1 = Conv(x, w1) s = Add(x, c1)
                    w2 = const f32[5,8,1,1] ~2 y = Conv(s, w2) })",
                  {"c1: 'x' is an input of the graph", "y: 'y' is an output of the graph"}},
        GroupCase{"NobodyReads",
                  R"(graph g(x: f32[1,3,6]) -> (y) {
                    w1 = const f32[6,8] ~1 w2 = const f32[6,8] ~2
                    q = MatMul(x, w1) k = MatMul(x, w2) t = Transpose(k) {perm=[0, 2, 1]}
                    y = MatMul(q, t) })",
                  {"q: two results of the model are multiplied and summed along it",
                   "k: two results of the model are multiplied and summed along it"}},
        GroupCase{"TiedWeights",
                  R"(graph g(x: f32[1,6]) -> (y) {
                    w = const f32[6,6] ~1 a = MatMul(x, w) r = Relu(a) y = MatMul(r, w) })",
                  {"a: 'x' is an input of the graph", "y: 'y' is an output of the graph"}},
        GroupCase{"TableAlone",
                  R"(graph g(x: i64[1,3]) -> (y) {
                    e = const f32[9,8] ~1 h = Gather(e, x) r = Relu(h)
                    w = const f32[8,5] ~2 y = MatMul(r, w) })",
                  {"h: 8 units of 1, made by h, read by y", "y: 'y' is an output of the graph"}},
        GroupCase{"TableAndPositions",
                  R"(graph g(x: i64[1,3], p: i64[1,3]) -> (y) {
                    e = const f32[9,8] ~1 h = Gather(e, x) t = const f32[3,8] ~3 q = Gather(t, p)
                    s = Add(h, q) w = const f32[8,5] ~2 y = MatMul(s, w) })",
                  {"h: 8 units of 1, made by h+q, read by y", "y: 'y' is an output of the graph"}},
        GroupCase{"TableNormalized",
                  R"(graph g(x: i64[1,3]) -> (y) {
                    e = const f32[9,8] ~1 h = Gather(e, x) s = const f32[8] ~3
                    n = LayerNormalization(h, s) w = const f32[8,5] ~2 y = MatMul(n, w) })",
                  {"h: LayerNormalization -> 'n' normalizes over the axis: without channels its "
                   "statistics are others",
                   "y: 'y' is an output of the graph"}},
        GroupCase{"TableThatIsWeights",
                  R"(graph g(x: i64[3]) -> (y) {
                    e = const f32[9,8] ~1 h = Gather(e, x) r = Relu(h)
                    y = Gemm(r, e) {transB=1} })",
                  {"h: h: it is more than weights: other operators read it, too",
                   "y: 'y' is an output of the graph"}},
        GroupCase{"Recurrent",
                  R"(graph g(x: f32[3,1,4]) -> (y) {
                    w1 = const f32[4,6] ~1 h = MatMul(x, w1)
                    w = const f32[1,12,6] ~2 r = const f32[1,12,3] ~3
                    y, _ = LSTM(h, w, r) {hidden_size=3} })",
                  {"h: 6 units of 1, made by h, read by y"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Removal, ZeroUnitsCanGo) {
  RemovalCounts counts;
  const uint64_t seeds = std::getenv("INFER_SANITIZED") ? 150 : 400;
  for (uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed)
    CheckRandomRemoval(seed, counts);
  EXPECT_GT(counts.narrowed, static_cast<int64_t>(seeds) * 3 / 4);
  for (const auto& [kind, n] : counts.kinds) EXPECT_GT(counts.narrowed_kinds[kind], 0) << kind;
  for (const auto& [reason, n] : counts.reasons) RecordProperty("refused", Cat(reason, ": ", n));
}

TEST(ShrinkTest, RefusesWhatIsNotThere) {
  const Graph g = MustParse(
      "graph g(x: f32[1,4]) -> (y) { w = const f32[4,6] ~1 h = MatMul(x, w) v = const f32[6,2] ~2 "
      "y = MatMul(h, v) }");
  EXPECT_EQ(Shrink(g, {{{"nothing", 0}, {0}}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Shrink(g, {{{"h", 2}, {0}}}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Shrink(g, {{{"h", 1}, {6}}}).status().code(), Code::kInvalidArgument);
  const auto all = Shrink(g, {{{"w", 1}, {0, 1, 2, 3, 4, 5}}});
  EXPECT_EQ(all.status().code(), Code::kInvalidArgument);
  // Cuts that are not closed do not pass unseen.
  EXPECT_EQ(Shrink(g, {{{"w", 1}, {0}}}).status().code(), Code::kUnsupported);
}

TEST(ShrinkTest, DirectionsGoOnlyTogether) {
  const Graph g = MustParse(R"(graph g(x: f32[3,1,4]) -> (z) {
    w = const f32[2,12,4] ~1 r = const f32[2,12,3] ~2
    y, _ = LSTM(x, w, r) {hidden_size=3, direction="bidirectional"}
    z = ReduceSum(y) })");
  const auto cut = Shrink(g, {{{"w", 0}, {1}}, {{"r", 0}, {1}}, {{"y", 1}, {1}}});
  EXPECT_EQ(cut.status().code(), Code::kUnsupported);
  EXPECT_THAT(cut.status().message(), testing::HasSubstr("its directions go only together"));
}

}  // namespace
}  // namespace infer
