#pragma once
/// Element types. The numbers are ONNX's TensorProto.DataType, so import and export are casts.
#include <cstdint>
#include <optional>
#include <string_view>

namespace infer {

enum class DType : uint8_t {
  kUndefined = 0,
  kF32 = 1,
  kU8 = 2,
  kI8 = 3,
  kU16 = 4,
  kI16 = 5,
  kI32 = 6,
  kI64 = 7,
  kString = 8,
  kBool = 9,
  kF16 = 10,
  kF64 = 11,
  kU32 = 12,
  kU64 = 13,
  kC64 = 14,
  kC128 = 15,
  kBF16 = 16,
  kF8E4M3FN = 17,
  kF8E4M3FNUZ = 18,
  kF8E5M2 = 19,
  kF8E5M2FNUZ = 20,
  kU4 = 21,
  kI4 = 22,
  kF4E2M1 = 23,
  kF8E8M0 = 24,
  kU2 = 25,
  kI2 = 26,
};
inline constexpr int kNumDTypes = 27;

/// Bits of one element: 2 or 4 for packed types, 8...128 else; 0 for strings and kUndefined.
int BitWidth(DType t);
/// Bytes that `count` elements take when packed (little-endian nibbles, first element lowest).
/// Pre: not kString.
int64_t PackedBytes(DType t, int64_t count);
/// "f32", "bf16", "u4", "str", ...: what the text form and reports say.
std::string_view Name(DType t);
std::optional<DType> ParseDType(std::string_view name);

bool IsFloat(DType t);            ///< any IEEE-like type incl. fp8 and fp4, not complex
bool IsSignedInteger(DType t);    ///< i2 ... i64
bool IsUnsignedInteger(DType t);  ///< u2 ... u64, not bool
inline bool IsInteger(DType t) { return IsSignedInteger(t) || IsUnsignedInteger(t); }
inline bool IsPacked(DType t) { return BitWidth(t) == 2 || BitWidth(t) == 4; }
/// Inclusive range of an integer type, as int64 (u64's maximum is clamped to INT64_MAX).
int64_t IntegerMin(DType t);
int64_t IntegerMax(DType t);

/// A set of element types as one word: bit i stands for DType(i).
class TypeSet {
 public:
  constexpr TypeSet() = default;
  template <typename... T>
  constexpr explicit TypeSet(T... types)
      : bits_(((uint64_t{1} << static_cast<int>(types)) | ...)) {}
  constexpr bool Has(DType t) const { return (bits_ >> static_cast<int>(t)) & 1; }
  constexpr TypeSet operator|(TypeSet o) const { return FromBits(bits_ | o.bits_); }
  constexpr TypeSet operator-(TypeSet o) const { return FromBits(bits_ & ~o.bits_); }
  constexpr bool operator==(const TypeSet&) const = default;
  constexpr bool empty() const { return bits_ == 0; }
  constexpr uint64_t bits() const { return bits_; }
  static constexpr TypeSet FromBits(uint64_t bits) {
    TypeSet s;
    s.bits_ = bits;
    return s;
  }

 private:
  uint64_t bits_ = 0;
};

inline constexpr TypeSet kFloats{DType::kF16, DType::kF32, DType::kF64};
inline constexpr TypeSet kFloatsBF16 = kFloats | TypeSet(DType::kBF16);
inline constexpr TypeSet kSignedInts{DType::kI8, DType::kI16, DType::kI32, DType::kI64};
inline constexpr TypeSet kUnsignedInts{DType::kU8, DType::kU16, DType::kU32, DType::kU64};
inline constexpr TypeSet kInts = kSignedInts | kUnsignedInts;
inline constexpr TypeSet kNumeric = kFloatsBF16 | kInts;
inline constexpr TypeSet kComplex{DType::kC64, DType::kC128};
inline constexpr TypeSet kFloat8{DType::kF8E4M3FN, DType::kF8E4M3FNUZ, DType::kF8E5M2,
                                 DType::kF8E5M2FNUZ};
inline constexpr TypeSet kInt4{DType::kU4, DType::kI4};
/// All types of ONNX opset 7...12; later opsets add bf16, then fp8, 4-bit, ...
inline constexpr TypeSet kClassicTypes =
    kFloats | kInts | kComplex | TypeSet(DType::kBool, DType::kString);
inline constexpr TypeSet kAllTypes =
    kClassicTypes | kFloatsBF16 | kFloat8 | kInt4 |
    TypeSet(DType::kF4E2M1, DType::kF8E8M0, DType::kU2, DType::kI2);

}  // namespace infer
