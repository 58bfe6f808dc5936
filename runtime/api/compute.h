#pragma once
/// The number format in which a program multiplies. It says nothing of files: tensors keep their
/// types, and what a file holds in bf16 or f16 is multiplied in f32 unless this says otherwise.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace infer {

enum class Compute : uint8_t {
  kF32,
  /// Operands of large products (Conv, ConvTranspose, MatMul, Gemm with constant weights) are
  /// rounded to bf16, to nearest, halves to even; sums are f32. What lies between two such products
  /// may be kept in bf16.
  kBF16,
  /// Operands of large products are rounded to f16, to nearest; sums are f32. Numbers beyond 65,504
  /// become infinite. On devices (runtime/vulkan) alone: no CPU gains by it.
  kF16,
};

inline constexpr std::string_view kComputeNames[] = {"f32", "bf16", "f16"};
constexpr std::string_view Name(Compute c) { return kComputeNames[static_cast<size_t>(c)]; }
/// By its name.
inline std::optional<Compute> ComputeOf(std::string_view name) {
  for (const Compute c : {Compute::kF32, Compute::kBF16, Compute::kF16})
    if (Name(c) == name) return c;
  return std::nullopt;
}

}  // namespace infer
