#include "passes/rewrite/queries.h"

#include <algorithm>
#include <numeric>

namespace infer {

bool SameKnownType(const Value& a, const Value& b) {
  if (!a.type().is_tensor() || !b.type().is_tensor() || a.dtype() != b.dtype()) return false;
  if (!a.shape().has_rank() || !b.shape().has_rank()) return false;
  return std::equal(a.shape().dims().begin(), a.shape().dims().end(), b.shape().dims().begin(),
                    b.shape().dims().end(),
                    [](const Dim& x, const Dim& y) { return x.KnownEqual(y); });
}

int RankOf(const Value& v) {
  return v.type().is_tensor() && v.shape().has_rank() ? v.shape().rank() : -1;
}

std::optional<int64_t> StaticDim(const Value& v, int axis) {
  const int rank = RankOf(v);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank || !v.shape()[axis].is_static()) return std::nullopt;
  return v.shape()[axis].value();
}

std::vector<int64_t> PermOf(const Node& transpose) {
  if (const auto it = transpose.attrs().find("perm"); it != transpose.attrs().end())
    return std::get<std::vector<int64_t>>(it->second);
  const int rank = RankOf(*transpose.input(0));
  std::vector<int64_t> perm(static_cast<size_t>(std::max(rank, 0)));
  std::iota(perm.rbegin(), perm.rend(), int64_t{0});
  return perm;
}

bool IsIdentityPerm(const std::vector<int64_t>& perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i)) return false;
  return !perm.empty();
}

std::vector<int64_t> ComposePerms(const std::vector<int64_t>& first,
                                  const std::vector<int64_t>& then) {
  std::vector<int64_t> both(then.size());
  for (size_t i = 0; i < then.size(); ++i) both[i] = first[static_cast<size_t>(then[i])];
  return both;
}

std::optional<std::vector<double>> PerIndex(const Tensor& t, int rank, int axis, int64_t extent) {
  if (t.rank() > rank || t.num_elements() == 0) return std::nullopt;
  if (t.num_elements() == 1) return std::vector<double>(static_cast<size_t>(extent), t.At(0));
  const int own_axis = axis - (rank - t.rank());  // aligned at the last dimension
  for (int i = 0; i < t.rank(); ++i)
    if (t.dim(i) != (i == own_axis ? extent : 1)) return std::nullopt;
  return ToDoubles(t);
}

std::vector<double> ToDoubles(const Tensor& t) {
  std::vector<double> values(static_cast<size_t>(t.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = t.At(static_cast<int64_t>(i));
  return values;
}

Tensor FromDoubles(DType dtype, Dims dims, const std::vector<double>& values) {
  Tensor t(dtype, std::move(dims));
  INFER_CHECK(static_cast<size_t>(t.num_elements()) == values.size());
  for (size_t i = 0; i < values.size(); ++i) t.Set(static_cast<int64_t>(i), values[i]);
  return t;
}

Tensor ScaledAlong(const Tensor& t, int axis, const std::vector<double>& k) {
  Tensor out(t.dtype(), t.dims());
  int64_t inner = 1;
  for (int i = axis + 1; i < t.rank(); ++i) inner *= t.dim(i);
  const int64_t extent = t.dim(axis);
  INFER_CHECK(extent == static_cast<int64_t>(k.size()));
  for (int64_t i = 0; i < t.num_elements(); ++i)
    out.Set(i, t.At(i) * k[static_cast<size_t>(i / inner % extent)]);
  return out;
}

}  // namespace infer
