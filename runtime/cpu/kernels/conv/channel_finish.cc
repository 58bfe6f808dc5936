#include "runtime/cpu/kernels/conv/channel_finish.h"

#include <algorithm>

#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Numbers that are finished while they are in L1.
constexpr int64_t kFinishedPart = 4096;
/// Numbers that are worth a lane.
constexpr int64_t kFinishGrain = 1 << 15;

typedef float FourResults __attribute__((vector_size(16), aligned(4), may_alias));

/// to[i] += from[i].
void AddToResults(const float* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    *reinterpret_cast<FourResults*>(to + i) += *reinterpret_cast<const FourResults*>(from + i);
  for (; i < n; ++i) to[i] += from[i];
}

/// to[i] += number.
void AddToResults(float number, int64_t n, float* to) {
  const FourResults four = {number, number, number, number};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) *reinterpret_cast<FourResults*>(to + i) += four;
  for (; i < n; ++i) to[i] += number;
}

/// to[p * 4 * kFours + i] += bias[i], at `count` points.
template <int kFours>
void AddToPoints(const float* bias, int64_t count, float* to) {
  FourResults four[kFours];
  for (int i = 0; i < kFours; ++i) four[i] = *reinterpret_cast<const FourResults*>(bias + 4 * i);
  for (int64_t p = 0; p < count; ++p, to += 4 * kFours)
    for (int i = 0; i < kFours; ++i) *reinterpret_cast<FourResults*>(to + 4 * i) += four[i];
}

}  // namespace

void ChannelFinish::Part(const float* bias, int64_t first, int64_t count, const float* residual,
                         float* y) const {
  const int64_t width = std::max<int64_t>(block, 1), n = count * width;
  const int64_t there = std::min(width, channels - first);
  if (bias && block == 0) AddToResults(bias[first], n, y);
  if (bias && block == 8 && there == 8)
    AddToPoints<2>(bias + first, count, y);
  else if (bias && block == 16 && there == 16)
    AddToPoints<4>(bias + first, count, y);
  else if (bias && block > 0)
    for (int64_t p = 0; p < count; ++p) AddToResults(bias + first, there, y + p * width);
  if (residual && !appended.residual_last) AddToResults(residual, n, y);
  if (appended.function) appended.Apply(y, n);
  if (residual && appended.residual_last) AddToResults(residual, n, y);
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
