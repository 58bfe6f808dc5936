#include "runtime/engine/anomaly.h"

#include <algorithm>
#include <cmath>

#include "lib/support/statistics.h"

namespace infer::engine {
namespace {

constexpr size_t kLast = 5, kOfThem = 4;
constexpr double kFarZ = 4;
/// Of the cumulative sums: what a slot has to deviate by, the most that it counts, and the sum that
/// says enough. Five slots of the most do, and no four. The two least of the last five slots
/// deviate together by so much, which those beside a burst do not.
constexpr double kSlack = 0.75, kMostZ = 2, kChangeSum = 6, kTwoLeastZ = 3.5;
/// Smaller steps are not told.
constexpr double kTimes = 1.4, kTimesErrors = 1.3, kLeastErrorsZ = 1;
/// Of log latency.
constexpr double kLeastSpread = 0.05;
/// Of a normal distribution, to its MAD.
constexpr double kSpreadOfMad = 1.4826;

double SpreadOf(std::vector<double> v, double median) {
  for (double& x : v) x = std::abs(x - median);
  return kSpreadOfMad * UpperMedian(std::move(v));
}

/// How far a slot is from the usual, in spreads; `much` as StepTest takes it.
struct Deviation {
  double usual = 0, z = 0;
  int much = 0;
};

/// Of log latency.
Deviation OfTime(const std::deque<double>& usual, double x) {
  const std::vector<double> values(usual.begin(), usual.end());
  const double median = UpperMedian(values), above = x - median, least = std::log(kTimes);
  return {std::exp(median), above / std::max(SpreadOf(values, median), kLeastSpread),
          above >= least    ? 1
          : above <= -least ? -1
                            : 0};
}

/// The mean share of errors. The largest tenth of the slots counts no more than the next one:
/// bursts are not usual.
double UsualShare(const std::deque<ErrorCounts>& usual) {
  std::vector<double> shares;
  for (const ErrorCounts& c : usual) shares.push_back(c.errors / c.ended);
  std::vector<double> sorted = shares;
  std::sort(sorted.begin(), sorted.end());
  const double most = sorted[(sorted.size() * 9 + 9) / 10 - 1];
  double errors = 0, ended = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    errors += std::min(shares[i], most) * usual[i].ended;
    ended += usual[i].ended;
  }
  return errors / ended;
}

/// By Poisson's spread, or that of the usual slots where it is larger.
Deviation OfErrors(const std::deque<ErrorCounts>& usual, const ErrorCounts& slot) {
  const double share = UsualShare(usual), expected = share * slot.ended;
  const auto poisson = [&](const ErrorCounts& c) {
    return (c.errors - share * c.ended) / std::sqrt(share * c.ended + 1);
  };
  std::vector<double> all;
  for (const ErrorCounts& c : usual) all.push_back(poisson(c));
  const double z = poisson(slot) / std::max(1.0, SpreadOf(all, UpperMedian(all)));
  const bool more = z >= kLeastErrorsZ && slot.errors >= kTimesErrors * expected;
  const bool fewer = z <= -kLeastErrorsZ && kTimesErrors * slot.errors <= expected;
  return {share, z, more ? 1 : fewer ? -1 : 0};
}

}  // namespace

std::string_view Name(Figure f) {
  switch (f) {
    case Figure::kP50: return "p50";
    case Figure::kP99: return "p99";
    case Figure::kErrors: return "errors";
  }
  return "";
}

std::string_view Name(Anomaly::By by) {
  return by == Anomaly::By::kFar ? "robust z" : "change point";
}

SlotFigures FiguresOf(const Times& times, int64_t slot) {
  const Histogram& ns = times.by[EndIndex(State::kSucceeded)][static_cast<size_t>(Phase::kTotal)];
  SlotFigures f{.slot = slot, .succeeded = ns.count()};
  f.errors =
      times.ended(State::kFailed) + times.ended(State::kTimedOut) + times.ended(State::kRejected);
  f.ended = times.ended() - times.ended(State::kCancelled);
  f.p50_ns = ns.Quantile(0.5);
  f.p99_ns = ns.Quantile(0.99);
  return f;
}

StepTest::Step StepTest::Add(double z, int much) {
  last_.push_back({z, much});
  if (last_.size() > kLast) last_.pop_front();
  const double counted = std::clamp(z, -kMostZ, kMostZ);
  up_ = std::clamp(up_ + counted - kSlack, 0.0, kChangeSum);
  down_ = std::clamp(down_ - counted - kSlack, 0.0, kChangeSum);
  const auto slots = [&](const auto& which) {
    return std::count_if(last_.begin(), last_.end(), which) >= static_cast<int64_t>(kOfThem);
  };
  if (slots([](const Slot& s) { return s.much > 0 && s.z >= kFarZ; })) return Step::kFar;
  std::vector<double> zs;
  for (const Slot& s : last_) zs.push_back(s.z);
  std::sort(zs.begin(), zs.end());
  const bool lasts = zs.size() == kLast && zs[0] + zs[1] >= kTwoLeastZ;
  if (up_ >= kChangeSum && lasts && slots([](const Slot& s) { return s.much > 0; }))
    return Step::kChange;
  if (down_ >= kChangeSum && slots([](const Slot& s) { return s.much < 0; })) return Step::kDown;
  return Step::kNone;
}

std::vector<Anomaly> AnomalyWatch::See(const SlotFigures& f) {
  std::vector<Anomaly> found;
  if (f.slot <= last_slot_) return found;
  last_slot_ = f.slot;
  // Learns the slot, and a new level where it has stepped.
  const auto see = [&](Figure figure, double value, auto slot, auto& usual, const auto& deviation) {
    StepTest& test = tests_[static_cast<size_t>(figure)];
    if (usual.known()) {
      const Deviation d = deviation(usual.values(), slot);
      const StepTest::Step step = test.Add(d.z, d.much);
      const bool far = step == StepTest::Step::kFar;
      if (far || step == StepTest::Step::kChange)
        found.push_back({.slot = f.slot,
                         .figure = figure,
                         .by = far ? Anomaly::By::kFar : Anomaly::By::kChange,
                         .value = value,
                         .usual = d.usual,
                         .z = d.z});
      if (step != StepTest::Step::kNone) {
        usual.Clear();
        test.Clear();
      }
    }
    usual.Add(slot);
  };
  const auto see_time = [&](Figure figure, double ns) {
    see(figure, ns, std::log(std::max(ns, 1.0)), logs_[static_cast<size_t>(figure)], OfTime);
  };
  if (f.succeeded >= 20) see_time(Figure::kP50, f.p50_ns);
  if (f.succeeded >= 1000) see_time(Figure::kP99, f.p99_ns);
  const ErrorCounts counts{static_cast<double>(f.ended), static_cast<double>(f.errors)};
  if (f.ended > 0) see(Figure::kErrors, counts.errors / counts.ended, counts, errors_, OfErrors);
  return found;
}

}  // namespace infer::engine
