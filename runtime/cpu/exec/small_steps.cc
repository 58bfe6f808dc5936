#include "runtime/cpu/exec/small_steps.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

#include "runtime/cpu/backend.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/plan_ir/plan_program.h"

namespace infer {
namespace {

/// Rates of kernels on data in the caches, near the medians over the steps of real models. Bytes
/// count for more than they cost, for what comes from memory.
constexpr double kBytesPerMicrosecond = 30e3;
double FlopsPerMicrosecond() {
  const std::string_view isa = simd::TheLoops().isa;
  return isa == "avx512" ? 200e3 : isa == "avx2" ? 90e3 : 10e3;
}
/// Of reference kernels, in FLOPs and in bytes.
constexpr double kReferencePerMicrosecond = 1e3;

/// Two lanes save half of a launch at best; and its data lies in the cache of one.
constexpr double kWorthWakes = 3;

/// A machine that is busy now will not be so for ever: one measurement beside a neighbour that
/// takes the other processor for some milliseconds says 100, and would keep all later programs of
/// the process on one lane. So it is taken again, seldom and seldomer, and the least counts.
constexpr double kMostMicroseconds = 100;
constexpr double kFirstAgainMs = 20;           // then after twice as long each time
constexpr double kSurelySpinning = 1.5;        // no need to look again
constexpr double kSpinningMicroseconds = 0.6;  // nothing wakes faster
constexpr size_t kRounds = 9;
/// Between two launches a lane may fall asleep; so it may here. Right after a loop even a sleeping
/// one is awake for some microseconds.
constexpr double kPauseMs = 0.05;

/// Returns once every lane is awake. The ranges wait for each other: else the caller would run them
/// all before another lane is awake. Not for ever: there may be fewer threads than lanes.
void WakeAll(int lanes) {
  std::atomic<int> awake = 0;
  ParallelFor(lanes, 1, [&](int64_t, int64_t) {
    ++awake;
    const double begin = NowMs();
    while (awake < lanes && NowMs() - begin < 1e-3 * kMostMicroseconds) {
    }
  });
}

double MeasureWake(int lanes) {
  WakeAll(lanes);  // may start threads
  std::array<double, kRounds> ms;
  for (double& spent : ms) {
    double begin = NowMs();
    while (NowMs() - begin < kPauseMs) {
    }
    begin = NowMs();
    WakeAll(lanes);
    spent = NowMs() - begin;
  }
  std::nth_element(ms.begin(), ms.begin() + kRounds / 2, ms.end());
  return std::min(kMostMicroseconds, 1e3 * ms[kRounds / 2]);
}

}  // namespace

double WakeMicroseconds() {
  static std::atomic<double> least = kMostMicroseconds, due_ms = -1, pause_ms = kFirstAgainMs;
  const double now = NowMs();
  double due = due_ms;
  if (least > kSurelySpinning && now >= due &&
      due_ms.compare_exchange_strong(due, now + pause_ms)) {
    pause_ms = 2 * pause_ms;
    const double wake = MeasureWake(CurrentLanes());
    for (double before = least; wake < before && !least.compare_exchange_weak(before, wake);) {
    }
  }
  return least;
}

double EstimateMicroseconds(const Cost& cost, bool on_reference) {
  const auto flops = static_cast<double>(cost.flops),
             bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
  return on_reference ? (flops + bytes) / kReferencePerMicrosecond
                      : flops / FlopsPerMicrosecond() + bytes / kBytesPerMicrosecond;
}

bool StepLanes::Begin(const Cost& cost, bool on_reference) {
  one_.reset();
  if (lanes_ < 2 || (cost.bytes_written == 0 && cost.flops == 0)) return false;
  // Measuring starts threads: only for a step that is neither small nor large in any case. While
  // others hold the lanes nothing can be measured; spinning threads are the default.
  const double spent = EstimateMicroseconds(cost, on_reference);
  if (spent >= kWorthWakes * kMostMicroseconds) return false;
  if (spent >= kWorthWakes * kSpinningMicroseconds) {
    const double wake = CurrentLanes() > 1 ? WakeMicroseconds() : kSpinningMicroseconds;
    if (spent >= kWorthWakes * wake) return false;
  }
  one_.emplace(*CpuHost(), 1);
  return true;
}

}  // namespace infer
