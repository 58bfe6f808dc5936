/// Pow of f32 bases by any exponents. A row with one exponent takes the cheapest form: products for
/// small whole exponents (the tanh form of Gelu has x^3), a root for halves; else the library's
/// pow.
#include <algorithm>
#include <cmath>

#include "lib/ops/common.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

/// Products beyond these exponents lose more bits than pow does.
constexpr float kMostProducts = 8;

/// x^e for whole 0 <= e <= kMostProducts, in loops that vectorise.
void Products(const float* x, float* y, int64_t n, int e) {
  switch (e) {
    case 0: std::fill_n(y, n, 1.0f); return;
    case 1: std::copy_n(x, n, y); return;
    case 2: simd::TheLoops().unary[static_cast<int>(simd::Unary::kSquare)](x, y, n, 0, 0); return;
    case 3:
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] * x[i] * x[i];
      return;
    default:
      for (int64_t i = 0; i < n; ++i) {
        const float v = x[i], square = v * v;
        float product = e & 1 ? v * square : square;
        for (int k = e & 1 ? 3 : 2; k < e; k += 2) product *= square;
        y[i] = product;
      }
  }
}

void Power(const float* x, float e, float* y, int64_t n) {
  const float a = std::abs(e);
  if (a <= kMostProducts && a == std::floor(a)) {
    Products(x, y, n, static_cast<int>(a));
  } else if (a == 0.5f) {
    // The library's pow has -0 and -inf as a root has not. y may be x.
    constexpr int64_t kBlock = 64;
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      float base[kBlock];
      std::copy_n(x + i, m, base);
      simd::TheLoops().unary[static_cast<int>(simd::Unary::kSqrt)](base, y + i, m, 0, 0);
      for (int64_t k = 0; k < m; ++k) y[i + k] = base[k] == -INFINITY ? INFINITY : y[i + k] + 0.0f;
    }
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = std::pow(x[i], e);
    return;
  }
  if (e < 0)
    for (int64_t i = 0; i < n; ++i) y[i] = 1.0f / y[i];
}

std::string RefusePow(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (!IsF32(n.input(0))) return "the base is not f32";
  const Tensor* c = call.constant(n.input(1));
  if (c && c->num_elements() == 1) return "";
  return IsF32(n.input(1)) ? "" : "the exponent is neither f32 nor a constant";
}

std::unique_ptr<Kernel> MakePow(const StepCall& call) {
  const Node& n = call.main();
  const int x = call.operand(n.input(0)), e = call.operand(n.input(1));
  const Tensor* c = call.constant(n.input(1));
  const bool known = c && c->num_elements() == 1;
  const float exponent = known ? static_cast<float>(c->At(0)) : 0.0f;
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims operands[] = {in[static_cast<size_t>(x)].dims, in[static_cast<size_t>(e)].dims};
        const StridedLoop rows = StridedLoop::Broadcast(out[0].dims, operands);
        const bool x_steps = rows.inner_stride(0) != 0, e_steps = rows.inner_stride(1) != 0;
        const size_t y = in.size();
        Prepared p;
        p.name = "own:pow";
        p.unused.assign(in.size(), false);
        p.unused[static_cast<size_t>(e)] = known && x != e;
        p.launch = LaunchOf([=](std::byte* const* args) {
          const float* base = As<float>(static_cast<const std::byte*>(args[x]));
          const float* by = known ? &exponent : As<float>(static_cast<const std::byte*>(args[e]));
          float* to = As<float>(args[y]);
          rows.Run([=](int64_t at, const int64_t* from, int64_t count) {
            const float* u = base + from[0];
            const float* v = known ? by : by + from[1];
            if (x_steps && !e_steps)
              Power(u, *v, to + at, count);
            else
              for (int64_t i = 0; i < count; ++i)
                Power(u + (x_steps ? i : 0), v[e_steps ? i : 0], to + at + i, 1);
          });
        });
        return p;
      });
}

}  // namespace

KernelList PowKernels() { return {{"Pow", "", "own", RefusePow, MakePow}}; }

}  // namespace infer
