#include "runtime/cpu/compile/scattered_rows.h"

#include "lib/ir/replacement.h"

namespace infer {
namespace {

bool IsRanked(const Value* v, int rank) {
  return v && v->type().is_tensor() && v->shape().has_rank() && v->shape().rank() == rank;
}

/// The numbers [rows, 1, ...] that are repeated to the indices of `n`; nullptr: nothing says so.
Value* RowsOf(const Node& n) {
  const Value *const x = n.input(0), *const indices = n.input(1), *const updates = n.input(2);
  if (!x || !x->type().is_tensor() || !x->shape().has_rank()) return nullptr;
  const int rank = x->shape().rank();
  if (rank < 2 || !IsRanked(indices, rank) || !IsRanked(updates, rank) || !indices->producer() ||
      !indices->producer()->Is("Expand"))
    return nullptr;
  if (const auto axis = n.Attr<int64_t>("axis"); axis != 0 && axis != -rank) return nullptr;
  Value* const rows = indices->producer()->input(0);
  if (!IsRanked(rows, rank) || rows->dtype() != DType::kI64) return nullptr;
  // A bad number of rows is found in the run, where indices and updates no longer fit.
  if (!rows->shape()[0].KnownEqual(indices->shape()[0]) ||
      !rows->shape()[0].KnownEqual(updates->shape()[0]))
    return nullptr;
  for (int d = 1; d < rank; ++d)
    if (rows->shape()[d] != Dim(1) || !indices->shape()[d].KnownEqual(x->shape()[d]) ||
        !updates->shape()[d].KnownEqual(x->shape()[d]))
      return nullptr;
  return rows;
}

Status ScatterRowsOf(GraphEditor& editor, Node& n, Value* rows) {
  editor.InsertBefore(n);
  if (rows->shape().rank() > 2) {
    Value* const tuples = editor.AddConstant(Tensor::Of<int64_t>({2}, {-1, 1}));
    INFER_ASSIGN(rows, editor.Add("Reshape", {rows, tuples}));
  }
  INFER_ASSIGN(Value * y,
               editor.Add("ScatterND", {n.input(0), rows, n.input(2)},
                          {{"reduction", n.Attr<std::string>("reduction")}}, "", NamesOf(n)));
  return ReplaceNode(editor, n, y);
}

}  // namespace

Result<int> ScatterRows(Graph& g) {
  GraphEditor editor(g);
  int replaced = 0;
  for (auto it = g.nodes().begin(); it != g.nodes().end();) {
    Node& n = **it++;
    if (!n.Is("ScatterElements")) continue;
    Value* const rows = RowsOf(n);
    if (!rows) continue;
    INFER_TRY(ScatterRowsOf(editor, n, rows));
    ++replaced;
  }
  if (replaced > 0) editor.Sweep();
  return replaced;
}

}  // namespace infer
