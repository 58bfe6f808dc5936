/// ArgMax, ArgMin and Hardmax of f32 along any axis: lists that lie apart side by side in vectors,
/// contiguous ones (the last axis, or channels that lie last) each by itself.
#include <algorithm>
#include <cmath>
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

/// Where a NaN is largest only if it is the first, as the operator has it.
int64_t FirstLargest(const float* x, int64_t n, int64_t step) {
  int64_t place = 0;
  for (int64_t i = 1; i < n; ++i)
    if (x[i * step] > x[place * step]) place = i;
  return place;
}

/// Zeros, and a one at the first largest element of each list.
std::unique_ptr<Kernel> MakeHardmax(const StepCall& call) {
  const int64_t axis = call.main().Attr<int64_t>("axis");
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[0].dims;
    if (dims.empty()) return Unsupported("a scalar");
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
    const int64_t n = dims[static_cast<size_t>(a)];
    if (n == 0) return Unsupported("the axis is empty");
    if (n > std::numeric_limits<int32_t>::max()) return Unsupported("places beyond 32 bits");
    const int64_t inner = NumElements(Dims(dims.begin() + a + 1, dims.end()));
    const auto arg = simd::TheLoops().arg_lists[simd::ArgIndex(false, false)];
    Prepared p;
    p.name = std::string("own:") + simd::TheLoops().isa;
    p.launch = LaunchOf([=, outer = NumElements(dims) / (n * inner)](std::byte* const* args) {
      const float* const x = As<float>(static_cast<const std::byte*>(args[0]));
      float* const y = As<float>(args[1]);
      ForRange(outer, std::max<int64_t>(1, 16384 / (n * inner)), [=](int64_t begin, int64_t end) {
        std::fill(y + begin * n * inner, y + end * n * inner, 0.0f);
        int64_t places[kArgColumns];
        // Lists that follow each other, or lie side by side.
        const int64_t all = inner == 1 ? end - begin : inner, from = inner == 1 ? n : 1;
        for (int64_t o = begin; o < end; o += inner == 1 ? all : 1)
          for (int64_t c = 0; c < all; c += kArgColumns) {
            const int64_t count = std::min(kArgColumns, all - c), at = o * n * inner + c * from;
            arg(x + at, places, n, inner, 0, count);
            for (int64_t k = 0; k < count; ++k) {
              const float* const list = x + at + k * from;
              int64_t place = places[k];
              if (std::isnan(list[place * inner])) place = FirstLargest(list, n, inner);
              y[at + k * from + place * inner] = 1;
            }
          }
      });
    });
    return p;
  });
}

}  // namespace

KernelList ArgKernels() {
  return {{"ArgMax", "", "own", RefuseArg, MakeArg},
          {"ArgMin", "", "own", RefuseArg, MakeArg},
          {"Hardmax", "", "own", RefuseArg, MakeHardmax}};
}

}  // namespace infer
