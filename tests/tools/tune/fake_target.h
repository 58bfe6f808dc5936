#pragma once
/// Settings whose true latencies are known, behind a clock that costs no time.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "lib/support/random.h"
#include "tests/tools/load/simulated_engine.h"
#include "tools/infer_bench/tune/search.h"

namespace infer::bench {

/// A run takes median x exp(spread x normal), and one in 1 / tail_share of them tail_factor times
/// that.
struct Truth {
  double median_ms = 1, spread = 0.03;
  double tail_share = 0.002, tail_factor = 1.5;
  double Draw(Random& random) const {
    const double ms = median_ms * std::exp(spread * random.Normal());
    return random.Uniform() < tail_share ? ms * tail_factor : ms;
  }
  double Mean() const {
    return median_ms * std::exp(spread * spread / 2) * (1 + tail_share * (tail_factor - 1));
  }
  /// By bisection of the distribution function.
  double Quantile(double q) const {
    const auto below = [&](double ms) {
      const auto normal = [&](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
      return (1 - tail_share) * normal(std::log(ms / median_ms) / spread) +
             tail_share * normal(std::log(ms / tail_factor / median_ms) / spread);
    };
    double low = median_ms / 10, high = median_ms * 10;
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (below(middle) < q ? low : high) = middle;
    }
    return high;
  }
};

class FakeTarget : public TuneTarget {
 public:
  FakeTarget(uint64_t seed, double open_s) : random_(seed), open_s_(open_s) {}
  void Add(const TuneSetting& s, Truth truth) { truths_[s.Name()] = truth; }

  double NowS() override { return (engine_ ? engine_->now_ms : now_ms_) / 1e3; }
  Result<OpenedSetting> Open(const TuneSetting& s) override {
    now_ms_ = 1e3 * (NowS() + open_s_);
    engine_.reset();
    opened.push_back(s.Name());
    const auto truth = truths_.find(s.Name());
    if (truth == truths_.end()) return Unsupported("no such form");
    engine_ = std::make_unique<SimulatedEngine>(
        s.lanes, [this, t = truth->second](double, int64_t) { return t.Draw(random_); });
    engine_->now_ms = now_ms_;
    if (at_time) engine_->at_time = at_time;
    OpenedSetting out{.engine = engine_.get(), .batch = std::max<int64_t>(1, s.batch)};
    if (s.max_batch > 0) out.in_flight = static_cast<int>(s.lanes * s.max_batch);
    if (const auto it = sqnr_db.find(s.precision); it != sqnr_db.end()) out.sqnr_db = it->second;
    return out;
  }

  std::map<std::string, double> sqnr_db;  ///< by precision
  std::vector<std::string> opened;
  std::function<void(double now_ms)> at_time = {};

 private:
  Random random_;
  double open_s_, now_ms_ = 0;
  std::map<std::string, Truth> truths_;
  std::unique_ptr<SimulatedEngine> engine_;
};

}  // namespace infer::bench
