#pragma once
/// Questions that guards and builders of rules ask of values and constants.
#include <optional>

#include "lib/ir/graph.h"

namespace infer {

/// Both are tensors of one type with the same extents, for certain.
bool SameKnownType(const Value& a, const Value& b);
/// Rank of a tensor, -1 where it is not known.
int RankOf(const Value& v);
/// Extent `axis` (negative: from the end) where it is known before the run.
std::optional<int64_t> StaticDim(const Value& v, int axis);
/// perm of a Transpose node, default resolved; empty where the rank is not known.
std::vector<int64_t> PermOf(const Node& transpose);
bool IsIdentityPerm(const std::vector<int64_t>& perm);
/// result[i] = first[then[i]]: what transposing by `first`, then by `then` does.
std::vector<int64_t> ComposePerms(const std::vector<int64_t>& first,
                                  const std::vector<int64_t>& then);

/// Constant `t` as one number per index of `axis`, where broadcasting it to a tensor of `rank` with
/// `extent` indices along `axis` varies along that axis alone; nullopt else.
std::optional<std::vector<double>> PerIndex(const Tensor& t, int rank, int axis, int64_t extent);
std::vector<double> ToDoubles(const Tensor& t);
/// A tensor of `dtype` from numbers; rounds once.
Tensor FromDoubles(DType dtype, Dims dims, const std::vector<double>& values);
/// t[.., i, ..] * k[i] along `axis`; computed in double, rounded once.
Tensor ScaledAlong(const Tensor& t, int axis, const std::vector<double>& k);

}  // namespace infer
