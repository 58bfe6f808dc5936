/// ConstantOfShape: a fill, by the width of an element, at the speed of memory.
#include <algorithm>
#include <cstring>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

constexpr int64_t kFillGrain = 1 << 16;

/// 1, 2, 4 or 8 bytes; 0: elements that are packed, or no numbers.
int FilledBytes(DType t) {
  const int bits = t == DType::kString || t == DType::kUndefined ? 0 : BitWidth(t);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 ? bits / 8 : 0;
}

template <typename T>
void FillWith(const std::byte* value, int64_t n, std::byte* to) {
  T element;
  std::memcpy(&element, value, sizeof(T));
  ForRange(n, kFillGrain, [&](int64_t begin, int64_t end) {
    std::fill(As<T>(to) + begin, As<T>(to) + end, element);
  });
}

class FillLaunch final : public Launch {
 public:
  /// `extents`: the argument that has them, where they come with the run; else -1.
  FillLaunch(Tensor value, Dims dims, int extents, size_t y)
      : value_(std::move(value)),
        dims_(std::move(dims)),
        count_(NumElements(dims_)),
        extents_(extents),
        y_(y) {}

  Status Run(std::byte* const* args, LaunchState*) const override {
    const auto rank = static_cast<int64_t>(dims_.size());
    for (int64_t i = 0; extents_ >= 0 && i < rank; ++i)
      if (const int64_t now = As<int64_t>(args[extents_])[i]; now != dims_[static_cast<size_t>(i)])
        return InvalidModel(Cat("the model says that the result is ", ToString(dims_),
                                ", its extent ", i, " comes to ", now));
    const std::byte* const value = value_.raw();
    switch (FilledBytes(value_.dtype())) {
      case 1: FillWith<uint8_t>(value, count_, args[y_]); break;
      case 2: FillWith<uint16_t>(value, count_, args[y_]); break;
      case 4: FillWith<uint32_t>(value, count_, args[y_]); break;
      default: FillWith<uint64_t>(value, count_, args[y_]); break;
    }
    return {};
  }

 private:
  Tensor value_;
  Dims dims_;
  int64_t count_;
  int extents_;
  size_t y_;
};

Tensor FillOf(const Node& n) {
  return n.attrs().count("value") ? n.Attr<Tensor>("value") : Tensor::Of<float>({1}, {0.0f});
}

std::string RefuseFill(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const DType t = ElementTypeOf(call.main().output(0));
  return FilledBytes(t) > 0 ? "" : Cat("elements of ", Name(t));
}

class FillKernel final : public Kernel {
 public:
  explicit FillKernel(const StepCall& call)
      : value_(FillOf(call.main())), extents_(call.operand(call.main().input(0))) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const bool known = extents_ < 0 || in[static_cast<size_t>(extents_)].constant;
    if (!known &&
        in[static_cast<size_t>(extents_)].dims != Dims{static_cast<int64_t>(out[0].dims.size())})
      return Unsupported("extents do not fit");
    Prepared p;
    p.name = "own:fill";
    p.unused.assign(in.size(), known);
    p.launch =
        std::make_shared<const FillLaunch>(value_, out[0].dims, known ? -1 : extents_, in.size());
    return p;
  }

  bool checks_extents() const override { return true; }

 private:
  Tensor value_;
  int extents_;
};

std::unique_ptr<Kernel> MakeFill(const StepCall& call) {
  return std::make_unique<FillKernel>(call);
}

}  // namespace

KernelList FillKernels() { return {{"ConstantOfShape", "", "own", RefuseFill, MakeFill}}; }

}  // namespace infer
