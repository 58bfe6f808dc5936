#include "tools/bench/sampling.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lib/support/measure.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/distribution.h"
#include "tools/common/host.h"

namespace infer::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kWindowRuns = 5;
constexpr double kWindowMs = 25;
constexpr double kStableShare = 0.02;
constexpr int kNoisyLooks = 3;

double MsBetween(Clock::time_point a, Clock::time_point b) {
  return std::chrono::duration<double, std::milli>(b - a).count();
}

/// Median and median absolute deviation.
std::pair<double, double> Middle(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const double median = QuantileOfSorted(v, 0.5);
  for (double& x : v) x = std::abs(x - median);
  std::sort(v.begin(), v.end());
  return {median, QuantileOfSorted(v, 0.5)};
}

}  // namespace

std::string_view Name(WarmUpEnd end) {
  switch (end) {
    case WarmUpEnd::kSettled: return "settled";
    case WarmUpEnd::kNoisy: return "within noise";
    case WarmUpEnd::kTime: return "time";
    case WarmUpEnd::kCount: return "count";
    case WarmUpEnd::kStopped: return "stopped";
  }
  return "";
}

std::string WarmUp::ToString() const {
  return Cat(samples.size(), samples.size() == 1 ? " run, " : " runs, ", Name(ended),
             before_ms > 0
                 ? Cat(": ", Rounded(before_ms, 4), " ms, then ", Rounded(last_ms, 4), " ms")
                 : std::string());
}

bool WarmUpJudge::Add(double ms) {
  window_.push_back(ms);
  window_ms_ += ms;
  if (window_.size() < kWindowRuns || window_ms_ < kWindowMs) return false;
  const auto [last, last_mad] = Middle(window_);
  bool over = false;
  if (!previous_.empty()) {
    const auto [before, before_mad] = Middle(previous_);
    before_ = before;
    last_ = last;
    const double change = std::abs(last - before);
    // Still getting faster is no noise, however wide the runs scatter: the fastest runs tell.
    const bool faster = *std::min_element(window_.begin(), window_.end()) <
                        (1 - kStableShare) * *std::min_element(previous_.begin(), previous_.end());
    noisy_ = !faster && change <= std::max(last_mad, before_mad) ? noisy_ + 1 : 0;
    over = change <= kStableShare * before || noisy_ >= kNoisyLooks;
    if (over) verdict_ = change <= kStableShare * before ? WarmUpEnd::kSettled : WarmUpEnd::kNoisy;
  }
  previous_ = std::move(window_);
  window_.clear();
  window_ms_ = 0;
  return over;
}

Result<Sampled> Sample(const std::function<Status()>& action, const SamplingOptions& options) {
  Sampled out;
  Clock::time_point origin;
  int processor = -1;
  // Whether the run counts: one that a stop cut short does not.
  auto timed = [&](RunSamples& into) -> Result<bool> {
    const double cpu_s = OwnCpuSeconds();
    const auto start = Clock::now();
    Status s = action();
    const auto end = Clock::now();
    if (s.code() == Code::kCancelled && options.stop.stop_requested()) return false;
    INFER_TRY(std::move(s));
    if (into.empty()) origin = start;
    into.Add(MsBetween(origin, start), MsBetween(start, end));
    into.cpu_ms.push_back(1e3 * (OwnCpuSeconds() - cpu_s));
    return true;
  };
  WarmUpJudge judge;
  const auto warmup_start = Clock::now();
  const bool fixed = options.fixed_warmup_runs >= 0;
  RunSamples& warm = out.warmup.samples;
  for (;;) {
    out.warmup.ended = WarmUpEnd::kStopped;
    if (options.stop.stop_requested()) break;
    out.warmup.ended = fixed ? WarmUpEnd::kCount : WarmUpEnd::kTime;
    if (fixed && warm.size() >= static_cast<size_t>(options.fixed_warmup_runs)) break;
    if (!fixed && !warm.empty() && MsSince(warmup_start) > options.max_warmup_s * 1e3) break;
    INFER_ASSIGN(const bool ran, timed(warm));
    if (!ran) continue;
    const bool settled = judge.Add(warm.ms.back());
    if (!fixed && settled) {
      out.warmup.ended = judge.verdict();
      break;
    }
  }
  out.warmup.before_ms = judge.before_ms();
  out.warmup.last_ms = judge.last_ms();

  const size_t runs_wanted = static_cast<size_t>(options.runs);
  out.samples.Reserve(std::max<size_t>(runs_wanted, 1024));
  const auto start = Clock::now();
  while (out.ended.empty()) {
    const double elapsed_s = MsSince(start) / 1e3;
    const size_t runs = out.samples.size();
    if (options.stop.stop_requested())
      out.ended = "stopped";
    else if (runs_wanted > 0)
      out.ended = runs >= runs_wanted ? "runs" : "";
    else if (runs >= static_cast<size_t>(options.min_runs) && elapsed_s >= options.min_time_s)
      out.ended = "runs and time";
    else if (runs >= static_cast<size_t>(options.max_runs))
      out.ended = "max runs";
    else if (runs > 0 && elapsed_s >= options.max_time_s)
      out.ended = "max time";
    if (!out.ended.empty()) break;
    INFER_ASSIGN(const bool ran, timed(out.samples));
    if (!ran) continue;
    const int now_on = ::sched_getcpu();
    out.migrations += processor >= 0 && now_on != processor;
    processor = now_on;
  }
  out.interrupted = out.ended == "stopped";
  if (!warm.empty())
    out.first_ms = warm.ms.front();
  else if (!out.samples.empty())
    out.first_ms = out.samples.ms.front();
  return out;
}

}  // namespace infer::bench
