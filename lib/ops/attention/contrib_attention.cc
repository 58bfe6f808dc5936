/// Attention and MultiHeadAttention of com.microsoft.
///
/// Letters: B batch, N heads, S queries, P keys of the past, L new keys, T = P + L, D hidden size
/// of queries and keys, E hidden size of values.
#include "lib/ops/attention/contrib_attention_common.h"
#include "lib/ops/common.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/matmul/matmul.h"
#include "lib/ops/op_def.h"
#include "lib/tensor/float_limits.h"

namespace infer {
namespace {

// ---- MultiHeadAttention ----------------------------------------------------------------------

enum MultiInput : size_t {
  kQuery,
  kKey,
  kValue,
  kBias,
  kPadding,
  kScoreBias,
  kPastKey,
  kPastValue,
  kPastLength,
  kIndirection
};

struct MultiDims {
  Dim b, s, past, l, d, e;  // past is 0 where there is none
  Dim t() const { return past + l; }
};

/// `d` and `e` are whole hidden sizes. Queries, keys and values may be packed: [B,L,N,3,D/N] in
/// query, [B,L,N,2,D/N] in key; keys and values of rank 4 are [B,N,L,D/N].
Result<MultiDims> ReadMultiDims(const OpCall& call, int64_t heads) {
  const Dim n(heads);
  const auto rank = [&](size_t i) {
    return call.has_input(i) && call.shape(i).has_rank() ? call.shape(i).rank() : 0;
  };
  INFER_TRY(CheckRank(call, kQuery, 3, 5));
  if (rank(kQuery) == 4) return InvalidModel("query has rank 4, wants 3, or 5 when packed");
  MultiDims m;
  m.b = Extent(call, kQuery, 0);
  m.s = m.l = Extent(call, kQuery, 1);
  m.d = rank(kQuery) == 5 ? Extent(call, kQuery, 4) * n : Extent(call, kQuery, 2);
  m.e = m.d;
  if (rank(kQuery) == 5) INFER_TRY(WantShape(call, kQuery, {m.b, m.s, n, 3, Dim()}));
  if (rank(kQuery) == 3 && !call.has_input(kKey)) return InvalidModel("key is missing");
  if (rank(kQuery) == 5 && (call.has_input(kKey) || call.has_input(kValue)))
    return InvalidModel("query is packed, so key and value cannot be given");
  if (call.has_input(kKey)) {
    INFER_TRY(CheckRank(call, kKey, 3, 5));
    const Dim size = m.d.ExactDiv(n);
    m.l = Extent(call, kKey, rank(kKey) == 4 ? 2 : 1);
    if (rank(kKey) == 3) INFER_TRY(WantShape(call, kKey, {m.b, m.l, m.d}));
    if (rank(kKey) == 4) INFER_TRY(WantShape(call, kKey, {m.b, n, m.l, size}));
    if (rank(kKey) == 5) INFER_TRY(WantShape(call, kKey, {m.b, m.l, n, 2, size}));
    if (rank(kKey) != 0 && (rank(kKey) == 5) == call.has_input(kValue))
      return InvalidModel("value must be given, or be packed with key of rank 5");
  }
  if (call.has_input(kValue)) {
    INFER_TRY(CheckRank(call, kValue, 3, 4));
    const bool split = rank(kValue) == 4;
    m.e = split ? Extent(call, kValue, 3) * n : Extent(call, kValue, 2);
    INFER_TRY(split ? WantShape(call, kValue, {m.b, n, m.l, Dim()})
                    : WantShape(call, kValue, {m.b, m.l, Dim()}));
  }
  INFER_TRY(WantMultiple(m.d, heads));
  INFER_TRY(WantMultiple(m.e, heads));
  if (call.has_input(kPastKey) != call.has_input(kPastValue))
    return InvalidModel("past_key and past_value must be given together");
  m.past = call.has_input(kPastKey) ? Extent(call, kPastKey, 2) : Dim(0);
  if (rank(kKey) == 4 && call.has_input(kPastKey))
    return InvalidModel("key of rank 4 is the past already; past_key cannot be given");
  INFER_TRY(WantShape(call, kPastKey, {m.b, n, m.past, m.d.ExactDiv(n)}));
  INFER_TRY(WantShape(call, kPastValue, {m.b, n, m.past, m.e.ExactDiv(n)}));
  return m;
}

Status InferMultiHead(OpCall& call) {
  INFER_TRY(RefuseInput(call, kPastLength, "caches that past and present share are not known"));
  INFER_TRY(RefuseInput(call, kIndirection, "beams are not known"));
  INFER_ASSIGN(const int64_t heads, HeadCount(call));
  INFER_ASSIGN(const MultiDims m, ReadMultiDims(call, heads));
  const Dim n(heads);
  INFER_TRY(WantShape(call, kBias, {m.d + m.d + m.e}));
  INFER_TRY(CheckMask(call, kPadding, {}, m.b, m.s, m.t()));
  INFER_TRY(CheckBias(call, kScoreBias, m.b, n, m.s, m.t()));
  call.SetOut(0, call.dtype(0), Shape({m.b, m.s, m.e}));
  call.SetOut(1, call.dtype(0), Shape({m.b, n, m.t(), m.d.ExactDiv(n)}));
  call.SetOut(2, call.dtype(0), Shape({m.b, n, m.t(), m.e.ExactDiv(n)}));
  call.SetOut(3, call.dtype(0), Shape({m.b, n, m.s, m.t()}));
  return {};
}

/// Part `part` of [B, L, N, parts, size].
Heads Unpacked(const Tensor& t, int64_t part) {
  const int64_t n = t.dim(2), parts = t.dim(3);
  const Tensor merged = t.Reshaped({t.dim(0), t.dim(1), n * parts * t.dim(4)});
  return Picked(ReadHeads(merged, n * parts), part, parts, n);
}

Status RunMultiHead(OpRun& run) {
  const int64_t n = run.Int("num_heads");
  const Tensor& query = run.in(kQuery);
  const Tensor *key = run.in_or_null(kKey), *value = run.in_or_null(kValue);
  AttentionProblem p;
  p.q = query.rank() == 5 ? Unpacked(query, 0) : ReadHeads(query, n);
  p.k = !key ? Unpacked(query, 1) : key->rank() == 5 ? Unpacked(*key, 0) : ReadHeads(*key, n);
  p.v = value ? ReadHeads(*value, n) : key ? Unpacked(*key, 1) : Unpacked(query, 2);
  if (const Tensor* bias = run.in_or_null(kBias)) {
    const int64_t d = n * p.q.size;
    AddBias(p.q, *bias, 0);
    if (!key || key->rank() != 4) AddBias(p.k, *bias, d);  // a past has its bias
    if (!value || value->rank() != 4) AddBias(p.v, *bias, 2 * d);
  }
  int64_t past = 0;
  if (run.has(kPastKey)) {
    past = run.in(kPastKey).dim(2);
    p.k = Concatenated(ReadHeads(run.in(kPastKey), 0), p.k);
    p.v = Concatenated(ReadHeads(run.in(kPastValue), 0), p.v);
  }
  AttentionResult r = Attend(run, p, run.in_or_null(kPadding), run.in_or_null(kScoreBias), past,
                             run.num_outputs() > 3 ? ScoreStage::kBiased : ScoreStage::kNone);
  const DType t = query.dtype();
  run.Set(0, WriteHeads(r.y, t, 3));
  if (run.num_outputs() > 1) run.Set(1, WriteHeads(p.k, t, 4));
  if (run.num_outputs() > 2) run.Set(2, WriteHeads(p.v, t, 4));
  if (run.num_outputs() < 4) return {};
  // The score of a key in the future is the lowest number.
  const double lowest = LowestFinite(t);
  for (double& s : r.scores.values) s = std::max(s, lowest);
  run.Set(3, WriteHeads(r.scores, t, 4));
  return {};
}

/// Heads of queries, keys and values, their biases and caches. Of packed operands nothing is told.
void MultiHeadAxes(const OpCall& call, AxisLinks& links) {
  const auto heads = HeadCount(call);
  if (!heads.ok() || !call.has_input(kKey) || !call.has_input(kValue)) return;
  const auto m = ReadMultiDims(call, *heads);
  if (!m.ok() || !call.out(0).shape.has_rank()) return;
  for (const size_t i : {kQuery, kKey, kValue, kPadding, kPastKey, kPastValue})
    if (call.has_input(i)) LinkSame(call, i, 0, 0, 0, links);
  LinkSame(call, kQuery, 1, 0, 1, links);
  if (!m->d.is_static() || !m->e.is_static()) return;
  const int64_t n = *heads, d = m->d.value(), e = m->e.value();
  constexpr size_t kScores = 3;
  LinkHeadsOf(call, kQuery, n, kScores, links);
  for (const size_t i : {kKey, kPastKey}) LinkHeadsOf(call, i, n, 1, links);
  for (const size_t i : {kValue, kPastValue}) LinkHeadsOf(call, i, n, 2, links);
  if (call.has_input(kScoreBias) && Extent(call, kScoreBias, 1).KnownEqual(n))
    LinkHeadsOf(call, kScoreBias, n, kScores, links);
  // Parts of queries, keys and values, one behind the other; of one size they are one axis of
  // heads.
  if (call.has_input(kBias) && d == e)
    LinkHeads(call, {.value = kBias, .inner = d / n}, n, 0, links);
}

Cost CostMultiHead(const OpCall& call) {
  const auto m = ReadMultiDims(call, call.Int("num_heads"));
  const Cost c = TrafficOf(call);
  return m.ok() ? FlopsOf(c, m->b, call.Int("num_heads"), m->s, m->t(), m->d, m->e) : c;
}

// ---- Attention -------------------------------------------------------------------------------

enum SelfInput : size_t { kInput, kWeights, kProjectionBias, kMask, kPast, kSelfBias, kSharedPast };

struct SelfDims {
  Dim b, s, past, d, e;
  Dim t() const { return past + s; }
};

Result<SelfDims> ReadSelfDims(const OpCall& call, int64_t heads) {
  for (size_t i : {kInput, kWeights}) INFER_TRY(CheckRank(call, i, i == kInput ? 3 : 2, 3));
  SelfDims m;
  m.b = Extent(call, kInput, 0);
  m.s = Extent(call, kInput, 1);
  const Dim all = Extent(call, kWeights, 1);
  const bool sized = call.HasAttr("qkv_hidden_sizes") && !call.Ints("qkv_hidden_sizes").empty();
  if (!sized) INFER_TRY(WantMultiple(all, 3));
  m.d = m.e = all.ExactDiv(3);
  if (sized) {
    const auto& sizes = call.Ints("qkv_hidden_sizes");
    constexpr int64_t kMost = int64_t{1} << 32;
    if (sizes.size() != 3 || sizes[0] != sizes[1] || sizes[0] < 1 || sizes[2] < 1 ||
        sizes[0] > kMost || sizes[2] > kMost)
      return InvalidModel("qkv_hidden_sizes wants three sizes, the first two equal");
    m.d = sizes[0];
    m.e = sizes[2];
  }
  INFER_TRY(WantShape(call, kWeights, {Extent(call, kInput, 2), m.d + m.d + m.e}));
  INFER_TRY(WantShape(call, kProjectionBias, {all}));
  INFER_TRY(WantMultiple(m.d, heads));
  INFER_TRY(WantMultiple(m.e, heads));
  m.past = call.has_input(kPast) ? Extent(call, kPast, 3) : Dim(0);
  INFER_TRY(WantShape(call, kPast, {2, m.b, Dim(heads), m.past, m.d.ExactDiv(heads)}));
  return m;
}

Status InferSelf(OpCall& call) {
  INFER_TRY(RefuseInput(call, kSharedPast, "caches that past and present share are not known"));
  for (const char* name : {"do_rotary", "past_present_share_buffer"})
    if (call.Int(name) != 0)
      return Unsupported(Cat("Attention: attribute ", name, " is ", call.Int(name)));
  INFER_ASSIGN(const int64_t heads, HeadCount(call));
  INFER_ASSIGN(const SelfDims m, ReadSelfDims(call, heads));
  const Dim n(heads);
  INFER_TRY(CheckMask(call, kMask, {.starts = true, .dummy = true}, m.b, m.s, m.t()));
  INFER_TRY(CheckBias(call, kSelfBias, m.b, n, m.s, m.t()));
  if (call.num_outputs() > 1 || call.has_input(kPast))
    if (!Meet(m.d, m.e).ok()) return InvalidModel("past and present want values as large as keys");
  call.SetOut(0, call.dtype(0), Shape({m.b, m.s, m.e}));
  call.SetOut(1, call.dtype(0), Shape({2, m.b, n, m.t(), m.d.ExactDiv(n)}));
  return {};
}

/// Columns [begin, begin + count) of `rows`, split into heads.
Heads Columns(const std::vector<double>& rows, int64_t stride, int64_t begin, int64_t count,
              int64_t batch, int64_t length, int64_t heads) {
  Heads h{batch, heads, length, count / heads};
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t n = 0; n < heads; ++n)
      for (int64_t i = 0; i < length; ++i)
        for (int64_t e = 0; e < h.size; ++e)
          h.values.push_back(
              rows[static_cast<size_t>((b * length + i) * stride + begin + n * h.size + e)]);
  return h;
}

/// Half 0 (keys) or 1 (values) of [2, B, N, P, size].
Heads HalfOf(const Tensor& t, int64_t half) {
  Heads h{t.dim(1), t.dim(2), t.dim(3), t.dim(4)};
  const int64_t n = t.num_elements() / 2;
  for (int64_t i = 0; i < n; ++i) h.values.push_back(t.At(half * n + i));
  return h;
}

Status RunSelf(OpRun& run) {
  const Tensor &x = run.in(kInput), &w = run.in(kWeights);
  const Tensor* bias = run.in_or_null(kProjectionBias);
  const int64_t n = run.Int("num_heads"), b = x.dim(0), s = x.dim(1), all = w.dim(1);
  INFER_ASSIGN(const MatMulGeometry g, ReadMatMulGeometry({b * s, x.dim(2)}, w.dims()));
  std::vector<double> rows(static_cast<size_t>(b * s * all));
  MatMulReference(g, Widen(x).Reshaped({b * s, x.dim(2)}), Widen(w),
                  [&](int64_t, int64_t row, int64_t col, int64_t count, const double* sums) {
                    for (int64_t j = 0; j < count; ++j)
                      rows[static_cast<size_t>(row * all + col + j)] =
                          sums[j] + (bias ? bias->At(col + j) : 0);
                  });
  int64_t d = all / 3, e = d;
  if (run.call().HasAttr("qkv_hidden_sizes") && !run.Ints("qkv_hidden_sizes").empty()) {
    d = run.Ints("qkv_hidden_sizes")[0];
    e = run.Ints("qkv_hidden_sizes")[2];
  }
  AttentionProblem p;
  p.q = Columns(rows, all, 0, d, b, s, n);
  p.k = Columns(rows, all, d, d, b, s, n);
  p.v = Columns(rows, all, 2 * d, e, b, s, n);
  int64_t past = 0;
  if (run.has(kPast)) {
    past = run.in(kPast).dim(3);
    p.k = Concatenated(HalfOf(run.in(kPast), 0), p.k);
    p.v = Concatenated(HalfOf(run.in(kPast), 1), p.v);
  }
  const AttentionResult r =
      Attend(run, p, run.in_or_null(kMask), run.in_or_null(kSelfBias), past, ScoreStage::kNone);
  run.Set(0, WriteHeads(r.y, x.dtype(), 3));
  if (run.num_outputs() < 2) return {};
  Tensor& present = run.Out(1, x.dtype(), {2, b, n, p.k.length, p.k.size});
  int64_t at = 0;
  for (const Heads* h : {&p.k, &p.v})
    for (double v : h->values) present.Set(at++, v);
  return {};
}

/// The projection and the attention.
Cost CostSelf(const OpCall& call) {
  Cost c = TrafficOf(call);
  const auto m = ReadSelfDims(call, call.Int("num_heads"));
  if (!m.ok() || !call.in(kInput).is_static() || !call.in(kWeights).is_static()) return c;
  const int64_t rows = (m->b * m->s).value(), columns = call.shape(kWeights)[1].value();
  c.flops = rows * columns *
            (2 * call.shape(kWeights)[0].value() + (call.has_input(kProjectionBias) ? 1 : 0));
  return FlopsOf(c, m->b, call.Int("num_heads"), m->s, m->t(), m->d, m->e);
}

/// Samples of the operand, the mask, the past and the bias of scores. The past and the present have
/// keys and values first.
void PackedAttentionAxes(const OpCall& call, AxisLinks& links) {
  for (size_t out = 0; out < call.num_outputs(); ++out)
    for (const size_t in : {0, 3, 4, 5})
      LinkSame(call, in, in == 4 ? 1 : 0, out, static_cast<int>(out), links);
}

}  // namespace

