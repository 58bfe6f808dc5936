#include "quant/calibrate/observer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lib/support/strings.h"
#include "quant/calibrate/histogram.h"

namespace infer {
namespace {

class MinMax : public Observer {
 public:
  int64_t memory_bytes() const override { return sizeof(*this); }

 protected:
  void Update(std::span<const float>, const Interval&) override {}
  Interval Range(const QuantGrid&) const override { return seen(); }
};

class Percentile : public Observer {
 public:
  explicit Percentile(double percentile) : cut_(1 - percentile / 100) {}
  int64_t memory_bytes() const override {
    return static_cast<int64_t>(sizeof(*this)) + histogram_.memory_bytes();
  }

 protected:
  void Update(std::span<const float> values, const Interval&) override { histogram_.Add(values); }
  Interval Range(const QuantGrid& grid) const override {
    if (cut_ <= 0) return seen();
    if (grid.symmetric) {
      const double reach = histogram_.MagnitudeQuantile(1 - cut_);
      return {std::max(seen().lo, -reach), std::min(seen().hi, reach)};
    }
    return {histogram_.Quantile(cut_ / 2), histogram_.Quantile(1 - cut_ / 2)};
  }

 private:
  double cut_;
  Histogram histogram_;
};

class MovingAverage : public Observer {
 public:
  explicit MovingAverage(double momentum) : momentum_(momentum) {}
  int64_t memory_bytes() const override { return sizeof(*this); }

 protected:
  void Update(std::span<const float>, const Interval& run) override {
    if (!average_) {
      average_ = run;
      return;
    }
    average_->lo = momentum_ * average_->lo + (1 - momentum_) * run.lo;
    average_->hi = momentum_ * average_->hi + (1 - momentum_) * run.hi;
  }
  Interval Range(const QuantGrid&) const override { return *average_; }

 private:
  double momentum_;
  std::optional<Interval> average_;
};

/// One line per observer: its name, the argument that it takes, and its bounds.
struct ObserverKind {
  std::string_view name;
  double default_argument, least, most;
  bool takes_argument;
  ObserverFactory (*make)(double);
};
constexpr double kBelowOne = 1 - 1e-12;
const ObserverKind kKinds[] = {
    {"minmax", 0, 0, 0, false, [](double) { return MinMaxObserver(); }},
    {"percentile", 99.99, 50 + 1e-9, 100, true, PercentileObserver},
    {"moving-average", 0.9, 0, kBelowOne, true, MovingAverageObserver},
};

}  // namespace

void Observer::See(std::span<const float> values) {
  int64_t finite = 0;
  for (const float v : values) finite += std::isfinite(v) ? 1 : 0;
  non_finite_ += static_cast<int64_t>(values.size()) - finite;
  if (finite == 0) return;
  const Interval run = FiniteRange(values);
  seen_ = count_ > 0 ? seen_.Union(run) : run;
  count_ += finite;
  Update(values, run);
}

Result<Interval> Observer::Choose(const QuantGrid& grid) const {
  if (count_ == 0)
    return InvalidModel(non_finite_ > 0 ? "every value seen is NaN or infinite"
                                        : "no value was seen");
  return Range(grid);
}

ObserverFactory MinMaxObserver() {
  return [] { return std::make_unique<MinMax>(); };
}

ObserverFactory PercentileObserver(double percentile) {
  INFER_CHECK(percentile > 50 && percentile <= 100);
  return [percentile] { return std::make_unique<Percentile>(percentile); };
}

ObserverFactory MovingAverageObserver(double momentum) {
  INFER_CHECK(momentum >= 0 && momentum < 1);
  return [momentum] { return std::make_unique<MovingAverage>(momentum); };
}

Result<ObserverFactory> ParseObserver(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  std::vector<std::string> known;
  for (const ObserverKind& kind : kKinds) {
    known.push_back(kind.takes_argument ? Cat(kind.name, "[:", kind.default_argument, "]")
                                        : std::string(kind.name));
    if (kind.name != name) continue;
    double argument = kind.default_argument;
    if (colon != std::string_view::npos) {
      const auto parsed = ParseDouble(text.substr(colon + 1));
      if (!kind.takes_argument || !parsed || !(*parsed >= kind.least && *parsed <= kind.most))
        return InvalidArgument(
            Cat("observer '", text, "': ", kind.name,
                kind.takes_argument ? Cat(" takes a number in [", kind.least, ", ", kind.most, "]")
                                    : std::string(" takes no argument")));
      argument = *parsed;
    }
    return kind.make(argument);
  }
  return InvalidArgument(Cat("unknown observer '", text, "'; there are ", Join(known, ", ")));
}

}  // namespace infer
