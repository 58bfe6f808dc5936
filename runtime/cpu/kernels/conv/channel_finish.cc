#include "runtime/cpu/kernels/conv/channel_finish.h"

#include <algorithm>

#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

/// Numbers that are finished while they are in L1.
constexpr int64_t kFinishedPart = 4096;
/// Numbers that are worth a lane.
constexpr int64_t kFinishGrain = 1 << 15;

typedef float FourResults __attribute__((vector_size(16), aligned(4), may_alias));

/// to[p * 4 * kFours + i] += bias[i], at `count` points.
template <int64_t kFours>
void AddToPoints(const float* bias, int64_t count, float* to) {
  FourResults four[kFours];
  for (int64_t i = 0; i < kFours; ++i)
    four[i] = *reinterpret_cast<const FourResults*>(bias + 4 * i);
  for (int64_t p = 0; p < count; ++p, to += 4 * kFours)
    for (int64_t i = 0; i < kFours; ++i) *reinterpret_cast<FourResults*>(to + 4 * i) += four[i];
}

}  // namespace

void ChannelFinish::Part(const float* bias, int64_t first, int64_t count, const float* residual,
                         float* y) const {
  const int64_t width = std::max<int64_t>(block, 1), n = count * width;
  const int64_t there = std::min(width, channels - first);
  const simd::Loops& loops = simd::TheLoops();
  constexpr auto kAdd = static_cast<size_t>(simd::Binary::kAdd);
  if (bias && block == 0) loops.binary_scalar[kAdd](y, bias + first, y, n);
  if (bias && block == 8 && there == 8)
    AddToPoints<2>(bias + first, count, y);
  else if (bias && block == 16 && there == 16)
    AddToPoints<4>(bias + first, count, y);
  else if (bias && block > 0)
    for (int64_t p = 0; p < count; ++p)
      loops.binary[kAdd](y + p * width, bias + first, y + p * width, there);
  if (residual && !appended.residual_last) loops.binary[kAdd](y, residual, y, n);
  if (appended.function) appended.Apply(y, n);
  if (residual && appended.residual_last) loops.binary[kAdd](y, residual, y, n);
  if (there == width || appended.keeps_zero()) return;
  for (int64_t p = 0; p < count; ++p) std::fill(y + p * width + there, y + (p + 1) * width, 0.0f);
}

void ChannelFinish::Run(const float* bias, const float* residual, float* y) const {
  const int64_t width = std::max<int64_t>(block, 1), blocks = BlocksOf(channels, width);
  const int64_t of_part = std::max<int64_t>(1, kFinishedPart / width),
                parts = BlocksOf(points, of_part);
  ForRange(images * blocks * parts, std::max<int64_t>(1, kFinishGrain / kFinishedPart),
           [&](int64_t u, int64_t end) {
             for (; u < end; ++u) {
               const int64_t run = u / parts, point = u % parts * of_part;
               const int64_t at = (run * points + point) * width;
               Part(bias, run % blocks * width, std::min(of_part, points - point),
                    residual ? residual + at : nullptr, y + at);
             }
           });
}

}  // namespace infer
