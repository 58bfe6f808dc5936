/// Cast between types, with the bits of the reference.
#include <optional>

#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/kernels.h"

namespace infer::vulkan {
namespace {

/// As shaders/cast.comp numbers them; nullopt for what it does not have.
std::optional<int> KindOf(DType t) {
  constexpr DType kKinds[] = {DType::kF32, DType::kF16,  DType::kI32, DType::kU8,
                              DType::kI8,  DType::kBool, DType::kI64};
  for (size_t i = 0; i < std::size(kKinds); ++i)
    if (kKinds[i] == t) return static_cast<int>(i);
  return std::nullopt;
}

std::string RefuseConversion(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  const Node& n = call.main();
  for (const Value* v : {n.input(0), n.output(0)})
    if (!v->type().is_tensor() || !KindOf(v->dtype()))
      return v->type().is_tensor() ? Cat("elements of ", Name(v->dtype())) : "not a plain tensor";
  return n.input(0)->dtype() == n.output(0)->dtype() ? "a view" : "";
}

std::unique_ptr<Kernel> MakeConversion(const StepCall& call, const Facts& facts) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0));
  const int from = *KindOf(n.input(0)->dtype()), to = *KindOf(n.output(0)->dtype());
  const int64_t in_a_word = std::max(1, 32 / BitWidth(n.output(0)->dtype()));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand> out) {
    LaunchBuilder b(facts, in, out);
    const int64_t count = NumElements(out[0].dims);
    b.DispatchElements("cast", {from, to}, {b.Read(x), b.Write()}, Push().U(count),
                       (count + in_a_word - 1) / in_a_word);
    return b.Finish("cast");
  });
}

}  // namespace

KernelList CastKernels(const Facts& facts) {
  return {Def(facts, "Cast", "", "cast", RefuseConversion, MakeConversion)};
}

}  // namespace infer::vulkan
