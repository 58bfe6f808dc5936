#pragma once
/// Ranks that an operand's extent gives, as a model declares it: nothing of that size is made
/// before the extent was compared.
#include "lib/ops/move/move.h"

namespace infer {

/// No tensor has more axes: kMaxRank of lib/ir/inference.h, for operators.
inline constexpr int kRankLimit = 32;

/// A rank with nothing known about the extents; unknown where `rank` is no number. InvalidModel
/// where no tensor can have it.
inline Result<Shape> UnknownOfDeclaredRank(const Dim& rank) {
  if (!rank.is_static()) return Shape();
  if (rank.value() < 0 || rank.value() > kRankLimit)
    return InvalidModel(
        Cat("the result would have rank ", rank.value(), ", over the limit of ", kRankLimit));
  return UnknownOfRank(static_cast<int>(rank.value()));
}

}  // namespace infer
