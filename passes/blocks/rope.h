#pragma once
/// Questions and builders that the rules of rotary position embeddings share.
#include "passes/rewrite/rule.h"

namespace infer {

/// Numbers of the last axis that are the same: i and i + D/2; 2 i and 2 i + 1.
enum class Twins : uint8_t { kHalves, kPairs };

/// Proof from the graph that the twins of v's last axis are equal.
bool TwinsAreEqual(const Value& v, Twins twins);

/// RotaryEmbedding of the heads of x [B,?,?,D], of their first `part` elements alone where that is
/// above 0. Angles are those of a pair, or of both halves.
Result<Value*> Rotated(Value* x, Value* cos, Value* sin, bool interleaved, PatchBuilder& b,
                       int64_t part = 0);

/// Angles that each stand twice along the last axis, once.
Result<Value*> OneOfEachPair(Value* angles, PatchBuilder& b);

/// Pairs of the last axis of a value of `rank` axes and `size` elements there, each along an axis
/// of its own.
bool HoldsPairs(const Value& v, int rank, int64_t size);

/// The `size` elements of which the Slices `even` and `odd` of one value take every second one:
/// that value, or a Slice of it.
Result<Value*> WithThesePairs(const Value& even, const Value& odd, int64_t size, PatchBuilder& b);

/// Slice of the last axis, of `size` elements, from `start` to `end` with `step`.
bool SlicesLast(const Node& n, int64_t start, int64_t end, int64_t step, int64_t size);

/// Attribute `axis` of n is the last axis of `of`.
bool IsLastAxis(const Node& n, const Value& of);

}  // namespace infer
