/// Attention and RotaryEmbedding of ai.onnx.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lib/ops/attention/attention_reference.h"
#include "lib/ops/common.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/notes.h"
#include "lib/ops/op_def.h"
#include "lib/tensor/equations.h"

namespace infer {
namespace {

/// Extents of Q, K or V, symbolic where they are.
struct HeadDims {
  Dim batch, heads, length, size;
};

Result<HeadDims> ReadHeadDims(const OpCall& call, size_t i, std::string_view heads_attr) {
  const Shape& s = call.shape(i);
  if (!s.has_rank()) return HeadDims{};
  if (s.rank() == 4) return HeadDims{s[0], s[1], s[2], s[3]};
  const std::string_view name = call.def().inputs[i].name;
  if (s.rank() != 3) return InvalidModel(Cat(name, " is ", s.ToString(), ", wants rank 3 or 4"));
  if (!call.HasAttr(heads_attr))
    return InvalidModel(Cat(name, " has rank 3, so attribute ", heads_attr, " must be given"));
  const int64_t heads = call.Int(heads_attr);
  if (heads < 1 || (s[2].is_static() && s[2].value() % heads != 0))
    return InvalidModel(Cat(name, " is ", s.ToString(), ", not a multiple of ", heads, " heads"));
  return HeadDims{s[0], Dim(heads), s[1], s[2].ExactDiv(Dim(heads))};
}

Dim MeetOr(const Dim& a, const Dim& b) {
  auto met = Meet(a, b);
  return met.ok() ? *met : a;
}

Dim Sum(const Dim& a, const Dim& b) { return a.is_unknown() || b.is_unknown() ? Dim() : a + b; }

/// A mask broadcasts to the scores. It may have fewer keys than they, but seldom has.
void StateMask(const OpCall& call, const std::array<Dim, 4>& scores) {
  if (!call.has_input(3) || !call.shape(3).has_rank()) return;
  const Shape& mask = call.shape(3);
  for (int i = 1; i <= std::min(mask.rank(), 4); ++i)
    StateBroadcast(scores[static_cast<size_t>(4 - i)], mask[-i]);
}

/// attn_mask broadcasts to the scores; where it has fewer keys, those behind are hidden.
Status CheckMaskShape(const Shape& mask, const std::vector<Dim>& scores) {
  if (!mask.has_rank()) return {};
  bool fits = mask.rank() >= 1 && mask.rank() <= 4;
  for (int i = 1; fits && i <= mask.rank(); ++i) {
    const Dim &d = mask[-i], &want = scores[scores.size() - static_cast<size_t>(i)];
    if (!d.is_static() || !want.is_static()) continue;
    fits = i == 1 ? d.value() <= want.value() : d.value() == 1 || d.value() == want.value();
  }
  if (fits) return {};
  return InvalidModel(
      Cat("attn_mask ", mask.ToString(), " does not broadcast to ", Shape(scores).ToString()));
}

Status InferAttention(OpCall& call) {
  INFER_ASSIGN(const HeadDims q, ReadHeadDims(call, 0, "q_num_heads"));
  INFER_ASSIGN(const HeadDims k, ReadHeadDims(call, 1, "kv_num_heads"));
  INFER_ASSIGN(const HeadDims v, ReadHeadDims(call, 2, "kv_num_heads"));
  if (const int64_t mode = call.Int("qk_matmul_output_mode"); mode < 0 || mode > 3)
    return InvalidModel(Cat("qk_matmul_output_mode is ", mode));
  if (call.has_input(4) != call.has_input(5))
    return InvalidModel("past_key and past_value must be given together");
  if (call.has_input(4) && call.has_input(6))
    return InvalidModel("nonpad_kv_seqlen cannot be combined with past_key");
  auto agree = [&](const Dim& a, const Dim& b, std::string_view what) -> Status {
    if (Meet(a, b).ok()) return {};
    return InvalidModel(Cat(what, " differ: ", a.ToString(), " and ", b.ToString()));
  };
  INFER_TRY(agree(q.batch, k.batch, "batch sizes of Q and K"));
  INFER_TRY(agree(q.batch, v.batch, "batch sizes of Q and V"));
  INFER_TRY(agree(k.heads, v.heads, "heads of K and V"));
  INFER_TRY(agree(k.length, v.length, "lengths of K and V"));
  INFER_TRY(agree(q.size, k.size, "head sizes of Q and K"));
  if (q.heads.is_static() && k.heads.is_static() &&
      (k.heads.value() < 1 || q.heads.value() % k.heads.value() != 0))
    return InvalidModel(Cat(q.heads.ToString(), " query heads are no multiple of ",
                            k.heads.ToString(), " key heads"));
  Dim total = k.length, batch = MeetOr(q.batch, k.batch);
  if (call.has_input(4)) {
    const Shape want_k({batch, k.heads, Dim(), k.size}), want_v({batch, k.heads, Dim(), v.size});
    auto past_k = Meet(call.shape(4), want_k), past_v = Meet(call.shape(5), want_v);
    if (!past_k.ok() || !past_v.ok() || !Meet((*past_k)[2], (*past_v)[2]).ok())
      return InvalidModel(Cat("past_key is ", call.shape(4).ToString(), ", past_value is ",
                              call.shape(5).ToString(), ", which do not fit K and V"));
    total = Sum(k.length, MeetOr((*past_k)[2], (*past_v)[2]));
  }
  if (call.has_input(6)) {
    auto met = Meet(call.shape(6), Shape({batch}));
    if (!met.ok()) return InvalidModel("nonpad_kv_seqlen is " + call.shape(6).ToString());
  }
  if (call.has_input(3))
    INFER_TRY(CheckMaskShape(call.shape(3), {batch, q.heads, q.length, total}));
  StateMask(call, {batch, q.heads, q.length, total});
  if (call.shape(0).has_rank() && call.shape(0).rank() == 3) {
    const Dim hidden = v.size.is_unknown() ? Dim() : q.heads * v.size;
    call.SetOut(0, call.dtype(0), Shape({batch, q.length, hidden}));
  } else if (call.shape(0).has_rank()) {
    call.SetOut(0, call.dtype(0), Shape({batch, q.heads, q.length, v.size}));
  } else {
    call.SetOut(0, call.dtype(0), Shape());
  }
  call.SetOut(1, call.dtype(1), Shape({batch, k.heads, total, k.size}));
  call.SetOut(2, call.dtype(2), Shape({batch, k.heads, total, v.size}));
  call.SetOut(3, call.dtype(0), Shape({batch, q.heads, q.length, total}));
  return {};
}

/// The sum of attn_mask, is_causal, the windows and nonpad_kv_seqlen, per score.
struct MaskRule {
  const Tensor* mask = nullptr;
  Dims mask_strides;                   // of the four score axes, 0 where the mask repeats
  int64_t mask_keys = 0;               // keys beyond are forbidden
  const Tensor* valid_keys = nullptr;  // per sample
  bool causal = false;
  int64_t left = -1, right = -1, queries = 0, past = 0;

