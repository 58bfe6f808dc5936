/// CumSum and CumProd of any numbers, along any axis: lines that lie side by side in vectors, lines
/// along the last axis eight at a time, so that they do not wait for each other's sums. The results
/// have the reference kernel's bits (simd/folds.h).
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/element_type.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/folds.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

simd::Folds::RunningFn RunningOf(const Node& n) {
  const auto element = ElementOf(ElementTypeOf(n.input(0)));
  return element ? simd::TheFolds().running[n.Is("CumProd") ? 1 : 0][static_cast<int>(*element)]
                 : nullptr;
}

std::string RefuseRunning(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const DType axis = ElementTypeOf(n.input(1));
  if (axis != DType::kI64 && axis != DType::kI32) return "the axis is neither i64 nor i32";
  return RunningOf(n) ? "" : Cat("elements of ", Name(ElementTypeOf(n.input(0))));
}

class RunningLaunch final : public Launch {
 public:
  Dims dims;
  int x = 0, axis = 0, y = 0;
  bool wide = true, exclusive = false, reverse = false;
  int64_t width = 4;
  simd::Folds::RunningFn run = nullptr;

  /// The axis may come with the run: only then is it known.
  Status Run(std::byte* const* args, LaunchState*) const override {
    const int64_t given = wide ? As<int64_t>(args[axis])[0] : As<int32_t>(args[axis])[0];
    INFER_ASSIGN(const int a, NormalizeAxis(given, static_cast<int>(dims.size())));
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < static_cast<int>(dims.size()); ++i)
      (i < a ? outer : inner) *= i == a ? 1 : dims[static_cast<size_t>(i)];
    const int64_t n = dims[static_cast<size_t>(a)];
    const int64_t start = reverse ? (n - 1) * inner : 0, step = reverse ? -inner : inner;
    if (inner == 1) {
      ForRange((outer + kLines - 1) / kLines, Grain(n * kLines), [&](int64_t begin, int64_t end) {
        const int64_t first = begin * kLines, last = std::min(outer, end * kLines);
        Lines(args, first * n + start, {n, step, last - first, n, exclusive});
      });
      return {};
    }
    const int64_t blocks = (inner + kColumns - 1) / kColumns;
    ForRange(outer * blocks, Grain(n * kColumns), [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u) {
        const int64_t c = u % blocks * kColumns;
        Lines(args, u / blocks * n * inner + c + start,
              {n, step, std::min(kColumns, inner - c), 1, exclusive});
      }
    });
    return {};
  }

 private:
  static constexpr int64_t kLines = 8, kColumns = 256;
  static int64_t Grain(int64_t part) { return std::max<int64_t>(1, kElementGrain / part); }
  void Lines(std::byte* const* args, int64_t at, const simd::RunningLines& lines) const {
    run(args[x] + at * width, args[y] + at * width, lines);
  }
};

std::unique_ptr<Kernel> MakeRunning(const StepCall& call) {
  const Node& n = call.main();
  RunningLaunch like;
  like.x = call.operand(n.input(0));
  like.axis = call.operand(n.input(1));
  like.wide = ElementTypeOf(n.input(1)) == DType::kI64;
  like.exclusive = n.Attr<int64_t>("exclusive") != 0;
  like.reverse = n.Attr<int64_t>("reverse") != 0;
  like.width = BitWidth(ElementTypeOf(n.input(0))) / 8;
  like.run = RunningOf(n);
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    if (NumElements(in[static_cast<size_t>(like.axis)].dims) != 1)
      return Unsupported("the axis is no scalar");
    auto launch = std::make_shared<RunningLaunch>(like);
    launch->dims = in[static_cast<size_t>(like.x)].dims;
    launch->y = static_cast<int>(in.size());
    Prepared p;
    p.name = Cat("own:running:", simd::TheLoops().isa);
    p.launch = std::move(launch);
    return p;
  });
}

}  // namespace

KernelList RunningKernels() {
  return {{"CumSum", "", "own", RefuseRunning, MakeRunning},
          {"CumProd", "", "own", RefuseRunning, MakeRunning}};
}

}  // namespace infer
