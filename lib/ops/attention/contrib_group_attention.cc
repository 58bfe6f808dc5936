/// GroupQueryAttention and RotaryEmbedding of com.microsoft.
///
/// Letters: B batch, N query heads, G key/value heads (N is a multiple), S new tokens, H head size,
/// P length of the past, T total_sequence_length, C = max(P, T) the length of the caches that come
/// out.
#include <cmath>
#include <limits>

#include "lib/ops/attention/contrib_attention_common.h"
#include "lib/ops/common.h"
#include "lib/tensor/equations.h"

namespace infer {
namespace {

// ---- GroupQueryAttention ---------------------------------------------------------------------

Status RefuseOptions(const OpCall& call) {
  for (size_t i : {GroupInput::kKScale, GroupInput::kVScale})
    INFER_TRY(RefuseInput(call, i, "quantized caches are not known"));
  for (size_t i : {GroupInput::kQNorm, GroupInput::kKNorm})
    INFER_TRY(RefuseInput(call, i, "normalisation of queries and keys is not known"));
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (call.Str(name) != "NONE")
      return Unsupported(Cat("GroupQueryAttention: ", name, " is ", call.Str(name)));
  if (call.Int("sliding_window_cache") != 0)
    return Unsupported("GroupQueryAttention: sliding_window_cache is set");
  if (const int64_t stage = call.Int("qk_output"); stage < 0 || stage > 2)
    return InvalidModel(Cat("qk_output is ", stage));
  return {};
}

struct GroupDims {
  Dim b, s, h, past, total;
  Dim cache() const {
    if (past.KnownEqual(0)) return total;
    if (!past.is_static() || !total.is_static()) return {};
    return std::max(past.value(), total.value());
  }
};

Result<GroupDims> ReadGroupDims(const OpCall& call) {
  INFER_ASSIGN(const int64_t n, HeadCount(call));
  const int64_t g = call.Int("kv_num_heads");
  if (g < 1 || n % g != 0)
    return InvalidModel(Cat(n, " query heads are no multiple of ", g, " key heads"));
  if (call.has_input(GroupInput::kKey) != call.has_input(GroupInput::kValue))
    return InvalidModel("key and value must be given together");
  INFER_TRY(CheckRank(call, GroupInput::kQuery, 3, 3));
  GroupDims d;
  d.b = Extent(call, GroupInput::kQuery, 0);
  d.s = Extent(call, GroupInput::kQuery, 1);
  const bool packed = !call.has_input(GroupInput::kKey);
  const int64_t heads = packed ? n + 2 * g : n;
  INFER_TRY(WantMultiple(Extent(call, GroupInput::kQuery, 2), heads));
  d.h = Extent(call, GroupInput::kQuery, 2).ExactDiv(heads);
  for (size_t i : {GroupInput::kKey, GroupInput::kValue})
    INFER_TRY(WantShape(call, i, {d.b, d.s, d.h * Dim(g)}));
  if (call.has_input(GroupInput::kPastKey) != call.has_input(GroupInput::kPastValue))
    return InvalidModel("past_key and past_value must be given together");
  d.past = call.has_input(GroupInput::kPastKey) ? Extent(call, GroupInput::kPastKey, 2) : Dim(0);
  for (size_t i : {GroupInput::kPastKey, GroupInput::kPastValue})
    INFER_TRY(WantShape(call, i, {d.b, g, d.past, d.h}));
  if (const auto total = call.elements(GroupInput::kTotal); total && total->size() == 1)
    d.total = (*total)[0];
  return d;
}

Status InferGroup(OpCall& call) {
  INFER_TRY(RefuseOptions(call));
  INFER_ASSIGN(const GroupDims d, ReadGroupDims(call));
  const Dim n(call.Int("num_heads")), g(call.Int("kv_num_heads"));
  if (call.shape(GroupInput::kLengths).has_rank() &&
      !Meet(call.shape(GroupInput::kLengths).num_elements(), d.b).ok())
    return InvalidModel(Cat("seqlens_k is ", call.shape(GroupInput::kLengths).ToString()));
  if (call.shape(GroupInput::kTotal).has_rank() &&
      !Meet(call.shape(GroupInput::kTotal).num_elements(), Dim(1)).ok())
    return InvalidModel(
        Cat("total_sequence_length is ", call.shape(GroupInput::kTotal).ToString()));
  if (call.Int("do_rotary") != 0 &&
      (!call.has_input(GroupInput::kCos) || !call.has_input(GroupInput::kSin)))
    return InvalidModel("do_rotary needs cos_cache and sin_cache");
  for (size_t i : {GroupInput::kCos, GroupInput::kSin})
    INFER_TRY(WantShape(call, i, {Dim(), Dim()}));
  INFER_TRY(WantShape(call, GroupInput::kPositions, {d.b, d.s}));
  INFER_TRY(CheckBias(call, GroupInput::kBias, d.b, n, d.s, d.total));
  INFER_TRY(WantShape(call, GroupInput::kSink, {n}));
  if (call.has_input(GroupInput::kPastKey))
    StateEqual(d.total, d.past + d.s);  // where no buffer is shared
  call.SetOut(0, call.dtype(0), Shape({d.b, d.s, n * d.h}));
  const DType cache =
      call.has_input(GroupInput::kPastKey) ? call.dtype(GroupInput::kPastKey) : call.dtype(0);
  if (cache != call.dtype(0) && cache != DType::kUndefined && call.dtype(0) != DType::kUndefined)
    return Unsupported(Cat("a cache of ", Name(cache), " for queries of ", Name(call.dtype(0))));
  for (size_t i : {1, 2}) call.SetOut(i, cache, Shape({d.b, g, d.cache(), d.h}));
  call.SetOut(3, call.dtype(0), Shape({d.b, n, d.s, d.total}));
  return {};
}

/// Where each sample's new tokens stand, and which keys they see.
struct Cache {
  int64_t queries = 0, total = 0;
  std::vector<int64_t> before;  // per sample, the tokens that are older
  std::vector<int64_t> end;     // per sample, the tokens in all; padding is behind
  bool first = false;           // the whole prompt: whatever the past holds is not read
  bool causal = true;
  int64_t window = -1;
  const Tensor* bias = nullptr;