  double operator()(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t valid = valid_keys ? valid_keys->IntAt(b) : -1;
    if (valid_keys && j >= valid) return kForbidden;
    // Keys before this block of queries: the bottom-right alignment of the specification.
    const int64_t at = i + (valid_keys ? valid - queries : past);
    if (causal && j > at) return kForbidden;
    if (left >= 0 && j < at - left) return kForbidden;
    if (right >= 0 && j > at + right) return kForbidden;
    if (!mask) return 0;
    if (j >= mask_keys) return kForbidden;
    const int64_t flat =
        b * mask_strides[0] + h * mask_strides[1] + i * mask_strides[2] + j * mask_strides[3];
    if (mask->dtype() == DType::kBool) return mask->At(flat) != 0 ? 0 : kForbidden;
    return mask->At(flat);
  }
};

Status ReadMask(const Tensor& mask, const Dims& scores, MaskRule& rule) {
  Dims want = scores;
  if (mask.rank() == 0 || mask.rank() > 4) return InvalidModel("attn_mask has no rank of 1 to 4");
  want[3] = rule.mask_keys = std::min(mask.dim(-1), scores[3]);
  auto both = Broadcast(mask.dims(), want);
  if (!both.ok() || *both != want)
    return InvalidModel(
        Cat("attn_mask ", ToString(mask.dims()), " does not broadcast to ", ToString(scores)));
  rule.mask = &mask;
  rule.mask_strides.assign(4, 0);
  const Dims own = Strides(mask.dims());
  const size_t skip = 4 - own.size();
  for (size_t d = 0; d < own.size(); ++d)
    if (mask.dims()[d] != 1) rule.mask_strides[skip + d] = own[d];
  return {};
}

Status RunAttention(OpRun& run) {
  const Tensor &q = run.in(0), &k = run.in(1), &v = run.in(2);
  auto heads = [&](std::string_view name) { return run.call().HasAttr(name) ? run.Int(name) : 0; };
  AttentionProblem p;
  p.q = ReadHeads(q, heads("q_num_heads"));
  p.k = ReadHeads(k, heads("kv_num_heads"));
  p.v = ReadHeads(v, heads("kv_num_heads"));
  MaskRule rule;
  rule.queries = p.q.length;
  if (run.has(4)) {
    rule.past = run.in(4).dim(2);
    p.k = Concatenated(ReadHeads(run.in(4), 0), p.k);
    p.v = Concatenated(ReadHeads(run.in(5), 0), p.v);
  }
  rule.valid_keys = run.in_or_null(6);
  rule.causal = run.Int("is_causal") != 0;
  rule.left = run.Int("left_window_size");
  rule.right = run.Int("right_window_size");
  if (const Tensor* mask = run.in_or_null(3))
    INFER_TRY(ReadMask(*mask, {p.q.batch, p.q.heads, p.q.length, p.k.length}, rule));
  p.bias = rule;
  p.scale = run.call().HasAttr("scale") ? run.Float("scale")
                                        : 1 / std::sqrt(static_cast<double>(p.q.size));
  p.softcap = run.Float("softcap");
  const int64_t mode = run.Int("qk_matmul_output_mode");
  if (run.num_outputs() > 3) p.stage = static_cast<ScoreStage>(mode + 1);
  const AttentionResult r = AttentionReference(p);
  run.Set(0, WriteHeads(r.y, q.dtype(), q.rank()));
  if (run.num_outputs() > 1) run.Set(1, WriteHeads(p.k, k.dtype(), 4));
  if (run.num_outputs() > 2) run.Set(2, WriteHeads(p.v, v.dtype(), 4));
  if (run.num_outputs() > 3) run.Set(3, WriteHeads(r.scores, q.dtype(), 4));
  return {};
}

Cost CostAttention(const OpCall& call) {
  Cost c = TrafficOf(call);
  const auto q = ReadHeadDims(call, 0, "q_num_heads"), k = ReadHeadDims(call, 1, "kv_num_heads"),
             v = ReadHeadDims(call, 2, "kv_num_heads");
  if (!q.ok() || !k.ok() || !v.ok()) return c;
  Dim keys = k->length;
  if (call.has_input(4)) keys = Sum(keys, call.shape(4).has_rank() ? call.shape(4)[2] : Dim());
  for (const Dim& d : {q->batch, q->heads, q->length, keys, q->size, v->size})
    if (!d.is_static()) return c;
  c.flops = AttentionFlops(q->batch.value(), q->heads.value(), q->length.value(), keys.value(),
                           q->size.value(), v->size.value());
  return c;
}

// ---- RotaryEmbedding -------------------------------------------------------------------------

Status InferRotary(OpCall& call) {
  const Shape& x = call.shape(0);
  if (x.has_rank() && x.rank() != 3 && x.rank() != 4)
    return InvalidModel(Cat("X is ", x.ToString(), ", wants rank 3 or 4"));
  if (x.has_rank() && x.rank() == 3) {
    if (!call.HasAttr("num_heads") || call.Int("num_heads") < 1)
      return InvalidModel("X has rank 3, so attribute num_heads must be given");
    if (x[2].is_static() && x[2].value() % call.Int("num_heads") != 0)
      return InvalidModel(
          Cat("X is ", x.ToString(), ", not a multiple of ", call.Int("num_heads"), " heads"));
  }
  call.SetOut(0, call.dtype(0), x);
  return {};
}

Status RunRotary(OpRun& run) {
  const Tensor &x = run.in(0), &cos = run.in(1), &sin = run.in(2);
  const Tensor* positions = run.in_or_null(3);
  Heads h = ReadHeads(x, run.call().HasAttr("num_heads") ? run.Int("num_heads") : 0);
  const int64_t asked = run.Int("rotary_embedding_dim");
  const int64_t rotary = asked == 0 ? h.size : asked, half = rotary / 2;
  const Dims want =
      positions ? Dims{cos.rank() == 2 ? cos.dim(0) : -1, half} : Dims{h.batch, h.length, half};
  if (rotary < 0 || rotary > h.size || rotary % 2 != 0)
    return InvalidModel(Cat("cannot rotate ", rotary, " elements of heads of ", h.size));
  if (cos.dims() != want || sin.dims() != want)
    return InvalidModel(Cat("cos_cache is ", ToString(cos.dims()), ", sin_cache is ",
                            ToString(sin.dims()), ", wanted ", ToString(want)));
  if (positions && positions->dims() != Dims{h.batch, h.length})
    return InvalidModel(Cat("position_ids is ", ToString(positions->dims())));
  INFER_TRY(Rotate(h, cos, sin, run.Int("interleaved") != 0, [&](int64_t b, int64_t i) {
    return positions ? positions->IntAt(b * h.length + i) : b * h.length + i;
  }));
  run.Set(0, WriteHeads(h, x.dtype(), x.rank()));
  return {};
}

constexpr TypeSet kMaskTypes = kFloatsBF16 | kInts | TypeSet(DType::kBool);

/// Heads and the elements of a head: axes of their own in operands of rank 4, labels of the last
/// axis in those of rank 3. Several heads of queries share one of keys and values.
void AttentionAxes(const OpCall& call, AxisLinks& links) {
  const auto q = ReadHeadDims(call, 0, "q_num_heads"), k = ReadHeadDims(call, 1, "kv_num_heads"),
             v = ReadHeadDims(call, 2, "kv_num_heads");
  const Shape& y = call.out(0).shape;
  if (!q.ok() || !k.ok() || !v.ok() || !y.has_rank()) return;
  for (size_t i = 0; i < 3; ++i) LinkSame(call, i, 0, 0, 0, links);
  if (!call.shape(0).has_rank() || !call.shape(1).has_rank() || !call.shape(2).has_rank()) return;
  const bool folded = y.rank() == 3;
  LinkSame(call, 0, folded ? 1 : 2, 0, folded ? 1 : 2, links);
  for (const Dim& d : {q->heads, q->size, k->heads, k->size, v->size})
    if (!d.is_static() || d.value() < 1) return;
  const int64_t heads = q->heads.value(), shared = k->heads.value(), size = v->size.value();
  if (heads % shared != 0 || call.shape(1).rank() != y.rank() || call.shape(2).rank() != y.rank())
    return;
  const int head_axis = folded ? 2 : 1, last = y.rank() - 1;
  const auto heads_of = [&](size_t i, int64_t labels, int64_t width) {
    links.push_back({.labels = labels,
                     .from = {.value = i, .axis = head_axis, .inner = folded ? width : 1},
                     .to = {.axis = head_axis, .inner = heads / labels * (folded ? size : 1)}});
  };
  heads_of(0, heads, q->size.value());
  heads_of(1, shared, k->size.value());
  heads_of(2, shared, size);
  links.push_back({.kind = AxisLink::Kind::kContracted,
                   .labels = q->size.value(),
                   .from = {.axis = last},
                   .to = {.value = 1, .axis = last}});
  links.push_back({.labels = size, .from = {.value = 2, .axis = last}, .to = {.axis = last}});
}

/// Pairs of elements of a head are mixed.
void RotaryAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) return;
  for (int a = 0; a + 1 < s.rank(); ++a) LinkSame(call, 0, a, 0, a, links);
  const int length = s.rank() == 3 ? 1 : 2;
  for (size_t i = call.has_input(3) ? 3 : 1; i < call.num_inputs(); ++i) {  // positions, or angles
    LinkSame(call, i, 0, 0, 0, links);
    LinkSame(call, i, 1, 0, length, links);
  }
  const int64_t heads = call.HasAttr("num_heads") ? call.Int("num_heads") : 0;
  if (s.rank() != 3 || heads < 1 || !s[2].is_static() || s[2].value() % heads != 0) return;
  const LabelledAxis all{.axis = 2, .inner = s[2].value() / heads};
  links.push_back({.labels = heads, .from = all, .to = all});
}

}  // namespace

