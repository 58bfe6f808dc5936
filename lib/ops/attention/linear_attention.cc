/// CausalConvWithState and LinearAttention: what state-space and linear-attention models carry from
/// one call to the next.
#include <cmath>

#include "lib/ops/attention/contrib_attention_common.h"
#include "lib/ops/common.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// Both extents are one. InvalidModel says `what` when they are not.
Status Unify(Dim& a, const Dim& b, std::string_view what) {
  auto met = Meet(a, b);
  if (!met.ok()) return InvalidModel(Cat(what, " differ: ", a.ToString(), " and ", b.ToString()));
  a = *std::move(met);
  return {};
}

// ---- CausalConvWithState ---------------------------------------------------------------------
// Letters: B batch, C channels, L length, K kernel extent.

Status InferCausalConv(OpCall& call) {
  const std::string& activation = call.Str("activation");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return InvalidModel(Cat("activation cannot be '", activation, "'"));
  for (size_t i : {0, 1, 3})
    if (call.has_input(i)) INFER_TRY(CheckRank(call, i, 3, 3));
  if (call.has_input(2)) INFER_TRY(CheckRank(call, 2, 1, 1));
  Dim b = Extent(call, 0, 0), c = Extent(call, 0, 1), k = Extent(call, 1, 2), one = 1;
  INFER_TRY(Unify(c, Extent(call, 1, 0), "channels of input and weight"));
  INFER_TRY(Unify(c, Extent(call, 2, 0), "channels of input and bias"));
  INFER_TRY(Unify(c, Extent(call, 3, 1), "channels of input and past_state"));
  INFER_TRY(Unify(b, Extent(call, 3, 0), "batches of input and past_state"));
  INFER_TRY(Unify(one, Extent(call, 1, 1), "the weight's extent 1 and 1"));
  if (k.is_static() && k.value() < 1) return InvalidModel("the weight is empty");
  Dim kept = k.is_unknown() ? Dim() : k - Dim(1);
  INFER_TRY(Unify(kept, Extent(call, 3, 2), "K - 1 and the length of past_state"));
  call.SetOut(0, call.dtype(0), Shape({b, c, Extent(call, 0, 2)}));
  call.SetOut(1, call.dtype(0), Shape({b, c, kept}));
  return {};
}

Status RunCausalConv(OpRun& run) {
  const Tensor &x = run.in(0), &w = run.in(1);
  const Tensor *bias = run.in_or_null(2), *past = run.in_or_null(3);
  const bool silu = run.Str("activation") != "none";
  const int64_t channels = x.dim(1), length = x.dim(2), kernel = w.dim(2), kept = kernel - 1;
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  Tensor& present = run.Out(1, x.dtype(), {x.dim(0), channels, kept});
  ParallelFor(x.dim(0) * channels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t c = row % channels;
      // What stands before the input, then the input.
      std::vector<double> line(static_cast<size_t>(kept), 0.0);
      for (int64_t i = 0; past && i < kept; ++i)
        line[static_cast<size_t>(i)] = past->At(row * kept + i);
      for (int64_t i = 0; i < length; ++i) line.push_back(x.At(row * length + i));
      for (int64_t i = 0; i < length; ++i) {
        double sum = bias ? bias->At(c) : 0;
        for (int64_t k = 0; k < kernel; ++k)
          sum += w.At(c * kernel + k) * line[static_cast<size_t>(i + k)];
        y.Set(row * length + i, silu ? sum / (1 + std::exp(-sum)) : sum);
      }
      for (int64_t i = 0; i < kept; ++i)
        present.Set(row * kept + i, line[static_cast<size_t>(length + i)]);
    }
  });
  return {};
}

Cost CostCausalConv(const OpCall& call) {
  Cost c = TrafficOf(call);
  const Dim k = Extent(call, 1, 2);
  if (!k.is_static()) return c;
  const int64_t more = (call.has_input(2) ? 1 : 0) + (call.Str("activation") == "none" ? 0 : 4);
  c.flops = StaticElements(call.out(0).shape) * (2 * k.value() + more);
  return c;
}

// ---- LinearAttention -------------------------------------------------------------------------
// Letters: B batch, T tokens, H query heads, G key/value heads (H is a multiple), D key size,
// E value size. Each (batch, key/value head) has a state S [D, E].

struct Rule {
  bool gated = false;  // the state decays
  bool delta = false;  // what the state already says of the key is taken off the value
};

Result<Rule> RuleOf(const OpCall& call) {
  const std::string& name = call.Str("update_rule");
  Rule r{name == "gated" || name == "gated_delta", name == "delta" || name == "gated_delta"};
  if (!r.gated && !r.delta && name != "linear")
    return InvalidModel(Cat("update_rule cannot be '", name, "'"));
  if (call.has_input(4) != r.gated)
    return InvalidModel(Cat("update_rule ", name, r.gated ? " needs" : " takes no", " decay"));
  if (call.has_input(5) != r.delta)
    return InvalidModel(Cat("update_rule ", name, r.delta ? " needs" : " takes no", " beta"));
  return r;
}

