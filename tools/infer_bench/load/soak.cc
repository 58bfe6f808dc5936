#include "tools/infer_bench/load/soak.h"

#include <algorithm>
#include <limits>

namespace infer::bench {
namespace {

/// Sorts answers into windows by when they came.
class Windows {
 public:
  Windows(const SoakOptions& options, double start_ms, std::vector<SoakWindow>& out)
      : o_(options), start_ms_(start_ms), out_(out) {}

  void Add(const Done& d, double due_ms) {
    CloseUntil(d.finished_ms);
    latency_.Add(0, d.finished_ms - due_ms);
  }

  /// A part of a window at the end is none.
  void CloseUntil(double now_ms) {
    while (now_ms >= start_ms_ + 1e3 * o_.window_s * static_cast<double>(out_.size() + 1)) Close();
  }

 private:
  void Close() {
    SoakWindow w;
    w.at_s = o_.window_s * static_cast<double>(out_.size());
    w.seconds = o_.window_s;
    w.answered = latency_.count();
    w.median_ms = latency_.Quantile(0.5);
    w.p99_ms = latency_.Quantile(0.99);
    w.max_ms = latency_.max();
    w.resident_bytes = o_.resident();
    latency_ = Latencies(0);
    out_.push_back(w);
    if (o_.observe) o_.observe(out_.size());
  }

  const SoakOptions& o_;
  double start_ms_;
  std::vector<SoakWindow>& out_;
  Latencies latency_{0};
};

template <typename F>
Drift DriftOf(std::span<const SoakWindow> windows, double limit, const F& figure) {
  std::vector<double> hours, values;
  for (const SoakWindow& w : windows) {
    const std::optional<double> v = figure(w);
    if (!v) continue;
    hours.push_back((w.at_s + w.seconds) / 3600);
    values.push_back(*v);
  }
  return FindDrift(hours, values, limit);
}

}  // namespace

Result<SoakResult> Soak(Engine& engine, const SoakOptions& options) {
  SoakResult r;
  // What grows here must not look like a leak of the engine.
  r.windows.reserve(static_cast<size_t>(options.load.duration_s / options.window_s) + 2);
  LoadOptions load = options.load;
  load.keep = 0;
  Windows windows(options, engine.NowMs(), r.windows);
  load.observe = [&](const Done& d, double due_ms) { windows.Add(d, due_ms); };
  INFER_ASSIGN(r.load, Drive(engine, load));
  windows.CloseUntil(engine.NowMs());
  r.skipped = static_cast<int64_t>(r.windows.size() / 10);
  const auto seen = std::span(r.windows).subspan(static_cast<size_t>(r.skipped));
  const auto if_answered = [](const SoakWindow& w, double v) {
    return w.answered > 0 ? std::optional(v) : std::nullopt;
  };
  const auto median = [&](const SoakWindow& w) { return if_answered(w, w.median_ms); };
  const double level = DriftOf(seen, 0, median).level;
  r.median_ms = DriftOf(seen, options.max_latency_drift * level, median);
  r.p99_ms = DriftOf(seen, std::numeric_limits<double>::infinity(),
                     [&](const SoakWindow& w) { return if_answered(w, w.p99_ms); });
  r.resident_bytes = DriftOf(seen, options.max_memory_drift_bytes, [](const SoakWindow& w) {
    return std::optional(static_cast<double>(w.resident_bytes));
  });
  r.verdict = Worst(r.median_ms.verdict, r.resident_bytes.verdict);
  return r;
}

}  // namespace infer::bench
