#include "runtime/engine/batch_trials.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace infer::engine {
namespace {

/// Time for a row, to that of usual runs, below which fewer rows are taken.
constexpr double kFaster = 0.97;
/// Two trials that are worse than this say enough.
constexpr double kHopeless = 1.1;
/// Of all time, what trials may cost: until a limit is known, and behind that. The first trials of
/// a limit, and those of one that was faster when it was tried last, do not wait for it.
constexpr double kFirstShare = 0.05, kLaterShare = 0.0025;

double Median(std::deque<double> numbers) {
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace

bool BatchTrials::Candidate::known() const {
  return ratios.size() >= kRatios ||
         (ratios.size() > 1 && *std::min_element(ratios.begin(), ratios.end()) > kHopeless);
}

bool BatchTrials::Candidate::promises() const { return !ratios.empty() && ratios.back() < kFaster; }

int64_t BatchTrials::Wanted(int64_t rows) const {
  if (trial_ > 0) return trial_;
  if (usual_.rows < window_) return 0;
  static const Candidate untried;
  int64_t wanted = 0;
  const Candidate* best = nullptr;
  // What looks faster first, then what is not known, the longest not tried.
  const auto order = [](const Candidate& c) {
    return std::tuple(!c.promises(), c.known(), c.last);
  };
  const auto look = [&](int64_t limit) {
    if (std::min(limit, rows) == std::min(limit_, rows)) return;
    const auto at = candidates_.find(limit);
    const Candidate& c = at == candidates_.end() ? untried : at->second;
    if (best && order(c) >= order(*best)) return;
    best = &c;
    wanted = limit;
  };
  look(kNoLimit);
  for (int64_t limit = 1; limit < rows; limit *= 2) look(limit);
  if (!best || best->ratios.empty() || best->promises()) return wanted;
  // It takes up to twice the time of the rows that it is compared to.
  return since_ns_ * (best->known() ? kLaterShare : kFirstShare) >= usual_.ns ? wanted : 0;
}

void BatchTrials::Begin(int64_t limit) {
  if (trial_ == 0) first_ = true;
  trial_ = limit;
}

void BatchTrials::Ran(int64_t rows, int64_t ns, int64_t tried) {
  if (rows < 1 || ns < 1) return;
  const auto took = static_cast<double>(ns);
  if (tried == 0) return RanUsual(rows, took);
  // Another instance may have begun it before the trial ended.
  if (tried != trial_) return;
  const double as_usual = usual_.per_row() * static_cast<double>(rows);
  const double share = candidates_[tried].known() ? kLaterShare : kFirstShare;
  since_ns_ -= std::max(0.0, took - as_usual) / share;
  if (std::exchange(first_, false)) return;
  tried_.rows += rows;
  tried_.ns += took;
  const double most_ns = 2 * usual_.per_row() * static_cast<double>(window_);
  if (tried_.rows >= window_ || tried_.ns >= most_ns) EndTrial();
}

void BatchTrials::RanUsual(int64_t rows, double ns) {
  since_ns_ += ns;
  if (trial_ > 0 || std::exchange(first_, false)) return;
  usual_runs_.push_back({rows, ns});
  usual_.rows += rows;
  usual_.ns += ns;
  while (usual_.rows - usual_runs_.front().rows >= window_) {
    usual_.rows -= usual_runs_.front().rows;
    usual_.ns -= usual_runs_.front().ns;
    usual_runs_.pop_front();
  }
  // What was saved up while too few waited is not spent all at once.
  if (usual_.rows >= window_) since_ns_ = std::min(since_ns_, 2 * usual_.ns / kLaterShare);
}

void BatchTrials::EndTrial() {
  const int64_t tried = trial_;
  Candidate& c = candidates_[tried];
  // The first trial pays for planning, in every instance.
  if (c.last > 0) c.ratios.push_back(tried_.per_row() / usual_.per_row());
  c.last = ++trials_;
  if (c.ratios.size() > kRatios) c.ratios.pop_front();
  trial_ = 0;
  tried_ = usual_ = {};
  usual_runs_.clear();
  first_ = true;
  // In doubt runs are as the rules say.
  if (c.ratios.size() < kRatios || Median(c.ratios) >= (tried == kNoLimit ? 1 : kFaster)) return;
  limit_ = tried;
  candidates_.clear();
}

BatchAdvice Advise(const BatchTimes& times, const BatchRules& rules, const Waiters& w,
                   int64_t now_ns, bool draining) {
  using By = BatchAdvice::By;
  const BatchCurve& curve = times.curve;
  const int64_t most = rules.max_rows, waiting = std::min(most, std::max<int64_t>(w.rows, 1));
  BatchAdvice a{.rows = most, .run_ns = curve.RunNs(waiting)};
  if (times.trials.limit() < most) a = {.rows = times.trials.limit(), .by = By::kMeasured};
  if (const int64_t tries = times.trials.Wanted(waiting);
      tries > 0 && (times.trials.trying() || Decide(rules, w, a.run_ns, draining).at_ns <= now_ns))
    a = {.rows = std::min(tries, most), .by = By::kTrial, .tries = tries};
  if (w.earliest_deadline_ns != kNever) {
    const auto in_time = [&](int64_t rows) {
      return curve.RunNs(rows) <= w.earliest_deadline_ns - now_ns;
    };
    int64_t rows = std::min(a.rows, waiting);
    while (rows > 1 && !in_time(rows)) --rows;
    // Who is late anyway does not hold the others up.
    if (rows < std::min(a.rows, waiting) && in_time(rows)) a = {.rows = rows, .by = By::kDeadline};
  }
  a.run_ns = curve.RunNs(std::min(a.rows, waiting));
  return a;
}

}  // namespace infer::engine
