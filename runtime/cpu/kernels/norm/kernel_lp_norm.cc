/// LpNormalization in f32: norms in double, as in the reference kernel, then one division each.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/ops/common.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

/// Lines that are normalized side by side where they do not lie one after the other.
constexpr int64_t kLinesBeside = 64;

std::string RefuseLpNorm(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const int64_t p = call.main().Attr<int64_t>("p");
  return p == 1 || p == 2 ? RefuseUnlessF32(call) : "p is neither 1 nor 2";
}

struct LpLines {
  int64_t n = 1, inner = 1;
  bool squares = true;

  double Norm(double sum) const { return squares ? std::sqrt(sum) : sum; }
  /// A line of no length is all zeros; one whose length f32 does not hold is divided in double.
  void Divide(const float* x, float* y, double norm) const {
    if (norm == 0) return static_cast<void>(std::fill_n(y, n, 0.0f));
    if (!FitsF32(norm)) {
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<float>(static_cast<double>(x[i]) / norm);
      return;
    }
    const auto f = static_cast<float>(norm);
    simd::TheLoops().binary_scalar[static_cast<int>(simd::Binary::kDiv)](x, &f, y, n);
  }
  static bool FitsF32(double norm) {
    return norm >= static_cast<double>(std::numeric_limits<float>::min()) &&
           norm <= static_cast<double>(std::numeric_limits<float>::max());
  }
  void Row(const float* x, float* y) const {
    double sum = 0;
    if (squares)
      sum = simd::TheLoops().sum_squares(x, n);
    else
      for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(std::abs(x[i]));
    Divide(x, y, Norm(sum));
  }
  void Columns(const float* x, float* y, int64_t count) const {
    double sums[kLinesBeside] = {};
    float norms[kLinesBeside];
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < count; ++c) {
        const auto v = static_cast<double>(x[i * inner + c]);
        sums[c] += squares ? v * v : std::abs(v);
      }
    for (int64_t c = 0; c < count; ++c) norms[c] = static_cast<float>(Norm(sums[c]));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < count; ++c)
        y[i * inner + c] = norms[c] == 0 ? 0.0f : x[i * inner + c] / norms[c];
    for (int64_t c = 0; c < count; ++c) {
      const double norm = Norm(sums[c]);
      for (int64_t i = c; !FitsF32(norm) && norm != 0 && i < n * inner; i += inner)
        y[i] = static_cast<float>(static_cast<double>(x[i]) / norm);
    }
  }
};

std::unique_ptr<Kernel> MakeLpNorm(const StepCall& call) {
  const int64_t axis = call.main().Attr<int64_t>("axis");
  const bool squares = call.main().Attr<int64_t>("p") == 2;
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[0].dims;
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
    const LpLines lines{dims[static_cast<size_t>(a)],
                        NumElements(Dims(dims.begin() + a + 1, dims.end())), squares};
    const int64_t n = lines.n, inner = lines.inner, outer = NumElements(dims) / n / inner;
    const int64_t blocks = (inner + kLinesBeside - 1) / kLinesBeside;
    Prepared p;
    p.name = std::string("own:") + simd::TheLoops().isa;
    p.launch = LaunchOf([=](std::byte* const* args) {
      const auto* const x = As<float>(static_cast<const std::byte*>(args[0]));
      float* const y = As<float>(args[1]);
      ForRange(outer * blocks,
               std::max<int64_t>(1, kElementGrain / (n * std::min(inner, kLinesBeside))),
               [&](int64_t begin, int64_t end) {
                 for (int64_t u = begin; u < end; ++u) {
                   const int64_t c = u % blocks * kLinesBeside, at = u / blocks * n * inner + c;
                   if (inner == 1)
                     lines.Row(x + at, y + at);
                   else
                     lines.Columns(x + at, y + at, std::min(kLinesBeside, inner - c));
                 }
               });
    });
    return p;
  });
}

}  // namespace

KernelList LpNormKernels() { return {{"LpNormalization", "", "own", RefuseLpNorm, MakeLpNorm}}; }

}  // namespace infer