  double operator()(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t at = before[static_cast<size_t>(b)] + i;  // this query's position
    if (causal ? j > at : j >= end[static_cast<size_t>(b)]) return kForbidden;
    if (window >= 0 && at - j >= window) return kForbidden;
    if (!bias) return 0;
    const int64_t row = (bias->dim(0) == 1 ? 0 : b) * bias->dim(1) + (bias->dim(1) == 1 ? 0 : h);
    return bias->At((row * queries + i) * total + j);
  }
};

Result<Cache> ReadCache(const OpRun& run, int64_t batch, int64_t queries, int64_t past) {
  Cache c;
  c.queries = queries;
  c.total = run.in(GroupInput::kTotal).IntAt(0);
  c.first = queries == c.total;
  if (c.total < queries || c.total > past + queries)
    return InvalidModel(Cat("total_sequence_length is ", c.total, " with ", queries,
                            " new tokens and a past of ", past));
  c.causal = run.Int("causal") != 0;
  c.window = run.Int("local_window_size");
  c.bias = run.in_or_null(GroupInput::kBias);
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t end = run.in(GroupInput::kLengths).IntAt(b) + 1,
                  before = c.first ? 0 : end - queries;
    if (end < 1 || before < 0 || (!c.first && before > past) ||
        before + queries > std::max(past, c.total))
      return InvalidModel(Cat("seqlens_k[", b, "] is ", end - 1, " with ", queries,
                              " new tokens, a past of ", past, " and a total of ", c.total));
    c.before.push_back(before);
    c.end.push_back(end);
  }
  return c;
}

/// The older tokens' part of `past`, then `next`, then zeros, up to `length`.
Heads Appended(const Tensor* past, const Heads& next, const Cache& c, int64_t length) {
  Heads out{next.batch, next.heads, length, next.size};
  out.values.assign(static_cast<size_t>(next.batch * next.heads * length * next.size), 0.0);
  for (int64_t b = 0; b < next.batch; ++b)
    for (int64_t h = 0; h < next.heads; ++h) {
      double* to = out.values.data() + (b * next.heads + h) * length * next.size;
      const int64_t older = c.before[static_cast<size_t>(b)] * next.size;
      for (int64_t i = 0; i < older; ++i)
        to[i] = past->At((b * next.heads + h) * past->dim(2) * next.size + i);
      const double* from = next.Row(b, h, 0);
      std::copy(from, from + next.length * next.size, to + older);
    }
  return out;
}

Status RunGroup(OpRun& run) {
  const Tensor& query = run.in(GroupInput::kQuery);
  const int64_t n = run.Int("num_heads"), g = run.Int("kv_num_heads");
  const Tensor *past_key = run.in_or_null(GroupInput::kPastKey),
               *past_value = run.in_or_null(GroupInput::kPastValue);
  AttentionProblem p;
  Heads k, v;
  if (run.has(GroupInput::kKey)) {
    p.q = ReadHeads(query, n);
    k = ReadHeads(run.in(GroupInput::kKey), g);
    v = ReadHeads(run.in(GroupInput::kValue), g);
  } else {
    const Heads all = ReadHeads(query, n + 2 * g);
    p.q = Picked(all, 0, 1, n);
    k = Picked(all, n, 1, g);
    v = Picked(all, n + g, 1, g);
  }
  const int64_t past = past_key ? past_key->dim(2) : 0;
  INFER_ASSIGN(const Cache cache, ReadCache(run, p.q.batch, p.q.length, past));
  if (run.Int("do_rotary") != 0) {
    const Tensor* positions = run.in_or_null(GroupInput::kPositions);
    const auto position = [&](int64_t b, int64_t i) {
      // Of a whole prompt only the first position is read.
      if (positions && cache.first) return positions->IntAt(0) + i;
      if (positions) return positions->IntAt(b * cache.queries + i);
      return cache.before[static_cast<size_t>(b)] + i;
    };
    for (Heads* h : {&p.q, &k})
      INFER_TRY(Rotate(*h, run.in(GroupInput::kCos), run.in(GroupInput::kSin),
                       run.Int("rotary_interleaved") != 0, position));
  }
  const int64_t length = std::max(past, cache.total);
  p.k = Appended(past_key, k, cache, length);
  p.v = Appended(past_value, v, cache, length);
  p.bias = cache;
  p.softcap = run.Float("softcap");
  const double scale = run.Float("scale");
  p.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(p.q.size));
  if (const Tensor* sink = run.in_or_null(GroupInput::kSink))
    for (int64_t h = 0; h < n; ++h) p.sinks.push_back(sink->At(h));
  else if (run.Int("smooth_softmax") == 1)
    p.sinks.assign(static_cast<size_t>(n), 0.0);
  const bool show = run.num_outputs() > 3 && run.Int("qk_output") != 0;
  if (show) p.stage = run.Int("qk_output") == 1 ? ScoreStage::kBiased : ScoreStage::kSoftmax;
  const AttentionResult r = AttentionReference(p);
  const DType t = query.dtype();
  run.Set(0, WriteHeads(r.y, t, 3));
  if (run.num_outputs() > 1) run.Set(1, WriteHeads(p.k, t, 4));
  if (run.num_outputs() > 2) run.Set(2, WriteHeads(p.v, t, 4));
  if (run.num_outputs() < 4) return {};
  // Scores of keys that have no part are 0, as are all when none are asked for.
  Tensor& scores = run.Out(3, t, {p.q.batch, n, p.q.length, cache.total});
  for (int64_t i = 0; i < scores.num_elements(); ++i) {
    const int64_t at = i / cache.total * length + i % cache.total;
    const double score = show ? r.scores.values[static_cast<size_t>(at)] : 0;
    scores.Set(i, score == kForbidden ? 0 : score);
  }
  return {};
}

