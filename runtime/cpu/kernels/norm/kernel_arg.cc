/// ArgMax and ArgMin of f32 along any axis: lists that lie apart side by side in vectors,
/// contiguous ones (the last axis, or channels that lie last) each by itself.
#include <algorithm>
#include <limits>

#include "lib/ops/common.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

/// Columns that one lane takes at least where the lists lie apart.
constexpr int64_t kArgColumns = 64;

/// Lists of which fewer lie side by side are taken from several places at once.
constexpr int64_t kFewColumns = 16;

std::string RefuseArg(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  return ElementTypeOf(call.main().input(0)) == DType::kF32 ? "" : "not f32";
}

std::unique_ptr<Kernel> MakeArg(const StepCall& call) {
  const Node& node = call.main();
  const int64_t axis = node.Attr<int64_t>("axis");
  const int which = simd::ArgIndex(node.Is("ArgMin"), node.Attr<int64_t>("select_last_index") != 0);
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[0].dims;
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
    const int64_t n = dims[static_cast<size_t>(a)];
    if (n == 0) return Unsupported("the axis is empty");
    if (n > std::numeric_limits<int32_t>::max()) return Unsupported("places beyond 32 bits");
    int64_t inner = NumElements(Dims(dims.begin() + a + 1, dims.end()));
    Prepared p;
    p.name = std::string("own:") + simd::TheLoops().isa;
    // The results of channels that lie last are in order, too.
    if (a == 1 && dims.size() >= 3 && dims.size() <= 5 && !in[0].layout.plain() &&
        in[0].layout == onednn::ChannelsLast(DType::kF32, dims)) {
      p.in_layouts = {in[0].layout};
      inner = 1;
    }
    const int64_t lists = NumElements(dims) / n;
    const int64_t grain = std::max<int64_t>(1, 16384 / n);
    if (inner < kFewColumns) {
      const auto arg = simd::TheLoops().arg_lists[which];
      p.launch = LaunchOf([=](std::byte* const* args) {
        const float* const x = As<float>(static_cast<const std::byte*>(args[0]));
        int64_t* const y = As<int64_t>(args[1]);
        ForRange(lists, grain,
                 [=](int64_t begin, int64_t end) { arg(x, y, n, inner, begin, end); });
      });
      return p;
    }
    const auto arg = simd::TheLoops().arg_columns[which];
    const int64_t blocks = (inner + kArgColumns - 1) / kArgColumns;
    p.launch = LaunchOf([=](std::byte* const* args) {
      const float* const x = As<float>(static_cast<const std::byte*>(args[0]));
      int64_t* const y = As<int64_t>(args[1]);
      ForRange(lists / inner * blocks, std::max<int64_t>(1, grain / kArgColumns),
               [=](int64_t begin, int64_t end) {
                 for (int64_t u = begin; u < end; ++u) {
                   const int64_t o = u / blocks, c = u % blocks * kArgColumns;
                   arg(x + o * n * inner + c, y + o * inner + c, n, inner,
                       std::min(kArgColumns, inner - c));
                 }
               });
    });
    return p;
  });
}

}  // namespace

KernelList ArgKernels() {
  return {{"ArgMax", "", "own", RefuseArg, MakeArg}, {"ArgMin", "", "own", RefuseArg, MakeArg}};
}

}  // namespace infer
