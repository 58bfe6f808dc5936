#include "lib/tensor/dtype.h"

#include <array>
#include <limits>

#include "lib/support/status.h"

namespace infer {
namespace {

enum class Kind : uint8_t { kOther, kFloat, kSigned, kUnsigned };
struct Facts {
  std::string_view name;
  int bits;
  Kind kind;
};

constexpr std::array<Facts, kNumDTypes> kFacts = {{
    {"undefined", 0, Kind::kOther},  {"f32", 32, Kind::kFloat},    {"u8", 8, Kind::kUnsigned},
    {"i8", 8, Kind::kSigned},        {"u16", 16, Kind::kUnsigned}, {"i16", 16, Kind::kSigned},
    {"i32", 32, Kind::kSigned},      {"i64", 64, Kind::kSigned},   {"str", 0, Kind::kOther},
    {"bool", 8, Kind::kOther},       {"f16", 16, Kind::kFloat},    {"f64", 64, Kind::kFloat},
    {"u32", 32, Kind::kUnsigned},    {"u64", 64, Kind::kUnsigned}, {"c64", 64, Kind::kOther},
    {"c128", 128, Kind::kOther},     {"bf16", 16, Kind::kFloat},   {"f8e4m3fn", 8, Kind::kFloat},
    {"f8e4m3fnuz", 8, Kind::kFloat}, {"f8e5m2", 8, Kind::kFloat},  {"f8e5m2fnuz", 8, Kind::kFloat},
    {"u4", 4, Kind::kUnsigned},      {"i4", 4, Kind::kSigned},     {"f4e2m1", 4, Kind::kFloat},
    {"f8e8m0", 8, Kind::kFloat},     {"u2", 2, Kind::kUnsigned},   {"i2", 2, Kind::kSigned},
}};

const Facts& FactsOf(DType t) {
  const auto i = static_cast<size_t>(t);
  INFER_CHECK(i < kFacts.size());
  return kFacts[i];
}

}  // namespace

int BitWidth(DType t) { return FactsOf(t).bits; }

int64_t PackedBytes(DType t, int64_t count) {
  const int bits = BitWidth(t);
  INFER_CHECK(bits > 0);
  return bits >= 8 ? count * (bits / 8) : (count + 8 / bits - 1) / (8 / bits);
}

std::string_view Name(DType t) { return FactsOf(t).name; }

std::optional<DType> ParseDType(std::string_view name) {
  for (size_t i = 1; i < kFacts.size(); ++i)
    if (kFacts[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

bool IsFloat(DType t) { return FactsOf(t).kind == Kind::kFloat; }
bool IsSignedInteger(DType t) { return FactsOf(t).kind == Kind::kSigned; }
bool IsUnsignedInteger(DType t) { return FactsOf(t).kind == Kind::kUnsigned; }

int64_t IntegerMin(DType t) {
  return IsSignedInteger(t) ? -(int64_t{1} << (BitWidth(t) - 2)) * 2 : 0;
}

int64_t IntegerMax(DType t) {
  const int value_bits = BitWidth(t) - (IsSignedInteger(t) ? 1 : 0);
  return value_bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << value_bits) - 1;
}

}  // namespace infer