/// Heads of queries, keys and values, and of caches; several heads of queries share one of keys and
/// values. Of packed operands nothing is told.
void GroupAxes(const OpCall& call, AxisLinks& links) {
  if (!call.has_input(GroupInput::kKey)) return;
  const auto d = ReadGroupDims(call);
  if (!d.ok() || !call.out(0).shape.has_rank()) return;
  for (const size_t i : {GroupInput::kQuery, GroupInput::kKey, GroupInput::kValue,
                         GroupInput::kPastKey, GroupInput::kPastValue, GroupInput::kLengths})
    if (call.has_input(i)) LinkSame(call, i, 0, 0, 0, links);
  LinkSame(call, GroupInput::kQuery, 1, 0, 1, links);
  const int64_t n = call.Int("num_heads"), g = call.Int("kv_num_heads");
  constexpr size_t kScores = 3;
  LinkHeadsOf(call, GroupInput::kQuery, n, kScores, links);
  for (const size_t i : {GroupInput::kKey, GroupInput::kPastKey}) LinkHeadsOf(call, i, g, 1, links);
  for (const size_t i : {GroupInput::kValue, GroupInput::kPastValue})
    LinkHeadsOf(call, i, g, 2, links);
  if (call.has_input(GroupInput::kBias) && Extent(call, GroupInput::kBias, 1).KnownEqual(n))
    LinkHeadsOf(call, GroupInput::kBias, n, kScores, links);
  if (call.has_input(GroupInput::kSink))
    LinkHeads(call, {.value = GroupInput::kSink}, n, kScores, links);
}

