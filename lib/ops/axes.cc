#include "lib/ops/axes.h"

#include <algorithm>

#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// nullptr where `type` is no tensor, or its rank is not known.
const Shape* RankedShape(const ValueType& type) {
  return type.is_tensor() && type.tensor().shape.has_rank() ? &type.tensor().shape : nullptr;
}

const Shape* OperandShape(const OpCall& call, size_t i) {
  return call.has_input(i) ? RankedShape(call.type(i)) : nullptr;
}

const Shape* ResultShape(const OpCall& call, size_t i) {
  return i < call.num_outputs() ? RankedShape(call.out_type(i)) : nullptr;
}

int64_t LabelsOf(const Dim& extent) { return extent.is_static() ? extent.value() : -1; }

/// Axes of a shape that have more than one index, front to back.
std::vector<int> LongAxes(const Shape& s) {
  std::vector<int> axes;
  for (int i = 0; i < s.rank(); ++i)
    if (!s[i].KnownEqual(1)) axes.push_back(i);
  return axes;
}

/// Where one axis of static extent lies in the row-major order of the elements: its index counts
/// multiples of `place`.
struct Digit {
  int axis;
  int64_t place, extent;
  int64_t end() const { return place * extent; }
};

/// From the last axis to the first that is not static.
std::vector<Digit> TrailingDigits(const Shape& s, std::span<const int> axes) {
  std::vector<Digit> digits;
  int64_t place = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const Dim& d = s[axes[i]];
    if (!d.is_static() || d.value() == 0) break;
    digits.push_back({axes[i], place, d.value()});
    if (__builtin_mul_overflow(place, d.value(), &place)) break;
  }
  return digits;
}

/// The part of the element's position that both digits count.
void LinkDigits(const Digit& in, const Digit& out, AxisLinks& links) {
  const int64_t low = std::max(in.place, out.place), high = std::min(in.end(), out.end());
  if (low >= high || low % in.place || low % out.place || high % low || in.end() % high ||
      out.end() % high)
    return;
  links.push_back({.labels = high / low,
                   .from = {.axis = in.axis, .inner = low / in.place},
                   .to = {.axis = out.axis, .inner = low / out.place}});
}

}  // namespace

int64_t LabelledAxis::LabelOf(int64_t index, int64_t labels) const {
  const int64_t from = index - begin;
  if (from % step != 0) return -1;
  const int64_t k = from / step;
  if (k < 0 || (count >= 0 && k >= count)) return -1;
  return labels < 0 ? k / inner : k / inner % labels;
}

AxisLinks AxesOf(const OpCall& call) {
  AxisLinks links;
  if (call.def().axes)
    call.def().axes(call, links);
  else if (call.def().traits.HasAny(Trait::kUnary | Trait::kElementwise))
    BroadcastAxes(call, links);
  else if (call.def().traits.Has(Trait::kView))
    LinkReshaped(call, links);
  return links;
}

std::optional<int> OperandAxis(const OpCall& call, size_t in, size_t out, int out_axis) {
  for (const AxisLink& l : AxesOf(call))
    if (l.kind == AxisLink::Kind::kSame && l.from.value == in && l.to.value == out &&
        l.to.axis == out_axis && l.from.is_whole() && l.to.is_whole() &&
        (*OperandShape(call, in))[l.from.axis].KnownEqual((*ResultShape(call, out))[out_axis]))
      return l.from.axis;
  return std::nullopt;
}

void LinkSame(const OpCall& call, size_t in, int in_axis, size_t out, int out_axis,
              AxisLinks& links) {
  const Shape *a = OperandShape(call, in), *b = ResultShape(call, out);
  if (!a || !b || in_axis >= a->rank() || out_axis >= b->rank()) return;
  if (!(*a)[in_axis].KnownEqual((*b)[out_axis])) return;
  links.push_back({.labels = LabelsOf((*a)[in_axis]),
                   .from = {.value = in, .axis = in_axis},
                   .to = {.value = out, .axis = out_axis}});
}