std::span<const OpDef> AttentionOps() {
  static const OpDef ops[] = {
      {
          .name = "Attention",
          .doc = "Scaled dot-product attention with masks, grouped heads, softcap and a cache.",
          .traits = Trait::kAttention,
          .axes = AttentionAxes,
          .since = 23,
          .versions = {23, 24, 25},
          .inputs = {{"Q", "T1"},
                     {"K", "T1"},
                     {"V", "T2"},
                     {"attn_mask", "U", Arity::kOptional},
                     {"past_key", "T1", Arity::kOptional},
                     {"past_value", "T2", Arity::kOptional},
                     {"nonpad_kv_seqlen", "i64", Arity::kOptional, 24}},
          .outputs = {{"Y", "T1"},
                      {"present_key", "T1", Arity::kOptional},
                      {"present_value", "T2", Arity::kOptional},
                      {"qk_matmul_output", "T1", Arity::kOptional}},
          .attrs = {{"is_causal", AttrKind::kInt, int64_t{0}},
                    {"kv_num_heads", AttrKind::kInt},
                    {"left_window_size", AttrKind::kInt, int64_t{-1}, false, 25},
                    {"q_num_heads", AttrKind::kInt},
                    {"qk_matmul_output_mode", AttrKind::kInt, int64_t{0}},
                    {"right_window_size", AttrKind::kInt, int64_t{-1}, false, 25},
                    {"scale", AttrKind::kFloat},
                    {"softcap", AttrKind::kFloat, 0.0f},
                    {"softmax_precision", AttrKind::kInt},
                    {kWithoutKeys, AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T1", kFloatsBF16}, {"T2", kFloatsBF16}, {"U", kMaskTypes}},
          .infer = InferAttention,
          .reference = RunAttention,
          .cost = CostAttention,
          .decompose = DecomposeAttention,
          .example = R"(graph g(q: f32[2,3,8], k: f32[2,5,4], v: f32[2,5,6]) -> (y) {
            y = Attention(q, k, v) {q_num_heads=4, kv_num_heads=2, is_causal=1} })",
      },
      {
          .name = "RotaryEmbedding",
          .doc = "Rotates pairs of elements of every head by angles of the token's position.",
          .traits = Trait::kAttention,
          .axes = RotaryAxes,
          .since = 23,
          .versions = {23},
          .inputs = {{"X", "T"},
                     {"cos_cache", "T"},
                     {"sin_cache", "T"},
                     {"position_ids", "M", Arity::kOptional}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"interleaved", AttrKind::kInt, int64_t{0}},
                    {"num_heads", AttrKind::kInt},
                    {"rotary_embedding_dim", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", TypeSet(DType::kF32, DType::kF16, DType::kBF16)},
                          {"M", TypeSet(DType::kI64)}},
          .infer = InferRotary,
          .reference = RunRotary,
          .cost = CostPerOutput<3>,
          .decompose = DecomposeRotary,
          .example = R"(graph g(x: f32[1,2,3,4]) -> (y) {
            c = const f32[5,2] ~1
            s = const f32[5,2] ~2
            p = const i64[1,3] {0, 4, 2}
            y = RotaryEmbedding(x, c, s, p) })",
      },
  };
  return ops;
}

}  // namespace infer
