#pragma once
/// Inputs that say how long sequences are, or which keys are there: random numbers would contradict
/// what they mean.
#include <optional>

#include "lib/ir/graph.h"
#include "tools/common/open_extents.h"

namespace infer {

/// The number that all elements of `v` must have, so that an attention that counts its keys by them
/// (com.microsoft::GroupQueryAttention: seqlens_k, total_sequence_length) sees all of past and new:
/// 1 of a mask whose sum is the length, else the length itself. nullopt where `v` is no such thing.
std::optional<int64_t> LengthFill(const Value& v, const OpenExtents& extents);

/// The most that each element of `v` may be where it is a length: it is compared with positions (a
/// Range, or constants 0, 1, 2, ...), as masks of padding are made, or tells a recurrent operator
/// how long a sequence is. The least is 1: of nothing, such a model makes NaN. nullopt: no length.
std::optional<int64_t> MostLength(const Value& v, const OpenExtents& extents);

/// How many positions there are that elements of `v` are compared with for equality, as one-hot
/// codes are made: each is one of 0, 1, ... below it. nullopt: none.
std::optional<int64_t> PositionsOf(const Value& v, const OpenExtents& extents);

/// Whether `v` is a mask of ones and zeros by what is made of it: (1 - v) times a large negative
/// number, which hides keys. Other numbers would hide some keys more than others, which no such
/// model means.
bool IsKeepMask(const Value& v);

}  // namespace infer
