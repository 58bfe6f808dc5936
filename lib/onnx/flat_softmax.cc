#include "lib/onnx/flat_softmax.h"

#include <optional>

#include "lib/ir/roles.h"

namespace infer::onnx_io {
namespace {

bool ReadOnce(const Value& v) { return v.has_one_use() && !v.is_output(); }

int RankOrMinus1(const Value& v) {
  return v.type().is_tensor() && v.shape().has_rank() ? v.shape().rank() : -1;
}

/// The Shape of all of `x` that `v` is; nullptr else.
const Node* ShapeOf(const Value* v, const Value* x) {
  const Node* n = v ? v->producer() : nullptr;
  return n && IsWholeShape(*n) && n->input(0) == x ? n : nullptr;
}

bool SameExtents(const Value& a, const Value& b) {
  const int rank = RankOrMinus1(a);
  if (rank < 0 || rank != RankOrMinus1(b)) return false;
  for (int i = 0; i < rank; ++i)
    if (!a.shape()[i].KnownEqual(b.shape()[i])) return false;
  return true;
}

/// The axis of x from which on the rows of `flat`, a view of x, are; nullopt for other views.
std::optional<int64_t> FirstAxisOfRows(const Node& view) {
  const Value &x = *view.input(0), &flat = *view.output(0);
  const int rank = RankOrMinus1(x);
  if (rank < 1 || RankOrMinus1(flat) != 2) return std::nullopt;
  if (view.Is("Flatten")) {
    const auto axis = view.Attr<int64_t>("axis");
    const int64_t at = axis < 0 ? axis + rank : axis;
    return at < rank ? std::optional(at) : std::nullopt;
  }
  for (int at = 0; at < rank; ++at) {
    Dim rows = 1, columns = 1;
    for (int i = 0; i < rank; ++i)
      (i < at ? rows : columns) = (i < at ? rows : columns) * x.shape()[i];
    if (rows.KnownEqual(flat.shape()[0]) && columns.KnownEqual(flat.shape()[1])) return at;
  }
  return std::nullopt;
}

}  // namespace

FlatSoftmaxes FindFlatSoftmaxes(const Graph& g) {
  FlatSoftmaxes found;
  for (const auto& n : g.nodes()) {
    if (!n->Is("Reshape")) continue;
    const Node* softmax = n->input(0)->producer();
    if (!softmax || !ReadOnce(*n->input(0))) continue;
    if (!softmax->Is(Trait::kSoftmax)) continue;
    const auto axis = softmax->Attr<int64_t>("axis");
    const Node* view = softmax->input(0)->producer();
    if ((axis != -1 && axis != 1) || !view || (!view->Is("Flatten") && !view->Is("Reshape")))
      continue;
    const Value* x = view->input(0);
    const Node* shape = ShapeOf(n->input(1), x);
    const auto at = FirstAxisOfRows(*view);
    if (!at || (!shape && !SameExtents(*x, *n->output(0)))) continue;
    found.last[n.get()] = {softmax, x, *at};
    found.inner.insert(softmax);
    if (ReadOnce(*view->output(0))) found.inner.insert(view);
    if (shape && ReadOnce(*shape->output(0))) found.inner.insert(shape);
  }
  return found;
}

}  // namespace infer::onnx_io
