#include "tools/infer_bench/load/drive.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <unordered_map>

namespace infer::bench {
namespace {

/// How long a stop may go unnoticed.
constexpr double kLookMs = 100;

/// When queries of an open loop are due.
class Schedule {
 public:
  Schedule(const LoadOptions& o, double start_ms)
      : poisson_(o.arrivals == Arrivals::kPoisson),
        gap_ms_(1e3 / o.rate),
        start_ms_(start_ms),
        moments_ms_(o.arrivals == Arrivals::kReplayed ? o.moments_ms : nullptr),
        random_(o.seed) {
    next_ms_ = moments_ms_ ? Recorded() : start_ms + (poisson_ ? Gap() : 0);
  }
  double next_ms() const { return next_ms_; }
  void Advance() {
    ++came_;
    if (moments_ms_) {
      next_ms_ = Recorded();
      return;
    }
    // Equal gaps by their number, so that rounding does not add up.
    next_ms_ = poisson_ ? next_ms_ + Gap() : start_ms_ + static_cast<double>(came_) * gap_ms_;
  }

 private:
  /// The recorded moment, in the round that it is now.
  double Recorded() const {
    const std::vector<double>& all = *moments_ms_;
    const auto n = static_cast<int64_t>(all.size());
    const double span = all.back() - all.front();
    const double round_ms = all.back() + (n > 1 ? span / static_cast<double>(n - 1) : 0);
    const int64_t round = came_ / n;
    return start_ms_ + static_cast<double>(round) * std::max(round_ms, kLeastRoundMs) +
           all[static_cast<size_t>(came_ % n)];
  }
  double Gap() { return -std::log1p(-random_.Uniform()) * gap_ms_; }

  bool poisson_;
  static constexpr double kLeastRoundMs = 1;
  double gap_ms_, start_ms_, next_ms_ = 0;
  std::shared_ptr<const std::vector<double>> moments_ms_;
  int64_t came_ = 0;
  Random random_;
};

/// Queries that are not answered, and how many came. Of the driver's thread and, where answers hand
/// over the next query, of the engine's.
class InFlight {
 public:
  /// The id of another query that is due then.
  int64_t Begin(double due_ms) {
    const std::lock_guard lock(mutex_);
    due_ms_[issued_] = due_ms;
    return issued_++;
  }
  /// The same, of the moment `now_ms`, unless no more shall come; `ended` is given how many came.
  template <typename Ended>
  std::optional<int64_t> Follow(double now_ms, const Ended& ended) {
    const std::lock_guard lock(mutex_);
    if (closed_ || ended(issued_)) return std::nullopt;
    due_ms_[issued_] = now_ms;
    return issued_++;
  }
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  /// When it was due.
  double DueOf(int64_t id) const {
    const std::lock_guard lock(mutex_);
    const auto it = due_ms_.find(id);
    INFER_CHECK(it != due_ms_.end());
    return it->second;
  }
  void End(int64_t id) {
    const std::lock_guard lock(mutex_);
    due_ms_.erase(id);
  }
  int64_t issued() const {
    const std::lock_guard lock(mutex_);
    return issued_;
  }
  int64_t size() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(due_ms_.size());
  }
  /// Pre: nothing begins or ends any more.
  const std::unordered_map<int64_t, double>& all() const { return due_ms_; }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<int64_t, double> due_ms_;
  int64_t issued_ = 0;
  bool closed_ = false;
};

class Driver {
 public:
  Driver(Engine& engine, const LoadOptions& options)
      : engine_(engine),
        o_(options),
        start_ms_(engine.NowMs()),
        enough_ms_(start_ms_ + 1e3 * options.duration_s),
        most_ms_(start_ms_ + 1e3 * options.max_duration_s),
        schedule_(options, start_ms_),
        r_{.latency = Latencies(o_.keep),
           .waiting = Latencies(o_.keep),
           .service = Latencies(o_.keep),
           .lag = Latencies(o_.keep)} {}

