#pragma once
/// Inner loops over elements of any type: integer arithmetic, comparisons, logic, conversions, a
/// choice. Compiled once per instruction set (elements.inc) like loops.h, and chosen with it. The
/// results are those of the reference kernels, bit for bit.
#include <cstdint>

namespace infer::simd {

/// Element types as these loops see them. Bool is u8; of moves only the width counts.
enum class Element : uint8_t {
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF32,
  kF64,
  kF16,   ///< conversions only
  kBF16,  ///< conversions only
  kBool,  ///< conversions only
  kCount
};
constexpr int kElements = static_cast<int>(Element::kCount);

enum class ElementBinary : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMod,   ///< sign of b
  kFMod,  ///< sign of a
  kMax,
  kMin,
  kAnd,  ///< of bits
  kOr,
  kXor,
  kShiftLeft,
  kShiftRight,
  kEqual,  ///< from here on the result is bool
  kLess,
  kLessOrEqual,
  kCount
};
enum class ElementUnary : uint8_t {
  kNeg,
  kAbs,
  kSign,
  kRelu,
  kInvert,
  kNot,  ///< from here on the result is bool
  kIsNaN,
  kIsInf,
  kIsPositiveInf,
  kIsNegativeInf,
  kCount
};

/// Which operands walk; the others are one element.
enum : int { kFirstSteps = 1, kSecondSteps = 2 };

struct Elements {
  using BinaryFn = void (*)(const void* a, const void* b, void* y, int64_t n, int steps);
  using UnaryFn = void (*)(const void* x, void* y, int64_t n);
  /// c ? a : b of 1, 2, 4 or 8 bytes; c walks.
  using WhereFn = void (*)(const uint8_t* c, const void* a, const void* b, void* y, int64_t n,
                           int steps);
  /// nullptr where the operator does not know the type.
  BinaryFn binary[static_cast<int>(ElementBinary::kCount)][kElements];
  UnaryFn unary[static_cast<int>(ElementUnary::kCount)][kElements];
  UnaryFn cast[kElements][kElements];  ///< [from][to]
  WhereFn where[4];                    ///< by log2 of the width
};

/// Chosen like TheLoops().
const Elements& TheElements();

}  // namespace infer::simd
