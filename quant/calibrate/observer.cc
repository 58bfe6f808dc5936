#include "quant/calibrate/observer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lib/support/strings.h"
#include "quant/calibrate/pieces.h"
#include "quant/calibrate/range_search.h"
#include "quant/calibrate/state.h"

namespace infer {
namespace {

class MinMax : public Observer {
 public:
  int64_t memory_bytes() const override { return sizeof(*this); }
  std::string state() const override { return "minmax"; }

 protected:
  ObservedRange Range(const QuantGrid&) const override { return {seen()}; }
};

/// Observers that know all numbers by their histogram, and differ in what they choose then.
class FromHistogram : public Observer {
 public:
  using Chooser = std::function<ObservedRange(const Histogram&, const QuantGrid&)>;
  explicit FromHistogram(Chooser choose) : choose_(std::move(choose)) {}
  const Histogram* histogram() const override { return &histogram_; }
  int64_t memory_bytes() const override {
    return static_cast<int64_t>(sizeof(*this)) + histogram_.memory_bytes();
  }
  std::string state() const override { return "histogram"; }

 protected:
  void Update(std::span<const float> values, const Scan& scan) override {
    histogram_.Add(values, scan);
  }
  ObservedRange Range(const QuantGrid& grid) const override { return choose_(histogram_, grid); }
  void SaveMore(std::string& out) const override { histogram_.Save(out); }
  bool LoadMore(std::string_view& in) override { return histogram_.Load(in); }

 private:
  Chooser choose_;
  Histogram histogram_;
};

Interval PercentileRange(const Histogram& h, const QuantGrid& grid, double percentile) {
  const double cut = 1 - percentile / 100;
  const Interval seen{h.min(), h.max()};
  if (cut <= 0) return seen;
  if (grid.symmetric) {
    const double reach = h.MagnitudeQuantile(1 - cut);
    return {std::max(seen.lo, -reach), std::min(seen.hi, reach)};
  }
  return {h.Quantile(cut / 2), h.Quantile(1 - cut / 2)};
}

ObservedRange LeastErrorRange(const Histogram& h, const QuantGrid& grid) {
  const BinnedValues values(h);
  ObservedRange chosen;
  const auto add = [&](std::string name, const Interval& range) {
    chosen.candidates.push_back(
        {std::move(name), range, values.SquaredError(ChooseParams(range, grid))});
  };
  add("minmax", values.seen());
  for (const double p : {99.999, 99.99}) add(Cat("percentile:", p), PercentileRange(h, grid, p));
  add("entropy", LeastDivergenceRange(values, grid));
  add("mse", LeastSquaresRange(values, grid));
  const auto least =
      std::min_element(chosen.candidates.begin(), chosen.candidates.end(),
                       [](const auto& a, const auto& b) { return a.error < b.error; });
  chosen.range = least->range;
  chosen.observer = least->observer;
  return chosen;
}

class MovingAverage : public Observer {
 public:
  explicit MovingAverage(double momentum) : momentum_(momentum) {}
  int64_t memory_bytes() const override { return sizeof(*this); }
  std::string state() const override { return Cat("moving-average:", momentum_); }

 protected:
  void EndRun(const Interval& run) override {
    if (!average_) {
      average_ = run;
      return;
    }
    average_->lo = momentum_ * average_->lo + (1 - momentum_) * run.lo;
    average_->hi = momentum_ * average_->hi + (1 - momentum_) * run.hi;
  }
  ObservedRange Range(const QuantGrid&) const override { return {*average_}; }
  void SaveMore(std::string& out) const override {
    PutDouble(out, average_.value_or(Interval{}).lo);
    PutDouble(out, average_.value_or(Interval{}).hi);
  }
  bool LoadMore(std::string_view& in) override {
    Interval r;
    if (!TakeDouble(in, r.lo) || !TakeDouble(in, r.hi)) return false;
    average_ = count() > 0 ? std::optional(r) : std::nullopt;
    return true;
  }

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
    {"entropy", 0, 0, 0, false, [](double) { return EntropyObserver(); }},
    {"mse", 0, 0, 0, false, [](double) { return MseObserver(); }},
    {"auto", 0, 0, 0, false, [](double) { return AutoObserver(); }},
};

}  // namespace

void Observer::See(std::span<const float> values) {
  Scan run;
  SeePart(values, run);
  End(run);
}

void Observer::See(const RawValue& value) {
  Scan run;
  ForEachPiece(value, [&](std::span<const float> piece) { SeePart(piece, run); });
  End(run);
}

void Observer::SeePart(std::span<const float> values, Scan& run) {
  // Counted while what was scanned is still in the cache.
  constexpr size_t kSlice = size_t{1} << 18;
  for (size_t at = 0; at < values.size(); at += kSlice) {
    const auto slice = values.subspan(at, std::min(kSlice, values.size() - at));
    const Scan scan = ScanValues(slice);
    if (scan.finite > 0) Update(slice, scan);
    run.Add(scan);
  }
}

void Observer::End(const Scan& run) {
  non_finite_ += run.non_finite;
  if (run.finite == 0) return;
  seen_ = count_ > 0 ? seen_.Union(run.range) : run.range;
  count_ += run.finite;
  EndRun(run.range);
}

void Observer::Save(std::string& out) const {
  PutNumber(out, static_cast<uint64_t>(count_));
  PutNumber(out, static_cast<uint64_t>(non_finite_));
  PutDouble(out, seen_.lo);
  PutDouble(out, seen_.hi);
  SaveMore(out);
}

bool Observer::Load(std::string_view& in) {
  uint64_t count = 0, non_finite = 0;
  if (!TakeNumber(in, count) || !TakeNumber(in, non_finite) || !TakeDouble(in, seen_.lo) ||
      !TakeDouble(in, seen_.hi))
    return false;
  count_ = static_cast<int64_t>(count);
  non_finite_ = static_cast<int64_t>(non_finite);
  return LoadMore(in);
}

Result<ObservedRange> Observer::Choose(const QuantGrid& grid) const {
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
  return [percentile] {
    return std::make_unique<FromHistogram>([=](const Histogram& h, const QuantGrid& grid) {
      return ObservedRange{PercentileRange(h, grid, percentile)};
    });
  };
}

ObserverFactory MovingAverageObserver(double momentum) {
  INFER_CHECK(momentum >= 0 && momentum < 1);
  return [momentum] { return std::make_unique<MovingAverage>(momentum); };
}

ObserverFactory EntropyObserver() {
  return [] {
    return std::make_unique<FromHistogram>([](const Histogram& h, const QuantGrid& grid) {
      return ObservedRange{LeastDivergenceRange(BinnedValues(h), grid)};
    });
  };
}

ObserverFactory MseObserver() {
  return [] {
    return std::make_unique<FromHistogram>([](const Histogram& h, const QuantGrid& grid) {
      return ObservedRange{LeastSquaresRange(BinnedValues(h), grid)};
    });
  };
}

ObserverFactory AutoObserver() {
  return [] { return std::make_unique<FromHistogram>(LeastErrorRange); };
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