  ~Driver() { EndFollowing(); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  Result<LoadResult> Run() {
    INFER_TRY(Issue());
    const double end_ms = engine_.NowMs();
    EndFollowing();
    // Answers that did not wake this thread.
    if (follows_) INFER_TRY(Take(engine_.Wait(end_ms)));
    r_.issued = in_flight_->issued();
    r_.seconds = (end_ms - start_ms_) / 1e3;
    r_.answered_in_time = r_.answered;
    r_.backlog = in_flight_->size();
    INFER_TRY(Drain(end_ms));
    CountUnanswered();
    r_.total_seconds = (engine_.NowMs() - start_ms_) / 1e3;
    const double waited_ms = r_.waiting.mean() * static_cast<double>(r_.waiting.count());
    if (r_.total_seconds > 0) r_.queue_mean = waited_ms / 1e3 / r_.total_seconds;
    // Some wait between two looks at the queue: at least one, where anybody did.
    if (r_.queue_mean > 0) r_.queue_max = std::max<int64_t>(r_.queue_max, 1);
    r_.queue_mean = std::min(r_.queue_mean, static_cast<double>(r_.queue_max));
    return std::move(r_);
  }

 private:
  bool open() const { return o_.arrivals != Arrivals::kClosed; }

  /// Behind the first queries of a closed loop: as many are in flight as shall be.
  void BeginFollowing() {
    follows_ = engine_.FollowAnswers(
        [in_flight = in_flight_, &engine = engine_, o = o_, start_ms = start_ms_] {
          const double now_ms = engine.NowMs();
          return in_flight->Follow(now_ms, [&](int64_t issued) {
            return !Ended(o, start_ms, now_ms, now_ms, issued).empty();
          });
        },
        o_.samples_per_query);
  }
  void EndFollowing() {
    in_flight_->Close();
    if (follows_) engine_.FollowAnswers({}, 0);
  }

  /// "" while queries come: those of an open loop that were due before, or `issued` of a closed
  /// one. Asked by any thread.
  static std::string Ended(const LoadOptions& o, double start_ms, double due_ms, double now_ms,
                           int64_t issued) {
    if (o.stop.stop_requested()) return "stopped";
    if (o.max_queries > 0 && issued >= o.max_queries) return "max queries";
    if (due_ms >= start_ms + 1e3 * o.duration_s && issued >= o.min_queries) return "duration";
    // A generator that does not keep up owes ever more of them.
    if (due_ms >= start_ms + 1e3 * o.max_duration_s ||
        now_ms >= start_ms + 1e3 * (o.max_duration_s + o.drain_s))
      return "max duration";
    return "";
  }
  std::string Ended(double now_ms) const {
    // Behind the duration an open loop still owes those that were due before.
    const double due_ms = open() ? std::min(now_ms, schedule_.next_ms()) : now_ms;
    return Ended(o_, start_ms_, due_ms, now_ms, in_flight_->issued());
  }

  void Submit(double due_ms, double now_ms) {
    const int64_t id = in_flight_->Begin(due_ms);
    engine_.Submit(id, o_.samples_per_query);
    if (open()) r_.lag.Add(due_ms - start_ms_, now_ms - due_ms);
    // Where answers are followed, some of those that are counted have ended.
    const int64_t in_flight =
        follows_ ? std::min(in_flight_->size(), o_.concurrency) : in_flight_->size();
    r_.queue_max = std::max(r_.queue_max, in_flight - engine_.lanes());
  }

  Status Issue() {
    for (;;) {
      const double now_ms = engine_.NowMs();
      r_.ended = Ended(now_ms);
      if (!r_.ended.empty()) break;
      double wake_ms = now_ms + kLookMs;
      if (open() && schedule_.next_ms() <= now_ms) {
        Submit(schedule_.next_ms(), now_ms);
        schedule_.Advance();
        wake_ms = now_ms;  // only a look: answers must not pile up
      } else if (open()) {
        wake_ms = std::min(wake_ms, schedule_.next_ms());
      } else if (in_flight_->size() < o_.concurrency) {
        Submit(now_ms, now_ms);
        continue;
      } else if (!asked_) {
        asked_ = true;
        BeginFollowing();
      }
      wake_ms = std::min(wake_ms, now_ms < enough_ms_ ? enough_ms_ : most_ms_);
      INFER_TRY(Take(engine_.Wait(wake_ms)));
    }
    r_.interrupted = r_.ended == "stopped";
    return {};
  }

  Status Drain(double end_ms) {
    const double until_ms = r_.interrupted ? end_ms : end_ms + 1e3 * o_.drain_s;
    while (in_flight_->size() > 0) {
      const double now_ms = engine_.NowMs();
      if (now_ms >= until_ms) break;
      INFER_TRY(Take(engine_.Wait(std::min(until_ms, now_ms + kLookMs))));
      if (!o_.stop.stop_requested()) continue;
      r_.interrupted = true;
      break;
    }
    return {};
  }

  Status Take(std::vector<Done> done) {
    for (Done& d : done) {
      const double due_ms = in_flight_->DueOf(d.id);
      // A run that a stop cut short was not answered.
      if (d.status.code() == Code::kCancelled && o_.stop.stop_requested()) continue;
      in_flight_->End(d.id);
      INFER_TRY(std::move(d.status));
      ++r_.answered;
      const double at_ms = due_ms - start_ms_;
      r_.latency.Add(at_ms, d.finished_ms - due_ms);
      r_.waiting.Add(at_ms, std::max(0.0, d.started_ms - due_ms));
      r_.service.Add(at_ms, d.finished_ms - d.started_ms);
      if (o_.observe) o_.observe(d, due_ms);
    }
    return {};
  }

  /// What was not answered took at least its age. One that is younger than most answers says
  /// nothing yet and is counted apart only.
  void CountUnanswered() {
    r_.unanswered = in_flight_->size();
    if (r_.unanswered == 0) return;
    const double now_ms = engine_.NowMs(), median_ms = r_.latency.Quantile(0.5);
    engine_.Abandon();
    for (const auto& [id, due_ms] : in_flight_->all()) {
      const double age_ms = now_ms - due_ms;
      r_.oldest_unanswered_ms = std::max(r_.oldest_unanswered_ms, age_ms);
      if (age_ms > median_ms) r_.latency.Add(due_ms - start_ms_, age_ms);
    }
  }

  Engine& engine_;
  const LoadOptions& o_;
  double start_ms_, enough_ms_, most_ms_;
  Schedule schedule_;
  LoadResult r_;
  const std::shared_ptr<InFlight> in_flight_ = std::make_shared<InFlight>();
  bool asked_ = false, follows_ = false;  // whether answers hand over the next query
};

}  // namespace

std::string_view Name(Arrivals a) {
  switch (a) {
    case Arrivals::kClosed: return "closed";
    case Arrivals::kPoisson: return "poisson";
    case Arrivals::kUniform: return "uniform";
    case Arrivals::kReplayed: return "replayed";
  }
  return "";
}

double LoadResult::offered_per_s() const {
  return seconds > 0 ? static_cast<double>(issued) / seconds : 0;
}

double LoadResult::throughput_per_s() const {
  return seconds > 0 ? static_cast<double>(answered_in_time) / seconds : 0;
}

Result<LoadResult> Drive(Engine& engine, const LoadOptions& options) {
  INFER_CHECK(options.arrivals == Arrivals::kClosed     ? options.concurrency > 0
              : options.arrivals == Arrivals::kReplayed ? !options.moments_ms->empty()
                                                        : options.rate > 0);
  return Driver(engine, options).Run();
}

}  // namespace infer::bench