/// The size of one of `heads` heads that are packed in extent 2 of input i.
Result<Dim> HeadSize(const OpCall& call, size_t i, int64_t heads) {
  const Dim packed = Extent(call, i, 2);
  if (packed.is_unknown()) return Dim();
  if (packed.is_static() && packed.value() % heads != 0)
    return InvalidModel(
        Cat("input ", i, " packs ", packed.ToString(), " values, not ", heads, " equal heads"));
  return packed.FloorDiv(heads);
}

Status InferLinearAttention(OpCall& call) {
  INFER_TRY(RuleOf(call).status());
  const int64_t h = call.Int("q_num_heads"), g = call.Int("kv_num_heads");
  if (g < 1 || h < 1 || h % g != 0)
    return InvalidModel(Cat(h, " query heads are no multiple of ", g, " key/value heads"));
  Dim batch, tokens;
  for (size_t i : {0, 1, 2, 4, 5}) {
    if (!call.has_input(i)) continue;
    INFER_TRY(CheckRank(call, i, 3, 3));
    INFER_TRY(Unify(batch, Extent(call, i, 0), "batches"));
    INFER_TRY(Unify(tokens, Extent(call, i, 1), "numbers of tokens"));
  }
  INFER_ASSIGN(Dim d, HeadSize(call, 0, h));
  INFER_ASSIGN(const Dim key_size, HeadSize(call, 1, g));
  INFER_ASSIGN(Dim e, HeadSize(call, 2, g));
  INFER_TRY(Unify(d, key_size, "head sizes of query and key"));
  DType state = call.dtype(0);
  if (call.has_input(3)) {
    INFER_TRY(CheckRank(call, 3, 4, 4));
    Dim heads = g;
    INFER_TRY(Unify(batch, Extent(call, 3, 0), "batches"));
    INFER_TRY(Unify(heads, Extent(call, 3, 1), "key/value heads of the attribute and past_state"));
    INFER_TRY(Unify(d, Extent(call, 3, 2), "key sizes of key and past_state"));
    INFER_TRY(Unify(e, Extent(call, 3, 3), "value sizes of value and past_state"));
    state = call.dtype(3);
  }
  if (const Dim n = Extent(call, 4, 2);
      n.is_static() && d.is_static() && n.value() != g && n.value() != g * d.value())
    return InvalidModel(Cat("decay packs ", n.ToString(), " values, neither one per head nor one ",
                            "per key value"));
  if (const Dim n = Extent(call, 5, 2); n.is_static() && n.value() != g && n.value() != 1)
    return InvalidModel(Cat("beta packs ", n.ToString(), " values for ", g, " heads"));
  call.SetOut(0, call.dtype(0), Shape({batch, tokens, e.is_unknown() ? Dim() : Dim(h) * e}));
  call.SetOut(1, state, Shape({batch, Dim(g), d, e}));
  return {};
}

Status RunLinearAttention(OpRun& run) {
  INFER_ASSIGN(const Rule rule, RuleOf(run.call()));
  const Tensor &q = run.in(0), &k = run.in(1), &v = run.in(2);
  const Tensor *past = run.in_or_null(3), *decay = run.in_or_null(4), *beta = run.in_or_null(5);
  const int64_t heads = run.Int("q_num_heads"), groups = run.Int("kv_num_heads");
  const int64_t tokens = q.dim(1), d = q.dim(2) / heads, e = v.dim(2) / groups;
  const int64_t shared = heads / groups;
  const double asked = static_cast<double>(run.Float("scale"));
  const double scale = asked == 0 ? 1 / std::sqrt(static_cast<double>(d)) : asked;
  Tensor& y = run.Out(0, q.dtype(), {q.dim(0), tokens, heads * e});
  Tensor& present = run.Out(1, past ? past->dtype() : q.dtype(), {q.dim(0), groups, d, e});
  ParallelFor(q.dim(0) * groups, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / groups, g = row % groups;
      std::vector<double> state(static_cast<size_t>(d * e), 0.0), value(static_cast<size_t>(e));
      for (size_t i = 0; past && i < state.size(); ++i)
        state[i] = past->At(row * d * e + static_cast<int64_t>(i));
      for (int64_t t = 0; t < tokens; ++t) {
        const int64_t token = b * tokens + t;
        auto key = [&](int64_t i) { return k.At((token * groups + g) * d + i); };
        for (int64_t i = 0; rule.gated && i < d; ++i) {
          const bool per_head = decay->dim(2) == groups;
          const double kept =
              std::exp(decay->At(token * decay->dim(2) + (per_head ? g : g * d + i)));
          for (int64_t j = 0; j < e; ++j) state[static_cast<size_t>(i * e + j)] *= kept;
        }
        for (int64_t j = 0; j < e; ++j) {
          double sum = v.At((token * groups + g) * e + j);
          if (rule.delta) {
            for (int64_t i = 0; i < d; ++i) sum -= state[static_cast<size_t>(i * e + j)] * key(i);
            sum *= beta->At(token * beta->dim(2) + (beta->dim(2) == 1 ? 0 : g));
          }
          value[static_cast<size_t>(j)] = sum;
        }
        for (int64_t i = 0; i < d; ++i)
          for (int64_t j = 0; j < e; ++j)
            state[static_cast<size_t>(i * e + j)] += key(i) * value[static_cast<size_t>(j)];
        for (int64_t s = 0; s < shared; ++s) {
          const int64_t at = token * heads + g * shared + s;
          for (int64_t j = 0; j < e; ++j) {
            double sum = 0;
            for (int64_t i = 0; i < d; ++i)
              sum += q.At(at * d + i) * state[static_cast<size_t>(i * e + j)];
            y.Set(at * e + j, scale * sum);
          }
        }
      }
      for (size_t i = 0; i < state.size(); ++i)
        present.Set(row * d * e + static_cast<int64_t>(i), state[i]);
    }
  });
  return {};
}

