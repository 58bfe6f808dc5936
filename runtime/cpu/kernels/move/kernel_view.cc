/// Operators that only give the same bytes other extents: no launch at all.
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/launch/view.h"

namespace infer {
namespace {

std::string RefuseView(const StepCall& call) {
  const Value* x = call.main().input(0);
  const Value* y = call.main().output(0);
  if (!x->type().is_tensor() || x->dtype() == DType::kString) return "not a plain tensor";
  if (call.step.outputs != std::vector<int>{call.plan.id(y)}) return "a second result is wanted";
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (!y->type().is_tensor() || call.operand(x) != 0) return "the operand is not the first";
  return "";
}

/// Dropout's training_mode must be known to be off.
std::string RefuseDropout(const StepCall& call) {
  if (const Value* mode = call.main().input(2))
    if (!call.constant(mode) || call.constant(mode)->IntAt(0) != 0) return "training";
  return RefuseView(call);
}

/// Only axes of extent 1 change their place.
std::unique_ptr<Kernel> MakeTransposeView(const StepCall& call) {
  std::vector<int64_t> perm;
  if (call.main().attrs().count("perm")) perm = call.main().Attr<std::vector<int64_t>>("perm");
  return KernelOf(
      [perm](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
        const Dims& dims = in[0].dims;
        int64_t last = -1;
        for (size_t i = 0; i < dims.size(); ++i) {
          const int64_t axis = perm.empty() ? static_cast<int64_t>(dims.size() - 1 - i) : perm[i];
          if (dims[static_cast<size_t>(axis)] == 1) continue;
          if (axis < last) return Unsupported("elements change their order");
          last = axis;
        }
        Prepared p;
        p.name = "view";
        return p;
      });
}

}  // namespace

std::unique_ptr<Kernel> MakeView(const StepCall&) {
  return KernelOf(
      [](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (in[0].plain_bytes() != out[0].plain_bytes()) return Unsupported("sizes differ");
        Prepared p;
        p.name = "view";
        return p;
      });
}

KernelList ViewKernels() {
  return {{"", "", "view", RefuseView, MakeView, Trait::kView},
          {"Transpose", "", "view", RefuseView, MakeTransposeView},
          {"Dropout", "", "view", RefuseDropout, MakeView}};
}

}  // namespace infer
