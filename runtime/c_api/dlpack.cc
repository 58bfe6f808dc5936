/// infer_result_dlpack: an output as the structures of DLPack, which are laid out here as its
/// specification has them (dmlc.github.io/dlpack, version 0.8 and older).
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/c_api/handles.h"

namespace {

struct DlDevice {
  int32_t type;
  int32_t id;
};
struct DlDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t rank;
  DlDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

}  // namespace

struct DLManagedTensor {
  DlTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};

namespace infer::c_api {
namespace {

constexpr int32_t kHost = 1;
constexpr uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6;

std::optional<uint8_t> DlCodeOf(DType t) {
  if (t == DType::kBool) return kBool;
  if (t == DType::kBF16) return kBfloat;
  if (t == DType::kC64 || t == DType::kC128) return kComplex;
  if (t == DType::kF16 || t == DType::kF32 || t == DType::kF64) return kFloat;
  if (BitWidth(t) < 8) return std::nullopt;
  if (IsSignedInteger(t)) return kInt;
  if (IsUnsignedInteger(t)) return kUInt;
  return std::nullopt;
}

/// Keeps the numbers as long as its receiver wants them.
struct Exported {
  explicit Exported(const Tensor& t, uint8_t code)
      : numbers(t), shape(t.dims()), strides(t.dims().size()) {
    int64_t step = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      strides[d] = step;
      step *= shape[d];
    }
    managed.tensor = {const_cast<void*>(static_cast<const void*>(numbers.raw())),
                      {kHost, 0},
                      static_cast<int32_t>(shape.size()),
                      {code, static_cast<uint8_t>(BitWidth(t.dtype())), 1},
                      shape.data(),
                      strides.data(),
                      0};
    managed.context = this;
    managed.deleter = [](DLManagedTensor* m) { delete static_cast<Exported*>(m->context); };
  }
  DLManagedTensor managed = {};
  Tensor numbers;
  Dims shape, strides;
};

}  // namespace
}  // namespace infer::c_api

using namespace infer;         // NOLINT: the functions of the header stand outside of namespaces
using namespace infer::c_api;  // NOLINT

infer_code infer_result_dlpack(const infer_result* result, size_t i, DLManagedTensor** tensor) {
  return Guarded([&]() -> Status {
    if (!result || !tensor) return InvalidArgument("result or tensor is NULL");
    INFER_ASSIGN(const Tensor* output, OutputOf(*result, i));
    const Tensor& t = *output;
    const auto code = DlCodeOf(t.dtype());
    if (!code) return Unsupported(Cat("output ", i, ": DLPack has no ", Name(t.dtype())));
    *tensor = &(new Exported(t, *code))->managed;
    return {};
  });
}
