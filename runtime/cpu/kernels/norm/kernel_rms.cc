/// RMSNormalization: rows divided by their root mean square, then scaled.
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/rms_row.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

std::string RefuseRms(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  return RefuseUnlessF32(call);
}

std::unique_ptr<Kernel> MakeRms(const StepCall& call) {
  const Node& node = call.main();
  const auto axis = node.Attr<int64_t>("axis");
  const auto epsilon = node.Attr<float>("epsilon");
  const int x = call.operand(node.input(0)), s = call.operand(node.input(1));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[static_cast<size_t>(x)].dims;
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
    const int64_t n = NumElements(Dims(dims.begin() + a, dims.end()));
    if (NumElements(in[static_cast<size_t>(s)].dims) != n) return Unsupported("scale is broadcast");
    const int64_t rows = NumElements(dims) / n;
    const simd::Loops& loops = simd::TheLoops();
    const size_t y = in.size();
    Prepared p;
    p.name = Cat("own:", loops.isa);
    p.in_place = rows > 1;  // else scale is as large
    p.launch = LaunchOf([=, &loops](std::byte* const* args) {
      const auto of = [args](int i) { return As<float>(static_cast<const std::byte*>(args[i])); };
      ForRange(rows, std::max<int64_t>(1, kElementGrain / 4 / n),
               [=, &loops](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r)
                   RmsRow(loops, of(x) + r * n, of(s), As<float>(args[y]) + r * n, n, epsilon);
               });
    });
    return p;
  });
}

}  // namespace

KernelList RmsKernels() { return {{"RMSNormalization", "", "own", RefuseRms, MakeRms}}; }

}  // namespace infer