Cost CostGroup(const OpCall& call) {
  const auto d = ReadGroupDims(call);
  const Dim n(call.Int("num_heads"));
  const Cost c = TrafficOf(call);
  return d.ok() ? FlopsOf(c, d->b, n, d->s, d->total, d->h * n, d->h * n) : c;
}

// ---- RotaryEmbedding -------------------------------------------------------------------------

Status InferContribRotary(OpCall& call) {
  if (call.Int("is_packed_batching") != 0)
    return Unsupported("RotaryEmbedding: is_packed_batching is set");
  if (call.Float("scale") != 1)
    return Unsupported(Cat("RotaryEmbedding: scale is ", call.Float("scale")));
  INFER_TRY(CheckRank(call, 0, 3, 4));
  for (size_t i : {2, 3}) INFER_TRY(CheckRank(call, i, 2, 2));
  const int64_t heads = call.Int("num_heads");
  if (heads < 0 || heads > (1 << 20)) return InvalidModel(Cat("num_heads is ", heads));
  if (call.Int("rotary_embedding_dim") != 0 && heads < 1)
    return InvalidModel("rotary_embedding_dim needs num_heads");
  call.SetOut(0, call.dtype(0), call.shape(0));
  return {};
}

/// Positions are one per token, or one for the first token.
Status RunContribRotary(OpRun& run) {
  const Tensor &x = run.in(0), &positions = run.in(1), &cos = run.in(2);
  const int64_t rotary = run.Int("rotary_embedding_dim"), half = cos.dim(1);
  if (rotary != 0 && rotary != 2 * half)
    return InvalidModel(
        Cat("rotary_embedding_dim is ", rotary, ", cos_cache is ", ToString(cos.dims())));
  int64_t heads = run.Int("num_heads");
  if (x.rank() == 3) {
    if (rotary == 0 && half > 0) heads = x.dim(2) / (2 * half);
    if (heads < 1 || x.dim(2) % heads != 0 || (rotary == 0 && x.dim(2) != heads * 2 * half))
      return InvalidModel(Cat("input is ", ToString(x.dims()), ", cos_cache ", ToString(cos.dims()),
                              ", ", heads, " heads"));
  }
  Heads h = ReadHeads(x, heads);
  const bool each = positions.dims() == Dims{h.batch, h.length};
  if (!each && positions.num_elements() != 1)
    return InvalidModel(Cat("position_ids is ", ToString(positions.dims())));
  INFER_TRY(Rotate(h, cos, run.in(3), run.Int("interleaved") != 0, [&](int64_t b, int64_t i) {
    return each ? positions.IntAt(b * h.length + i) : positions.IntAt(0) + i;
  }));
  run.Set(0, WriteHeads(h, x.dtype(), x.rank()));
  return {};
}

/// Samples, each with positions of its own.
void ContribRotaryAxes(const OpCall& call, AxisLinks& links) {
  LinkSame(call, 0, 0, 0, 0, links);
  if (call.has_input(1) && call.shape(1).has_rank() && call.shape(1).rank() == 2)
    LinkSame(call, 1, 0, 0, 0, links);
}

}  // namespace

