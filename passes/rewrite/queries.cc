#include "passes/rewrite/queries.h"

#include <algorithm>

namespace infer {

bool SameKnownType(const Value& a, const Value& b) {
  if (!a.type().is_tensor() || !b.type().is_tensor() || a.dtype() != b.dtype()) return false;
  if (!a.shape().has_rank() || !b.shape().has_rank()) return false;
  return KnownEqual(a.shape().dims(), b.shape().dims());
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

std::vector<int64_t> InversePerm(const std::vector<int64_t>& perm) {
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}

std::optional<std::vector<int64_t>> NormalAxes(std::vector<int64_t> axes, int rank) {
  for (int64_t& a : axes) {
    if (a < -rank || a >= rank) return std::nullopt;
    if (a < 0) a += rank;
  }
  return axes;
}

std::optional<std::vector<int64_t>> ConstantInts(const Node& n, size_t operand) {
  const Value* v = n.input(operand);
  if (!v || !v->is_constant() || !IsInteger(v->dtype())) return std::nullopt;
  return v->constant()->ToInts();
}

std::optional<std::vector<int64_t>> ReshapeTarget(const Shape& from, const Shape& to) {
  if (!to.has_rank()) return std::nullopt;
  std::vector<int64_t> target;
  int inferred = 0;
  for (int i = 0; i < to.rank(); ++i) {
    const Dim& e = to[i];
    if (e.is_static() && e.value() > 0) {
      target.push_back(e.value());
    } else if (from.has_rank() && i < from.rank() && from[i].KnownEqual(e)) {
      target.push_back(0);
    } else if (e.is_static()) {
      return std::nullopt;  // no elements: -1 would be ambiguous
    } else {
      target.push_back(-1);
      ++inferred;
    }
  }
  if (inferred > 1) return std::nullopt;
  return target;
}

std::optional<Tensor> Combine(const Tensor& a, const Tensor& b, double (*f)(double, double)) {
  const auto dims = Broadcast(a.dims(), b.dims());
  if (!dims.ok()) return std::nullopt;
  Tensor out(a.dtype(), *dims);
  const auto index = [&](const Tensor& t, int64_t flat) {
    int64_t at = 0, step = 1;
    for (int i = t.rank() - 1, k = out.rank() - 1; k >= 0; --i, --k) {
      const int64_t digit = flat % out.dim(k);
      flat /= out.dim(k);
      if (i < 0) continue;
      if (t.dim(i) != 1) at += digit * step;
      step *= t.dim(i);
    }
    return at;
  };
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    if (IsInteger(a.dtype()))
      out.SetInt(i, static_cast<int64_t>(f(static_cast<double>(a.IntAt(index(a, i))),
                                           static_cast<double>(b.IntAt(index(b, i))))));
    else
      out.Set(i, f(a.At(index(a, i)), b.At(index(b, i))));
  }
  return out;
}

Tensor Transposed(const Tensor& t, const std::vector<int64_t>& perm) {
  Dims dims;
  for (const int64_t axis : perm) dims.push_back(t.dim(static_cast<int>(axis)));
  Tensor out(t.dtype(), dims);
  const Dims strides = Strides(t.dims());
  std::vector<int64_t> at(perm.size(), 0);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    int64_t from = 0;
    for (size_t k = 0; k < perm.size(); ++k) from += at[k] * strides[static_cast<size_t>(perm[k])];
    if (IsInteger(t.dtype()) || t.dtype() == DType::kBool)
      out.SetInt(i, t.IntAt(from));
    else
      out.Set(i, t.At(from));
    for (size_t k = perm.size(); k-- > 0 && ++at[k] == dims[k];) at[k] = 0;
  }
  return out;
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

bool KnownEqual(const std::vector<Dim>& a, const std::vector<Dim>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Dim& p, const Dim& q) { return p.KnownEqual(q); });
}

}  // namespace infer