void LinkContracted(const OpCall& call, size_t a, int a_axis, size_t b, int b_axis,
                    AxisLinks& links) {
  const Shape *x = OperandShape(call, a), *y = OperandShape(call, b);
  if (!x || !y || a_axis >= x->rank() || b_axis >= y->rank()) return;
  const Dim& extent = (*x)[a_axis].is_static() ? (*x)[a_axis] : (*y)[b_axis];
  links.push_back({.kind = AxisLink::Kind::kContracted,
                   .labels = LabelsOf(extent),
                   .from = {.value = a, .axis = a_axis},
                   .to = {.value = b, .axis = b_axis}});
}

void LinkAllBut(const OpCall& call, const std::vector<int>& without, AxisLinks& links) {
  const Shape* s = OperandShape(call, 0);
  for (int i = 0; s && i < s->rank(); ++i)
    if (std::find(without.begin(), without.end(), i) == without.end())
      LinkSame(call, 0, i, 0, i, links);
}

void LinkBroadcast(const OpCall& call, size_t in, AxisLinks& links) {
  const Shape *a = OperandShape(call, in), *b = ResultShape(call, 0);
  for (int i = 1; a && b && i <= std::min(a->rank(), b->rank()); ++i)
    LinkSame(call, in, a->rank() - i, 0, b->rank() - i, links);
}

void LinkReshaped(const OpCall& call, AxisLinks& links) {
  const Shape *a = OperandShape(call, 0), *b = ResultShape(call, 0);
  if (!a || !b) return;
  const std::vector<int> in_axes = LongAxes(*a), out_axes = LongAxes(*b);
  std::span<const int> in = in_axes, out = out_axes;
  while (!in.empty() && !out.empty() && (*a)[in[0]].KnownEqual((*b)[out[0]])) {
    LinkSame(call, 0, in[0], 0, out[0], links);
    in = in.subspan(1);
    out = out.subspan(1);
  }
  while (!in.empty() && !out.empty() && !(*a)[in.back()].is_static() &&
         (*a)[in.back()].KnownEqual((*b)[out.back()])) {
    LinkSame(call, 0, in.back(), 0, out.back(), links);
    in = in.first(in.size() - 1);
    out = out.first(out.size() - 1);
  }
  for (const Digit& i : TrailingDigits(*a, in))
    for (const Digit& o : TrailingDigits(*b, out)) LinkDigits(i, o, links);
}

void BroadcastAxes(const OpCall& call, AxisLinks& links) {
  for (size_t i = 0; i < call.num_inputs(); ++i) LinkBroadcast(call, i, links);
}

void ReshapedAxes(const OpCall& call, AxisLinks& links) { LinkReshaped(call, links); }

void AllButAxis(const OpCall& call, AxisLinks& links) {
  const Shape* s = OperandShape(call, 0);
  if (!s) return;
  const auto axis = NormalizeAxis(call.Int("axis"), s->rank());
  if (!axis.ok()) return;
  for (size_t out = 0; out < call.num_outputs(); ++out)
    for (int i = 0; i < s->rank(); ++i)
      if (i != *axis) LinkSame(call, 0, i, out, i, links);
}

void AllButLastAxis(const OpCall& call, AxisLinks& links) {
  if (const Shape* s = OperandShape(call, 0)) LinkAllBut(call, {s->rank() - 1}, links);
}

void RowAxes(const OpCall& call, AxisLinks& links) {
  for (size_t in = 0; in < call.num_inputs(); ++in) {
    const Shape* s = OperandShape(call, in);
    for (size_t out = 0; s && s->rank() == 2 && out < call.num_outputs(); ++out)
      LinkSame(call, in, 0, out, 0, links);
  }
}

void SampleAndChannelAxes(const OpCall& call, AxisLinks& links) {
  LinkSame(call, 0, 0, 0, 0, links);
  LinkSame(call, 0, 1, 0, 1, links);
}

}  // namespace infer
