/// Promises of links between axes, on the examples of all operators and on calls that are harder:
/// a change reaches its label only, and no axis that behaves so goes unmentioned.
#include "lib/ops/axes.h"

#include <map>
#include <set>

#include "tests/lib/ops/node_sample.h"

namespace infer {
namespace {

int64_t IndexAlong(const Dims& dims, int axis, int64_t flat) {
  for (size_t d = dims.size(); d-- > static_cast<size_t>(axis) + 1;) flat /= dims[d];
  return flat % dims[static_cast<size_t>(axis)];
}

std::string Side(char kind, const LabelledAxis& a) {
  std::string s = Cat(std::string(1, kind), a.value, "[", a.axis, "]");
  if (a.inner != 1) s += Cat("/", a.inner);
  if (a.begin != 0) s += Cat("+", a.begin);
  if (a.step != 1) s += Cat("*", a.step);
  if (a.count >= 0) s += Cat("#", a.count);
  return s;
}

/// "i0[1]/2 = o0[1] :4": 4 labels, two neighbours of the operand's axis under one.
std::string Describe(const AxisLinks& links) {
  std::vector<std::string> texts;
  for (const AxisLink& l : links) {
    const bool same = l.kind == AxisLink::Kind::kSame;
    std::string labels = l.labels < 0 ? "" : Cat(" :", l.labels);
    texts.push_back(
        Cat(Side('i', l.from), same ? " = " : " x ", Side(same ? 'o' : 'i', l.to), labels));
  }
  std::sort(texts.begin(), texts.end());
  return Join(texts, ", ");
}

/// Indices of result axis `axis` at which something differs.
std::set<int64_t> ChangedAlong(const Tensor& a, const Tensor& b, int axis) {
  std::set<int64_t> changed;
  for (int64_t k = 0; k < a.num_elements(); ++k)
    if (!SameAt(a, b, k)) changed.insert(IndexAlong(a.dims(), axis, k));
  return changed;
}

/// Operand i with every numeric element at `index` of `axis` changed.
Tensor ChangedAt(const Tensor& t, int axis, int64_t index) {
  Tensor out = t.Clone();
  for (int64_t k = 0; k < t.num_elements(); ++k)
    if (IndexAlong(t.dims(), axis, k) == index) {
      const Tensor one = Moved(out, k);
      out = one;
    }
  return out;
}

void CheckSame(const NodeSample& s, const AxisLink& l) {
  const Tensor& x = s.operand(l.from.value);
  const auto before = s.Result(l.to.value);
  if (!before || !IsNumeric(*before) || !IsNumeric(x)) return;
  ASSERT_LT(l.from.axis, x.rank());
  ASSERT_LT(l.to.axis, before->rank());
  for (int64_t i = 0; i < x.dim(l.from.axis); ++i) {
    const auto after = s.With(l.from.value, ChangedAt(x, l.from.axis, i), l.to.value);
    if (!after || after->dims() != before->dims()) continue;  // refused: an exponent, a length
    const int64_t label = l.from.LabelOf(i, l.labels);
    for (const int64_t o : ChangedAlong(*before, *after, l.to.axis)) {
      EXPECT_GE(label, 0) << "index " << i << " has no label, and reaches " << o;
      EXPECT_EQ(l.to.LabelOf(o, l.labels), label) << "index " << i << " reaches " << o;
    }
  }
}

Tensor ZeroedAt(const Tensor& t, const LabelledAxis& side, int64_t labels, int64_t label) {
  Tensor out = t.Clone();
  for (int64_t k = 0; k < t.num_elements(); ++k)
    if (side.LabelOf(IndexAlong(t.dims(), side.axis, k), labels) == label) out.Set(k, 0);
  return out;
}

/// With the one operand 0 under a label, the other's elements under it do not matter.
void CheckContracted(const NodeSample& s, const AxisLink& l) {
  for (const auto& [a, b] : {std::pair(&l.from, &l.to), std::pair(&l.to, &l.from)}) {
    const Tensor &x = s.operand(a->value), &y = s.operand(b->value);
    for (int64_t label = 0; label < l.labels; ++label) {
      std::vector<Datum> given = s.operands;
      given[a->value] = ZeroedAt(x, *a, l.labels, label);
      const auto before = s.Result(given);
      given[b->value] = ZeroedAt(y, *b, l.labels, label);
      const auto after = s.Result(given);
      ASSERT_TRUE(before && after);
      for (int64_t k = 0; k < before->num_elements(); ++k)
        EXPECT_NEAR(before->At(k), after->At(k), 1e-6 * (1 + std::abs(before->At(k))));
    }
  }
}

void CheckLinks(const NodeSample& s, const AxisLinks& links) {
  for (const AxisLink& l : links) {
    SCOPED_TRACE(Describe({l}));
    ASSERT_TRUE(s.HasTensor(l.from.value));
    if (l.kind == AxisLink::Kind::kSame)
      CheckSame(s, l);
    else
      CheckContracted(s, l);
  }
}

/// Whether every index of the operand's axis reaches that index of the result's axis and no other:
/// a link that is missing where `links` has none.
bool RunsAlike(const NodeSample& s, size_t in, int in_axis, const Tensor& before, int out_axis) {
  const Tensor& x = s.operand(in);
  for (int64_t i = 0; i < x.dim(in_axis); ++i) {
    const auto after = s.With(in, ChangedAt(x, in_axis, i));
    if (!after || after->dims() != before.dims()) return false;
    if (ChangedAlong(before, *after, out_axis) != std::set<int64_t>{i}) return false;
  }
  return true;
}

/// Operators that state no links though their examples show some: whoever asks gets none.
const std::set<std::string>& Unstated() {
  static const std::set<std::string> ops = {"GatherND",
                                            "Compress",
                                            "ScatterElements",
                                            "ScatterND",
                                            "TensorScatter",
                                            "MaxUnpool",
                                            "ConvInteger",
                                            "MatMulInteger",
                                            "QLinearConv",
                                            "QLinearMatMul",
                                            "RoiAlign",
                                            "MaxRoiPool",
                                            "Det",
                                            "AffineGrid",
                                            "SoftmaxCrossEntropyLoss",
                                            "CausalConvWithState",
                                            "LinearAttention",
                                            "DeformConv",
                                            "infer::Mlp",
                                            "infer::SqueezeExcite",
                                            "com.microsoft::FusedConv",
                                            "com.microsoft::FusedGemm",
                                            "com.microsoft::FusedMatMul",
                                            "com.microsoft::MatMulNBits",
                                            "com.microsoft::RotaryEmbedding",
                                            "com.microsoft::QLinearAveragePool",
                                            "com.microsoft::QLinearGlobalAveragePool",
                                            "com.microsoft::QLinearWhere",
                                            "ai.onnx.ml::Scaler",
                                            "ai.onnx.ml::Imputer"};
  return ops;
}

class AxesOfOperator : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(AxesOfOperator, AreWhatTheExampleShows) {
  const OpDef& def = *GetParam();
  const auto s = NodeSample::Of(def, def.example);
  if (!s || !def.deterministic || !s->node->subgraphs().empty()) return;
  const AxisLinks links = AxesOf(CallOf(*s->node));
  CheckLinks(*s, links);
  const auto before = s->Result();
  if (!before || !IsNumeric(*before)) return;
  std::vector<std::string> missing;
  for (size_t in = 0; in < s->operands.size(); ++in) {
    if (!s->HasTensor(in) || !IsNumeric(s->operand(in))) continue;
    const Tensor& x = s->operand(in);
    for (int a = 0; a < x.rank(); ++a)
      for (int o = 0; o < before->rank(); ++o) {
        if (x.dim(a) < 2 || x.dim(a) != before->dim(o)) continue;
        const bool mentioned = std::any_of(links.begin(), links.end(), [&](const AxisLink& l) {
          return l.kind == AxisLink::Kind::kSame && l.from.value == in && l.from.axis == a &&
                 l.to.value == 0 && l.to.axis == o;
        });
        if (!mentioned && RunsAlike(*s, in, a, *before, o))
          missing.push_back(Cat("axis ", a, " of operand ", in, " runs like axis ", o));
      }
  }
  const bool unstated =
      Unstated().contains(Cat(def.domain, def.domain.empty() ? "" : "::", def.name));
  EXPECT_EQ(!missing.empty(), unstated)
      << Join(missing, "; ") << "; its links: " << Describe(links);
}

std::vector<const OpDef*> AllDefs() {
  const auto all = TestOps().all();
  return {all.begin(), all.end()};
}

INSTANTIATE_TEST_SUITE_P(AllOps, AxesOfOperator, ::testing::ValuesIn(AllDefs()),
                         [](const auto& info) {
                           std::string name = Cat(info.param->domain, "_", info.param->name);
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

struct LinkedCall {
  const char* graph;  ///< whose last node is meant
  const char* links;
};

class AxesOfCall : public ::testing::TestWithParam<LinkedCall> {};

TEST_P(AxesOfCall, AreLinked) {
  auto g = ParseGraph(GetParam().graph, TestOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const Node& n = *g->nodes().back();
  const AxisLinks links = AxesOf(CallOf(n));
  EXPECT_EQ(Describe(links), GetParam().links);
  if (const auto s = NodeSample::Of(n.def(), GetParam().graph))
    if (s->node->output(0)->type().is_tensor() && s->node->output(0)->tensor_type().is_static())
      CheckLinks(*s, links);
}

INSTANTIATE_TEST_SUITE_P(
    Calls, AxesOfCall,
    ::testing::Values(
        LinkedCall{
            "graph g(x: f32[5,2,3], h: f32[1,2,4], c: f32[1,2,4]) -> (y) { w = const f32[1,16,3] "
            "~1 r = const f32[1,16,4] ~2 y = LSTM(x, w, r, _, _, h, c) {hidden_size=4} }",
            "i0[1] = o0[2] :2, i0[2] x i1[2] :3, i1[0] = o0[1] :1, i2[0] = o0[1] :1, i5[1] = o0[2] "
            ":2, i6[1] = o0[2] :2"},
        LinkedCall{"graph g(x: f32[2,3,4], u: f32[2,3,4]) -> (y) { i = const i64[2,3,4] {0, 1, 2, "
                   "3, 3, 2, 1, 0, "
                   "1, 0, 3, 2, 0, 1, 2, 3, 3, 2, 1, 0, 1, 0, 3, 2} y = ScatterElements(x, i, u) "
                   "{axis=2} }",
                   "i0[0] = o0[0] :2, i0[1] = o0[1] :3, i1[0] = o0[0] :2, i1[1] = o0[1] :3, i2[0] "
                   "= o0[0] :2, i2[1] = o0[1] :3"},
        LinkedCall{
            "graph g(x: f32[2,3,4]) -> (y) { i = const i64[2,5,1] {0, 1, 2, 1, 0, 2, 2, 1, 0, 1} "
            "y = GatherND(x, i) {batch_dims=1} }",
            "i0[0] = o0[0] :2, i0[2] = o0[2] :4, i1[0] = o0[0] :2, i1[1] = o0[1] :5"},
        LinkedCall{"graph g(x: f32[2,3,4], p: f32[2,5,6,2]) -> (y) { o = const i64[1] {1} "
                   "v = Unsqueeze(x, o) y = GridSample(v, p) }",
                   "i0[0] = o0[0] :2, i0[1] = o0[1] :1, i1[0] = o0[0] :2, i1[1] = o0[2] :5, i1[2] "
                   "= o0[3] :6"},
        LinkedCall{"graph g(x: f32[2,5,3]) -> (y) { w = const f32[2,4,5] ~1 y = "
                   "com.microsoft::FusedMatMul(x, w) {transA=1, transB=1} }",
                   "i0[0] = o0[0] :2, i0[2] = o0[1] :3, i1[0] = o0[0] :2"},
        LinkedCall{"graph g(x: u8[2,3,5]) -> (y) { w = const i8[5,4] ~1 y = MatMulInteger(x, w) }",
                   "i0[0] = o0[0] :2, i0[1] = o0[1] :3"},
        LinkedCall{"graph g(x: f32[N,6]) -> (y) { w = const f32[6,4] ~1 y = MatMul(x, w) }",
                   "i0[0] = o0[0], i0[1] x i1[0] :6, i1[1] = o0[1] :4"},
        LinkedCall{
            "graph g(x: f32[2,3,4,5], w: f32[3,5,6]) -> (y) { y = MatMul(x, w) }",
            "i0[0] = o0[0] :2, i0[1] = o0[1] :3, i0[2] = o0[2] :4, i0[3] x i1[1] :5, i1[0] = "
            "o0[1] :3, i1[2] = o0[3] :6"},
        LinkedCall{"graph g(x: f32[5], w: f32[5,6]) -> (y) { y = MatMul(x, w) }",
                   "i0[0] x i1[0] :5, i1[1] = o0[0] :6"},
        LinkedCall{"graph g(x: f32[3,5], w: f32[5]) -> (y) { y = MatMul(x, w) }",
                   "i0[0] = o0[0] :3, i0[1] x i1[0] :5"},
        LinkedCall{"graph g(x: f32[5,3]) -> (y) { w = const f32[7,5] ~1 c = const f32[7] ~2 "
                   "y = Gemm(x, w, c) {transA=1, transB=1} }",
                   "i0[0] x i1[1] :5, i0[1] = o0[0] :3, i1[0] = o0[1] :7, i2[0] = o0[1] :7"},
        LinkedCall{
            "graph g(x: f32[2,4,5,5]) -> (y) { w = const f32[6,4,3,3] ~1 b = const f32[6] ~2 "
            "y = Conv(x, w, b) }",
            "i0[0] = o0[0] :2, i0[1] x i1[1] :4, i1[0] = o0[1] :6, i2[0] = o0[1] :6"},
        LinkedCall{"graph g(x: f32[2,4,5,5]) -> (y) { w = const f32[6,2,3,3] ~1 "
                   "y = Conv(x, w) {group=2} }",
                   "i0[0] = o0[0] :2, i0[1] x i1[1] :2, i0[1]/2 = o0[1]/3 :2, i1[0] = o0[1] :6"},
        LinkedCall{"graph g(x: f32[1,4,5,5]) -> (y) { w = const f32[4,1,3,3] ~1 "
                   "y = Conv(x, w) {group=4} }",
                   "i0[0] = o0[0] :1, i0[1] = o0[1] :4, i1[0] = o0[1] :4"},
        LinkedCall{
            "graph g(x: f32[1,4,5,5]) -> (y) { w = const f32[4,3,3,3] ~1 b = const f32[6] ~2 "
            "y = ConvTranspose(x, w, b) {group=2} }",
            "i0[0] = o0[0] :1, i0[1] x i1[0] :4, i0[1]/2 = o0[1]/3 :2, i1[1] = o0[1] :3, i2[0] "
            "= o0[1] :6"},
        LinkedCall{
            "graph g(x: f32[B,S,12]) -> (y) { s = const i64[4] {0, 0, 3, 4} y = Reshape(x, s) }",
            "i0[0] = o0[0], i0[1] = o0[1], i0[2] = o0[3] :4, i0[2]/4 = o0[2] :3"},
        LinkedCall{"graph g(x: f32[B,2,3,4]) -> (y) { y = Flatten(x) }",
                   "i0[0] = o0[0], i0[1] = o0[1]/12 :2, i0[2] = o0[1]/4 :3, i0[3] = o0[1] :4"},
        LinkedCall{"graph g(x: f32[4,6]) -> (y) { s = const i64[2] {8, 3} y = Reshape(x, s) }",
                   "i0[0] = o0[0]/2 :4, i0[1] = o0[1] :3, i0[1]/3 = o0[0] :2"},
        LinkedCall{"graph g(x: f32[4,6]) -> (y) { s = const i64[2] {6, 4} y = Reshape(x, s) }", ""},
        LinkedCall{"graph g(x: f32[2,3], y: f32[2,4]) -> (z) { z = Concat(x, y) {axis=1} }",
                   "i0[0] = o0[0] :2, i0[1] = o0[1]#3 :3, i1[0] = o0[0] :2, i1[1] = o0[1]+3#4 :4"},
        LinkedCall{"graph g(x: f32[2,7]) -> (a, b) { s = const i64[2] {3, 4} "
                   "a, b = Split(x, s) {axis=1} }",
                   "i0[0] = o0[0] :2, i0[0] = o1[0] :2, i0[1]#3 = o0[1] :3, i0[1]+3#4 = o1[1] :4"},
        LinkedCall{"graph g(x: f32[2,7]) -> (y) { b = const i64[1] {1} e = const i64[1] {6} "
                   "a = const i64[1] {1} s = const i64[1] {2} y = Slice(x, b, e, a, s) }",
                   "i0[0] = o0[0] :2, i0[1]+1*2#3 = o0[1] :3"},
        LinkedCall{"graph g(x: f32[2,3]) -> (y) { p = const i64[4] {0, 1, 0, 2} y = Pad(x, p) }",
                   "i0[0] = o0[0] :2, i0[1]#3 = o0[1]+1#3 :3"},
        LinkedCall{"graph g(x: f32[5,3], i: i64[2,4]) -> (y) { y = Gather(x, i) }",
                   "i0[1] = o0[2] :3, i1[0] = o0[0] :2, i1[1] = o0[1] :4"},
        LinkedCall{"graph g(x: f32[2,3]) -> (y) { r = const i64[2] {1, 2} y = Tile(x, r) }",
                   "i0[0] = o0[0] :2, i0[1] = o0[1] :3"},
        LinkedCall{"graph g(x: f32[1,12,2,3]) -> (y) { y = DepthToSpace(x) {blocksize=2} }",
                   "i0[0] = o0[0] :1, i0[1] = o0[1] :3, i0[2] = o0[2]/2 :2, i0[3] = o0[3]/2 :3"},
        LinkedCall{
            "graph g(x: f32[1,12,2,3]) -> (y) { y = DepthToSpace(x) {blocksize=2, mode=\"CRD\"} }",
            "i0[0] = o0[0] :1, i0[1]/4 = o0[1] :3, i0[2] = o0[2]/2 :2, i0[3] = o0[3]/2 :3"},
        LinkedCall{"graph g(x: f32[1,3,4,6]) -> (y) { y = SpaceToDepth(x) {blocksize=2} }",
                   "i0[0] = o0[0] :1, i0[1] = o0[1] :3, i0[2]/2 = o0[2] :2, i0[3]/2 = o0[3] :3"},
        LinkedCall{"graph g(x: f32[2,4,3]) -> (y) { s = const f32[4] ~1 b = const f32[4] ~2 "
                   "y = GroupNormalization(x, s, b) {num_groups=2} }",
                   "i0[0] = o0[0] :2, i0[1]/2 = o0[1]/2 :2, i1[0] = o0[1] :4, i2[0] = o0[1] :4"},
        LinkedCall{"graph g(x: f32[2,3,4]) -> (y) { a = const i64[1] {1} "
                   "y = ReduceMean(x, a) {keepdims=0} }",
                   "i0[0] = o0[0] :2, i0[2] = o0[1] :4"},
        LinkedCall{"graph g(x: i8[4,6]) -> (y) { s = const f32[4,2] ~1 "
                   "y = DequantizeLinear(x, s) {axis=1, block_size=3} }",
                   "i0[0] = o0[0] :4, i0[1] = o0[1] :6, i1[0] = o0[0] :4, i1[1] = o0[1]/3 :2"},
        LinkedCall{
            "graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,6]) -> (y) { "
            "y = Attention(q, k, v) }",
            "i0[0] = o0[0] :2, i0[1] = o0[1] :4, i0[2] = o0[2] :3, i0[3] x i1[3] :8, i1[0] = "
            "o0[0] :2, i1[1] = o0[1]/2 :2, i2[0] = o0[0] :2, i2[1] = o0[1]/2 :2, i2[3] = o0[3] "
            ":6"},
        LinkedCall{
            "graph g(q: f32[2,3,8], k: f32[2,5,4], v: f32[2,5,6]) -> (y) { "
            "y = Attention(q, k, v) {q_num_heads=4, kv_num_heads=2} }",
            "i0[0] = o0[0] :2, i0[1] = o0[1] :3, i0[2] x i1[2] :2, i0[2]/2 = o0[2]/3 :4, i1[0] = "
            "o0[0] :2, i1[2]/2 = o0[2]/6 :2, i2[0] = o0[0] :2, i2[2] = o0[2] :3, i2[2]/3 = "
            "o0[2]/6 :2"},
        LinkedCall{
            "graph g(q: f32[2,3,8], k: f32[2,5,8], v: f32[2,5,8]) -> (y, pk, pv) { "
            "b = const f32[24] ~1 "
            "y, pk, pv = com.microsoft::MultiHeadAttention(q, k, v, b) {num_heads=4} }",
            "i0[0] = o0[0] :2, i0[1] = o0[1] :3, i0[2]/2 = o0[2]/2 :4, i1[0] = o0[0] :2, i1[2]/2 = "
            "o0[2]/2 :4, i1[2]/2 = o1[1] :4, i2[0] = o0[0] :2, i2[2]/2 = o0[2]/2 :4, i2[2]/2 = "
            "o2[1] :4, i3[0]/2 = o0[2]/2 :4"},
        LinkedCall{
            "graph g(q: f32[2,3,16], k: f32[2,3,8], v: f32[2,3,8]) -> (y, pk) { "
            "l = const i32[2] {2, 2} t = const i32[] {3} "
            "y, pk = com.microsoft::GroupQueryAttention(q, k, v, _, _, l, t) "
            "{num_heads=4, kv_num_heads=2} }",
            "i0[0] = o0[0] :2, i0[1] = o0[1] :3, i0[2]/4 = o0[2]/4 :4, i1[0] = o0[0] :2, i1[2]/4 = "
            "o0[2]/8 :2, i1[2]/4 = o1[1] :2, i2[0] = o0[0] :2, i2[2]/4 = o0[2]/8 :2, i5[0] = "
            "o0[0] :2"},
        LinkedCall{"graph g(x: f32[2,3,4], y: f32[4,5]) -> (z) { "
                   "z = Einsum(x, y) {equation=\"bij,jk->kbi\"} }",
                   "i0[0] = o0[1] :2, i0[1] = o0[2] :3, i0[2] x i1[0] :4, i1[1] = o0[0] :5"},
        LinkedCall{"graph g(x: f32[2,3,4]) -> (y) { y = Transpose(x) }",
                   "i0[0] = o0[2] :2, i0[1] = o0[1] :3, i0[2] = o0[0] :4"}));

}  // namespace
}  // namespace infer
