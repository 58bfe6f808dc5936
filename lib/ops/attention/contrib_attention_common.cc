#include "lib/ops/attention/contrib_attention_common.h"

#include <cmath>
#include <limits>

#include "lib/ops/common.h"

namespace infer {
namespace {

/// What is added to the score of a query and a key.
struct ScoreRule {
  const Tensor* mask = nullptr;
  double filter = 0;
  const Tensor* bias = nullptr;
  bool causal = false;
  int64_t batch = 0, queries = 0, keys = 0, past = 0;

  bool Visible(int64_t b, int64_t i, int64_t j) const {
    switch (mask->rank()) {
      case 1:
        return j < mask->IntAt(b) && (mask->num_elements() == batch || j >= mask->IntAt(batch + b));
      case 2: return mask->num_elements() != batch * keys || mask->At(b * keys + j) > 0;
      default: return mask->At((b * queries + i) * keys + j) > 0;
    }
  }
  double operator()(int64_t b, int64_t h, int64_t i, int64_t j) const {
    // The newest query sees all keys, also those of a key that is longer than the query.
    if (causal && i + 1 < queries && j > past + i) return kForbidden;
    double sum = mask && !Visible(b, i, j) ? filter : 0;
    if (bias) {
      const int64_t row = (bias->dim(0) == 1 ? 0 : b) * bias->dim(1) + (bias->dim(1) == 1 ? 0 : h);
      sum += bias->At((row * queries + i) * keys + j);
    }
    return sum;
  }
};

}  // namespace

Dim Extent(const OpCall& call, size_t i, int d) {
  if (!call.has_input(i) || !call.shape(i).has_rank() || call.shape(i).rank() <= d) return {};
  return call.shape(i)[d];
}

Status WantShape(const OpCall& call, size_t i, std::vector<Dim> want) {
  if (!call.has_input(i)) return {};
  const Shape shape(std::move(want));
  if (Meet(call.shape(i), shape).ok()) return {};
  return InvalidModel(Cat("input '", call.def().inputs[i].name, "' is ", call.shape(i).ToString(),
                          ", wants ", shape.ToString()));
}

Status RefuseInput(const OpCall& call, size_t i, std::string_view why) {
  if (!call.has_input(i)) return {};
  return Unsupported(Cat(call.def().name, ": input '", call.def().inputs[i].name, "': ", why));
}

// ---- Masks -----------------------------------------------------------------------------------

Status CheckMask(const OpCall& call, size_t i, MaskForms forms, const Dim& b, const Dim& s,
                 const Dim& t) {
  if (!call.has_input(i) || !call.shape(i).has_rank()) return {};
  const Shape& mask = call.shape(i);
  const auto is = [&](std::vector<Dim> want) { return Meet(mask, Shape(std::move(want))).ok(); };
  const auto refuse = [&](std::string_view what) {
    return Unsupported(Cat(call.def().name, ": input '", call.def().inputs[i].name, "' is ",
                           mask.ToString(), what));
  };
  if (mask.rank() == 4) return refuse(", a mask per pair of positions of the whole sequence");
  if (mask.rank() == 1) {
    if (is({b}) || (forms.starts && is({b * Dim(2)}))) return {};
    if (is({b * Dim(3) + Dim(2)})) return refuse(", lengths and cumulative lengths");
  }
  if (mask.rank() == 2 && (is({b, t}) || (forms.dummy && (is({b, 1}) || is({1, 1}))))) return {};
  if (mask.rank() == 3 && is({b, s, t})) return {};
  return InvalidModel(Cat("input '", call.def().inputs[i].name, "' is ", mask.ToString(),
                          ", which does not fit [", b.ToString(), ",", s.ToString(), ",",
                          t.ToString(), "]"));
}

Status CheckBias(const OpCall& call, size_t i, const Dim& b, const Dim& n, const Dim& s,
                 const Dim& t) {
  if (!call.has_input(i) || !call.shape(i).has_rank()) return {};
  const Shape scores({b, n, s, t});
  INFER_TRY(WantShape(call, i, {Dim(), Dim(), s, t}));
  auto both = Broadcast(call.shape(i), scores);
  if (both.ok() && Meet(*both, scores).ok()) return {};
  return InvalidModel(
      Cat("attention_bias is ", call.shape(i).ToString(), ", scores are ", scores.ToString()));
}

void AddBias(Heads& h, const Tensor& bias, int64_t offset) {
  for (int64_t row = 0; row < h.batch * h.heads * h.length; ++row)
    for (int64_t e = 0; e < h.size; ++e)
      h.values[static_cast<size_t>(row * h.size + e)] +=
          bias.At(offset + row / h.length % h.heads * h.size + e);
}

void LinkHeads(const OpCall& call, const LabelledAxis& from, int64_t heads, size_t out,
               AxisLinks& links) {
  const auto add = [&](size_t result, int rank, int axis) {
    if (result >= call.num_outputs() || !call.out_type(result).is_tensor()) return;
    const Shape& y = call.out(result).shape;
    if (!y.has_rank() || y.rank() != rank || !y[axis].is_static()) return;
    const int64_t extent = y[axis].value();
    if (extent < heads || extent % heads != 0) return;
    links.push_back({.labels = heads,
                     .from = from,
                     .to = {.value = result, .axis = axis, .inner = extent / heads}});
  };
  add(0, 3, 2);
  if (out > 0) add(out, 4, 1);
}

void LinkHeadsOf(const OpCall& call, size_t operand, int64_t heads, size_t out, AxisLinks& links) {
  if (!call.has_input(operand) || !call.type(operand).is_tensor()) return;
  const Shape& x = call.shape(operand);
  if (!x.has_rank() || (x.rank() != 3 && x.rank() != 4)) return;
  const int axis = x.rank() == 3 ? 2 : 1;
  if (!x[axis].is_static() || x[axis].value() < heads || x[axis].value() % heads != 0) return;
  LinkHeads(call, {.value = operand, .axis = axis, .inner = x[axis].value() / heads}, heads, out,
            links);
}

AttentionResult Attend(const OpRun& run, AttentionProblem& p, const Tensor* mask,
                       const Tensor* bias, int64_t past, ScoreStage stage) {
  ScoreRule rule{mask,       run.Float("mask_filter_value"),
                 bias,       run.Int("unidirectional") != 0,
                 p.q.batch,  p.q.length,
                 p.k.length, past};
  if (mask || bias || rule.causal) p.bias = rule;
  const double scale = run.Float("scale");
  p.scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(p.q.size));
  p.stage = stage;
  return AttentionReference(p);
}

Cost FlopsOf(Cost c, const Dim& b, const Dim& n, const Dim& s, const Dim& t, const Dim& d,
             const Dim& e) {
  for (const Dim* x : {&b, &n, &s, &t, &d, &e})
    if (!x->is_static()) return c;
  c.flops += AttentionFlops(b.value(), n.value(), s.value(), t.value(), d.value() / n.value(),
                            e.value() / n.value());
  return c;
}

Result<int64_t> HeadCount(const OpCall& call) {
  const int64_t n = call.Int("num_heads");
  if (n < 1 || n > (1 << 20)) return InvalidModel(Cat("num_heads is ", n));
  return n;
}

Status WantMultiple(const Dim& hidden, int64_t heads) {
  if (!hidden.is_static() || hidden.value() % heads == 0) return {};
  return InvalidModel(
      Cat("a hidden size of ", hidden.ToString(), " does not split into ", heads, " parts"));
}

}  // namespace infer
