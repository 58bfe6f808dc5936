#pragma once
/// Questions that guards and builders of rules ask of values and constants.
#include <optional>

#include "lib/ir/roles.h"

namespace infer {

/// Both are tensors of one type with the same extents, for certain.
bool SameKnownType(const Value& a, const Value& b);
/// Rank of a tensor, -1 where it is not known.
int RankOf(const Value& v);
/// Extent `axis` (negative: from the end) where it is known before the run.
std::optional<int64_t> StaticDim(const Value& v, int axis);
std::vector<int64_t> InversePerm(const std::vector<int64_t>& perm);
bool IsIdentityPerm(const std::vector<int64_t>& perm);
/// result[i] = first[then[i]]: what transposing by `first`, then by `then` does.
std::vector<int64_t> ComposePerms(const std::vector<int64_t>& first,
                                  const std::vector<int64_t>& then);

/// Axes as they are, or counted from the front where they are negative. nullopt where one is out of
/// range.
std::optional<std::vector<int64_t>> NormalAxes(std::vector<int64_t> axes, int rank);
/// Elements of an operand that is a constant integer tensor; nullopt where it is missing or none.
std::optional<std::vector<int64_t>> ConstantInts(const Node& n, size_t operand);
/// A constant target for Reshape (allowzero=0) from one shape to another: numbers, 0 for an extent
/// that both have in the same place, one -1. nullopt where that does not say it.
std::optional<std::vector<int64_t>> ReshapeTarget(const Shape& from, const Shape& to);
/// The extents of a result that `Broadcast` of two constants has; values computed in double,
/// rounded once to the type of `a`. nullopt where they do not broadcast.
std::optional<Tensor> Combine(const Tensor& a, const Tensor& b, double (*f)(double, double));
/// t with its axes in the order `perm`.
Tensor Transposed(const Tensor& t, const std::vector<int64_t>& perm);

/// Constant `t` as one number per index of `axis`, where broadcasting it to a tensor of `rank` with
/// `extent` indices along `axis` varies along that axis alone; nullopt else.
std::optional<std::vector<double>> PerIndex(const Tensor& t, int rank, int axis, int64_t extent);
std::vector<double> ToDoubles(const Tensor& t);
/// A tensor of `dtype` from numbers; rounds once.
Tensor FromDoubles(DType dtype, Dims dims, const std::vector<double>& values);
/// t[.., i, ..] * k[i] along `axis`; computed in double, rounded once.
Tensor ScaledAlong(const Tensor& t, int axis, const std::vector<double>& k);

/// Extents that are the same whatever they are.
bool KnownEqual(const std::vector<Dim>& a, const std::vector<Dim>& b);

}  // namespace infer