/// Per token and state element: 2 to write, 1 to decay, 2 to read back, 2 per query head to read.
Cost CostLinearAttention(const OpCall& call) {
  Cost c = TrafficOf(call);
  const Dim tokens = Extent(call, 0, 1);
  if (!tokens.is_static()) return c;
  const int64_t shared = call.Int("q_num_heads") / call.Int("kv_num_heads");
  const int64_t each = 2 + 2 * shared + (call.has_input(4) ? 1 : 0) + (call.has_input(5) ? 2 : 0);
  c.flops = StaticElements(call.out(1).shape) * tokens.value() * each;
  return c;
}

constexpr TypeSet kStateTypes{DType::kF32, DType::kF16, DType::kBF16};

/// Samples of these operands, in both results.
void LinkSamples(const OpCall& call, std::span<const size_t> operands, AxisLinks& links) {
  for (const size_t in : operands)
    for (size_t out = 0; out < call.num_outputs(); ++out) LinkSame(call, in, 0, out, 0, links);
}

void CausalConvWithStateAxes(const OpCall& call, AxisLinks& links) {
  static constexpr size_t kOperands[] = {0, 3};
  LinkSamples(call, kOperands, links);
}

void LinearAttentionAxes(const OpCall& call, AxisLinks& links) {
  static constexpr size_t kOperands[] = {0, 1, 2, 3, 4, 5};
  LinkSamples(call, kOperands, links);
}

}  // namespace

std::span<const OpDef> LinearAttentionOps() {
  static const OpDef ops[] = {
      {
          .name = "CausalConvWithState",
          .doc = "Convolution of each channel with what came before, which it hands on.",
          .traits = Trait::kScan,
          .axes = CausalConvWithStateAxes,
          .since = 27,
          .versions = {27},
          .inputs = {{"input", "T"},
                     {"weight", "T"},
                     {"bias", "T", Arity::kOptional},
                     {"past_state", "T", Arity::kOptional}},
          .outputs = {{"output", "T"}, {"present_state", "T"}},
          .attrs = {{"activation", AttrKind::kString, std::string("none")}},
          .constraints = {{"T", kStateTypes}},
          .infer = InferCausalConv,
          .reference = RunCausalConv,
          .cost = CostCausalConv,
          .decompose = DecomposeCausalConv,
          .example = R"(graph g(x: f32[2,3,5], past: f32[2,3,2]) -> (y, present) {
            w = const f32[3,1,3] ~1 b = const f32[3] ~2
            y, present = CausalConvWithState(x, w, b, past) {activation="silu"} })",
      },
      {
          .name = "LinearAttention",
          .doc = "Attention whose keys and values are summed up in a state of fixed size.",
          .traits = Trait::kAttention | Trait::kScan,
          .axes = LinearAttentionAxes,
          .since = 27,
          .versions = {27},
          .inputs = {{"query", "T"},
                     {"key", "T"},
                     {"value", "T"},
                     {"past_state", "S", Arity::kOptional},
                     {"decay", "T", Arity::kOptional},
                     {"beta", "T", Arity::kOptional}},
          .outputs = {{"output", "T"}, {"present_state", "S"}},
          .attrs = {{"chunk_size", AttrKind::kInt, int64_t{64}},
                    {"kv_num_heads", AttrKind::kInt, {}, true},
                    {"q_num_heads", AttrKind::kInt, {}, true},
                    {"scale", AttrKind::kFloat, 0.0f},
                    {"update_rule", AttrKind::kString, std::string("gated_delta")}},
          .constraints = {{"T", kStateTypes}, {"S", kStateTypes}},
          .infer = InferLinearAttention,
          .reference = RunLinearAttention,
          .cost = CostLinearAttention,
          .decompose = DecomposeLinearAttention,
          .example = R"(graph g(q: f32[1,3,8], k: f32[1,3,4], v: f32[1,3,6], s: f32[1,2,2,3],
            d: f32[1,3,2], b: f32[1,3,2]) -> (y, present) {
            y, present = LinearAttention(q, k, v, s, d, b) {q_num_heads=4, kv_num_heads=2} })",
      },
  };
  return ops;
}

}  // namespace infer
