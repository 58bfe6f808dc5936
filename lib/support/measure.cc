#include "lib/support/measure.h"

#include <cmath>

namespace infer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kWindow = 5;
constexpr double kStableShare = 0.02;

bool HasSettled(const std::vector<double>& warmup_ms) {
  if (warmup_ms.size() < 2 * kWindow) return false;
  const std::span<const double> all(warmup_ms);
  const double last = Quantile(all.last(kWindow), 0.5);
  const double before = Quantile(all.last(2 * kWindow).first(kWindow), 0.5);
  return std::abs(last - before) <= kStableShare * before;
}

}  // namespace

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

Result<Measurement> Measure(const std::function<Status()>& action, const MeasureOptions& options) {
  Measurement m;
  auto timed = [&](double* ms) {
    const auto start = Clock::now();
    Status s = action();
    *ms = MsSince(start);
    return s;
  };
  const auto warmup_start = Clock::now();
  std::vector<double> warmup_ms;
  for (;;) {
    const bool fixed = options.fixed_warmup_runs >= 0;
    const auto runs = static_cast<int>(warmup_ms.size());
    m.stable = !fixed && HasSettled(warmup_ms);
    if (fixed ? runs >= options.fixed_warmup_runs : m.stable) break;
    if (!fixed && runs > 0 && MsSince(warmup_start) > options.max_warmup_s * 1e3) break;
    if (options.stop.stop_requested()) break;
    double ms = 0;
    INFER_TRY(timed(&ms));
    warmup_ms.push_back(ms);
  }
  m.warmup_runs = static_cast<int>(warmup_ms.size());
  const auto start = Clock::now();
  while (!(m.interrupted = options.stop.stop_requested())) {
    const double elapsed_s = MsSince(start) / 1e3;
    const auto runs = static_cast<int>(m.samples_ms.size());
    if (runs >= options.max_runs) break;
    if (runs >= options.min_runs && elapsed_s >= options.min_time_s) break;
    if (runs > 0 && elapsed_s >= options.max_time_s) break;
    double ms = 0;
    INFER_TRY(timed(&ms));
    m.samples_ms.push_back(ms);
  }
  if (!warmup_ms.empty())
    m.first_ms = warmup_ms.front();
  else if (!m.samples_ms.empty())
    m.first_ms = m.samples_ms.front();
  return m;
}

}  // namespace infer
