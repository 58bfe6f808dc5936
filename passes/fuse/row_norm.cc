#include "passes/fuse/row_norm.h"

#include <algorithm>

#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Of a mean, ascending and not negative; empty where they are not known.
std::vector<int64_t> AxesOf(const Node& reduce) {
  const int rank = RankOf(*reduce.input(0));
  if (reduce.Is(Trait::kPooling))
    return rank == 3 ? std::vector<int64_t>{2} : std::vector<int64_t>();
  const Value* axes = reduce.input(1);
  if (rank < 1 || !axes || !axes->is_constant()) return {};
  std::vector<int64_t> sorted = axes->constant()->ToInts();
  for (int64_t& a : sorted) a = a < 0 ? a + rank : a;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

std::optional<int64_t> FirstTrailingAxis(const Node& reduce) {
  const std::vector<int64_t> axes = AxesOf(reduce);
  if (axes.empty()) return std::nullopt;
  const int64_t first = RankOf(*reduce.input(0)) - static_cast<int64_t>(axes.size());
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != first + static_cast<int64_t>(i)) return std::nullopt;
  return first;
}

std::optional<int64_t> SingleInnerAxis(const Node& reduce) {
  const std::vector<int64_t> axes = AxesOf(reduce);
  if (axes.size() != 1 || axes[0] + 1 >= RankOf(*reduce.input(0))) return std::nullopt;
  return axes[0];
}

Value* RowOnes(const Value& x, int64_t axis, DType type, PatchBuilder& b) {
  Dims dims;
  for (int64_t i = axis < 0 ? axis + RankOf(x) : axis; i < RankOf(x); ++i) {
    const auto extent = StaticDim(x, static_cast<int>(i));
    if (!extent) {
      dims = {1};
      break;
    }
    dims.push_back(*extent);
  }
  const std::vector<double> ones(static_cast<size_t>(NumElements(dims)), 1.0);
  return b.Const(FromDoubles(type, dims, ones));
}

Result<Value*> RowOperand(Value* v, const Value& x, int64_t axis, PatchBuilder& b) {
  const Status wrong = InvalidModel("needs one number per normalized element");
  const int rank = RankOf(x);
  if (rank < 1 || RankOf(*v) < 0 || !v->shape().is_static()) return wrong;
  const auto first = static_cast<int>(axis < 0 ? axis + rank : axis);
  const auto row_rank = static_cast<size_t>(rank - first);
  Dims dims = v->shape().static_dims();
  while (dims.size() > row_rank && dims[0] == 1) dims.erase(dims.begin());
  Dims row;
  for (int i = first; i < rank; ++i) row.push_back(StaticDim(x, i).value_or(-1));
  if (v->is_constant() && NumElements(dims) == 1 &&
      std::all_of(row.begin(), row.end(), [](int64_t d) { return d > 0; })) {
    const auto count = static_cast<size_t>(NumElements(row));
    return b.Const(FromDoubles(v->dtype(), row, std::vector<double>(count, v->constant()->At(0))));
  }
  if (dims.size() != row_rank) return wrong;
  for (size_t i = 0; i < row_rank; ++i)
    if (row[i] != dims[i]) return wrong;
  if (dims == v->shape().static_dims()) return v;
  if (!v->is_constant()) return wrong;
  return b.Const(v->constant()->Reshaped(dims));
}

}  // namespace infer
