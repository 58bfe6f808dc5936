#include "runtime/cpu/kernels/common/element_type.h"

namespace infer {

std::optional<simd::Element> ElementOf(DType t) {
  switch (t) {
    case DType::kI8: return simd::Element::kI8;
    case DType::kU8: return simd::Element::kU8;
    case DType::kI16: return simd::Element::kI16;
    case DType::kU16: return simd::Element::kU16;
    case DType::kI32: return simd::Element::kI32;
    case DType::kU32: return simd::Element::kU32;
    case DType::kI64: return simd::Element::kI64;
    case DType::kU64: return simd::Element::kU64;
    case DType::kF32: return simd::Element::kF32;
    case DType::kF64: return simd::Element::kF64;
    case DType::kF16: return simd::Element::kF16;
    case DType::kBF16: return simd::Element::kBF16;
    case DType::kBool: return simd::Element::kBool;
    default: return std::nullopt;
  }
}

}  // namespace infer