std::span<const OpDef> ContribGroupAttentionOps() {
  static const OpDef ops[] = {
      {
          .name = "GroupQueryAttention",
          .domain = kMicrosoft,
          .doc = "Causal attention with grouped heads, rotary positions and a cache per sample.",
          .traits = Trait::kAttention,
          .axes = GroupAxes,
          .inputs = {{"query", "T"},
                     {"key", "T", Arity::kOptional},
                     {"value", "T", Arity::kOptional},
                     {"past_key", "T_CACHE", Arity::kOptional},
                     {"past_value", "T_CACHE", Arity::kOptional},
                     {"seqlens_k", "M"},
                     {"total_sequence_length", "M"},
                     {"cos_cache", "T", Arity::kOptional},
                     {"sin_cache", "T", Arity::kOptional},
                     {"position_ids", "i64", Arity::kOptional},
                     {"attention_bias", "T", Arity::kOptional},
                     {"head_sink", "T", Arity::kOptional},
                     {"k_scale", "T_KV_SCALE", Arity::kOptional},
                     {"v_scale", "T_KV_SCALE", Arity::kOptional},
                     {"q_norm_weight", "T", Arity::kOptional},
                     {"k_norm_weight", "T", Arity::kOptional}},
          .outputs = {{"output", "T"},
                      {"present_key", "T_CACHE", Arity::kOptional},
                      {"present_value", "T_CACHE", Arity::kOptional},
                      {"output_qk", "T", Arity::kOptional}},
          .attrs = {{"causal", AttrKind::kInt, int64_t{1}},
                    {"do_rotary", AttrKind::kInt, int64_t{0}},
                    {"k_quant_type", AttrKind::kString, std::string("NONE")},
                    {"kv_cache_bit_width", AttrKind::kInt},
                    {"kv_num_heads", AttrKind::kInt, {}, true},
                    {"local_window_size", AttrKind::kInt, int64_t{-1}},
                    {"num_heads", AttrKind::kInt, {}, true},
                    {"qk_norm_epsilon", AttrKind::kFloat, 1e-6f},
                    {"qk_output", AttrKind::kInt, int64_t{0}},
                    {"rotary_interleaved", AttrKind::kInt, int64_t{0}},
                    {"scale", AttrKind::kFloat, 0.0f},
                    {"sliding_window_cache", AttrKind::kInt, int64_t{0}},
                    {"smooth_softmax", AttrKind::kInt, int64_t{-1}},
                    {"softcap", AttrKind::kFloat, 0.0f},
                    {"v_quant_type", AttrKind::kString, std::string("NONE")}},
          .constraints = {{"T", kAttentionReal},
                          {"T_CACHE", kAttentionReal},
                          {"T_KV_SCALE", TypeSet(DType::kF32)},
                          {"M", TypeSet(DType::kI32)}},
          .infer = InferGroup,
          .reference = RunGroup,
          .cost = CostGroup,
          .example = R"(graph g(q: f32[2,1,8], k: f32[2,1,4], v: f32[2,1,4],
                                pk: f32[2,1,3,4], pv: f32[2,1,3,4]) -> (y, k2, v2) {
            l = const i32[2] {3, 1}
            t = const i32[] {4}
            y, k2, v2 = com.microsoft::GroupQueryAttention(q, k, v, pk, pv, l, t)
                        {num_heads=2, kv_num_heads=1} })",
      },
      {
          .name = "RotaryEmbedding",
          .domain = kMicrosoft,
          .doc = "Rotates pairs of elements of every head by angles of the token's position.",
          .traits = Trait::kAttention,
          .axes = ContribRotaryAxes,
          .inputs = {{"input", "T"}, {"position_ids", "M"}, {"cos_cache", "T"}, {"sin_cache", "T"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"interleaved", AttrKind::kInt, int64_t{0}},
                    {"is_packed_batching", AttrKind::kInt, int64_t{0}},
                    {"num_heads", AttrKind::kInt, int64_t{0}},
                    {"rotary_embedding_dim", AttrKind::kInt, int64_t{0}},
                    {"scale", AttrKind::kFloat, 1.0f}},
          .constraints = {{"T", kAttentionReal}, {"M", TypeSet(DType::kI64)}},
          .infer = InferContribRotary,
          .reference = RunContribRotary,
          .cost = CostPerOutput<3>,
          .example = R"(graph g(x: f32[1,3,8]) -> (y) {
            c = const f32[5,2] ~1
            s = const f32[5,2] ~2
            p = const i64[1] {2}
            y = com.microsoft::RotaryEmbedding(x, p, c, s) })",
      },
  };
  return ops;
}

}  // namespace infer