std::span<const OpDef> ContribAttentionOps() {
  const AttrDef filter = {"mask_filter_value", AttrKind::kFloat, -10000.0f};
  const AttrDef heads = {"num_heads", AttrKind::kInt, {}, true};
  const AttrDef scale = {"scale", AttrKind::kFloat, 0.0f};
  const AttrDef unidirectional = {"unidirectional", AttrKind::kInt, int64_t{0}};
  static const OpDef ops[] = {
      {
          .name = "Attention",
          .domain = kMicrosoft,
          .doc = "Self-attention with its projection, masks and a past.",
          .traits = Trait::kAttention,
          .axes = PackedAttentionAxes,
          .inputs = {{"input", "T"},
                     {"weights", "T"},
                     {"bias", "T", Arity::kOptional},
                     {"mask_index", "M", Arity::kOptional},
                     {"past", "T", Arity::kOptional},
                     {"attention_bias", "T", Arity::kOptional},
                     {"past_sequence_length", "M", Arity::kOptional}},
          .outputs = {{"output", "T"}, {"present", "T", Arity::kOptional}},
          .attrs = {{"do_rotary", AttrKind::kInt, int64_t{0}},
                    filter,
                    heads,
                    {"past_present_share_buffer", AttrKind::kInt, int64_t{0}},
                    {"qkv_hidden_sizes", AttrKind::kInts},
                    {"rotary_embedding_dim", AttrKind::kInt},
                    scale,
                    unidirectional},
          .constraints = {{"T", kAttentionReal}, {"M", TypeSet(DType::kI32)}},
          .infer = InferSelf,
          .reference = RunSelf,
          .cost = CostSelf,
          .decompose = DecomposeContribAttention,
          .example = R"(graph g(x: f32[2,3,5]) -> (y) {
            w = const f32[5,12] ~1
            b = const f32[12] ~2
            m = const i32[2] {3, 2}
            y = com.microsoft::Attention(x, w, b, m) {num_heads=2} })",
      },
      {
          .name = "MultiHeadAttention",
          .domain = kMicrosoft,
          .doc = "Attention of queries to keys and values, with bias, masks and a past.",
          .traits = Trait::kAttention,
          .axes = MultiHeadAxes,
          .inputs = {{"query", "T"},
                     {"key", "T", Arity::kOptional},
                     {"value", "T", Arity::kOptional},
                     {"bias", "T", Arity::kOptional},
                     {"key_padding_mask", "M", Arity::kOptional},
                     {"attention_bias", "T", Arity::kOptional},
                     {"past_key", "T", Arity::kOptional},
                     {"past_value", "T", Arity::kOptional},
                     {"past_sequence_length", "M", Arity::kOptional},
                     {"cache_indirection", "M", Arity::kOptional}},
          .outputs = {{"output", "T"},
                      {"present_key", "T", Arity::kOptional},
                      {"present_value", "T", Arity::kOptional},
                      {"qk", "QK", Arity::kOptional}},
          .attrs = {filter, heads, scale, unidirectional},
          .constraints = {{"T", kAttentionReal},
                          {"M", TypeSet(DType::kI32)},
                          {"QK", kAttentionReal}},
          .infer = InferMultiHead,
          .reference = RunMultiHead,
          .cost = CostMultiHead,
          .decompose = DecomposeMultiHeadAttention,
          .example = R"(graph g(q: f32[2,3,4], k: f32[2,5,4], v: f32[2,5,6]) -> (y) {
            b = const f32[14] ~1
            y = com.microsoft::MultiHeadAttention(q, k, v, b) {num_heads=2} })",
      },
  };
  return ops;
}

}  // namespace infer
