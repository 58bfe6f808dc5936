/// LabelEncoder of numbers by numbers.
#include <cstring>

#include "lib/ops/ml/ml_labels.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/move/indexed.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Whole numbers 0 to this many have a table of their own.
constexpr int64_t kMostCodes = 4096;

bool IsKey(DType t) {
  return t == DType::kF32 || t == DType::kF64 || t == DType::kI64 || t == DType::kI32;
}

std::string RefuseLabels(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const DType x = ElementTypeOf(call.main().input(0)), y = ElementTypeOf(call.main().output(0));
  if (!IsKey(x)) return Cat("elements of ", Name(x));
  return MovedBytes(y) ? "" : Cat("labels of ", Name(y));
}

struct Encoder {
  std::shared_ptr<const LabelTable> table;
  std::vector<int64_t> codes;  ///< places of the integers from 0 on; -1: not listed
  int64_t width = 0;

  template <typename T>
  int64_t PlaceOf(T x) const {
    if constexpr (std::is_integral_v<T>) {
      if (x >= 0 && static_cast<size_t>(x) < codes.size()) return codes[static_cast<size_t>(x)];
      return table->PlaceOf(int64_t{x});
    } else {
      return table->PlaceOf(LabelTable::KeyOf(static_cast<double>(x)));
    }
  }
  template <typename T>
  void Run(const std::byte* from, std::byte* to, int64_t count) const {
    const auto* const values = static_cast<const std::byte*>(table->values.raw());
    const auto* const otherwise = static_cast<const std::byte*>(table->otherwise.raw());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = PlaceOf(As<T>(from)[i]);
      MoveRun(place >= 0 ? values + place * width : otherwise, to + i * width, width);
    }
  }
};

std::unique_ptr<Kernel> MakeLabels(const StepCall& call) {
  auto like = std::make_shared<Encoder>();
  like->table = *CallOf(call.main()).Prepared<LabelTable>();
  like->width = MovedBytes(like->table->values.dtype());
  const DType type = ElementTypeOf(call.main().input(0));
  if (IsInteger(type))
    for (const auto& [key, place] : like->table->numbers)
      if (key >= 0 && key < kMostCodes) {
        like->codes.resize(std::max(like->codes.size(), static_cast<size_t>(key) + 1), -1);
        like->codes[static_cast<size_t>(key)] = place;
      }
  const std::shared_ptr<const Encoder> encoder = std::move(like);
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const int64_t count = NumElements(in[0].dims);
    Prepared p;
    p.name = "own:table";
    p.launch = LaunchOf([=](std::byte* const* args) {
      switch (type) {
        case DType::kF32: return encoder->Run<float>(args[0], args[1], count);
        case DType::kF64: return encoder->Run<double>(args[0], args[1], count);
        case DType::kI32: return encoder->Run<int32_t>(args[0], args[1], count);
        default: return encoder->Run<int64_t>(args[0], args[1], count);
      }
    });
    return p;
  });
}

}  // namespace

KernelList LabelKernels() {
  return {{"LabelEncoder", "ai.onnx.ml", "own", RefuseLabels, MakeLabels}};
}

}  // namespace infer
