#pragma once
/// The rules of the engine, written down a second time and as plainly as possible: lists that are
/// searched, and all decisions made anew whenever something happens.
#include <algorithm>
#include <functional>
#include <vector>

#include "runtime/engine/engine.h"
#include "tests/runtime/engine/plain_memory.h"

namespace infer::engine::plain {

struct Model {
  int instances = 1;
  int64_t max_requests = 1, max_bytes = 1, max_rows = 1, max_delay_ns = 0;
  std::vector<int64_t> buckets = {};  ///< extents, ascending
  Sizes sizes = {};

  /// The extent of a request of extent `length` in a run that is padded.
  int64_t Extent(int64_t length) const {
    for (int64_t b : buckets)
      if (b >= length) return b;
    return length;
  }
};

struct Arrival {
  int64_t at_ns = 0, cancel_ns = kNever, deadline_ns = kNever;
  size_t model = 0;
  int64_t shape = 0, rows = 1, bytes = 0;
  int priority = 0;
};

struct End {
  State how = State::kQueued;
  int64_t at_ns = -1;
  int64_t rows = 0;  ///< of the run that succeeded
  bool operator==(const End&) const = default;
};

/// Of a run of these requests (positions among the arrivals): how long it takes, whether it fails.
struct RunFacts {
  int64_t ns = 0;
  bool fails = false;
  bool for_memory = false;  ///< that is why
};
using RunOf = std::function<RunFacts(const std::vector<size_t>& requests)>;

class Engine {
 public:
  Engine(std::vector<Model> models, std::vector<Arrival> arrivals, int width, int64_t ageing_ns,
         int64_t budget, RunOf run_of)
      : models_(std::move(models)),
        arrivals_(std::move(arrivals)),
        width_(width),
        ageing_ns_(ageing_ns),
        run_of_(std::move(run_of)),
        ends_(arrivals_.size()),
        arrived_(arrivals_.size(), false),
        late_(arrivals_.size(), kNever),
        expected_(models_.size(), 0),
        memory_(SizesOf(models_), budget),
        by_memory_(models_.size()) {
    for (const Model& m : models_) memory_.Add(m.instances, m.max_rows > 1);
  }

  std::vector<End> Run() {
    for (int64_t now = Next(); now != kNever; now = Next()) {
      now_ = now;
      for (size_t i = 0; i < arrivals_.size(); ++i)
        if (arrivals_[i].at_ns == now) Arrive(i);
      for (size_t i = 0; i < arrivals_.size(); ++i) {
        if (!arrived_[i] || IsEnd(ends_[i].how)) continue;
        if (arrivals_[i].deadline_ns == now) Finish(i, State::kTimedOut);
        if (arrivals_[i].cancel_ns == now) Finish(i, State::kCancelled);
      }
      const auto over =
          std::find_if(runs_.begin(), runs_.end(), [&](const Going& g) { return g.end_ns == now; });
      if (over != runs_.end()) Ended(static_cast<size_t>(over - runs_.begin()));
      while (Begin()) {
      }
    }
    return ends_;
  }

  const Memory& memory() const { return memory_; }
  /// By model: batches that began, and requests that ran alone, since there was no more memory.
  struct ByMemory {
    int64_t fired = 0, single = 0;
  };
  const std::vector<ByMemory>& by_memory() const { return by_memory_; }

 private:
  struct Given {
    size_t who;
    State how;
    int64_t rows;
  };
  struct Going {
    size_t model;
    std::vector<size_t> all;  // of the batch
    size_t instance = 0;
    int64_t took = 0;                            // the most of its attempts
    int64_t ran = 0, ran_took = 0, refused = 0;  // of the first
    std::vector<size_t> tried{};                 // in the run that goes on
    std::vector<size_t> alone{};                 // that are still to be run again
    int64_t end_ns = 0, rows = 0;
    int64_t first_ns = 0;  // what the first run takes; 0: none yet
    bool fails = false, for_memory = false, again = false;
    std::vector<Given> given{};
  };

  int64_t Next() const {
    int64_t next = kNever;
    const auto look = [&](int64_t at) {
      if (at > now_ && at < next) next = at;
    };
    for (size_t i = 0; i < arrivals_.size(); ++i) {
      if (!arrived_[i]) look(arrivals_[i].at_ns);
      if (!arrived_[i] || IsEnd(ends_[i].how)) continue;
      look(arrivals_[i].deadline_ns);
      look(arrivals_[i].cancel_ns);
      if (Free(arrivals_[i].model) && arrivals_[i].priority < OpenLevels())
        look(BeginsAt(arrivals_[i].model, Extent(i)));
    }
    for (const Going& g : runs_) look(g.end_ns);
    return next;
  }

  /// Requests of one extent share runs.
  int64_t Extent(size_t i) const {
    return models_[arrivals_[i].model].Extent(arrivals_[i].shape + 1);
  }
  static std::vector<Sizes> SizesOf(const std::vector<Model>& models) {
    std::vector<Sizes> all;
    for (const Model& m : models) all.push_back(m.sizes);
    return all;
  }
  int64_t MostRows(size_t model, int64_t extent) const {
    return memory_.Rows(model, extent, models_[model].max_rows);
  }

  bool IsPadded(size_t i) const { return Extent(i) != arrivals_[i].shape + 1; }

  bool Waits(size_t i) const { return arrived_[i] && ends_[i].how == State::kQueued && !InRun(i); }
  bool InRun(size_t i) const {
    return std::any_of(runs_.begin(), runs_.end(), [&](const Going& g) {
      return std::find(g.all.begin(), g.all.end(), i) != g.all.end();
    });
  }
  bool Free(size_t model) const {
    return std::count_if(runs_.begin(), runs_.end(), [&](const Going& g) {
             return g.model == model;
           }) < models_[model].instances;
  }

  void Arrive(size_t i) {
    const Arrival& a = arrivals_[i];
    int64_t requests = 0, bytes = 0;
    for (size_t k = 0; k < arrivals_.size(); ++k)
      if (Waits(k) && arrivals_[k].model == a.model) {
        ++requests;
        bytes += arrivals_[k].bytes;
      }
    arrived_[i] = true;
    if (a.deadline_ns != kNever && expected_[a.model] > 0)
      late_[i] = a.deadline_ns - expected_[a.model] * 3 / 2;
    const Model& m = models_[a.model];
    if (requests >= m.max_requests || (requests > 0 && bytes + a.bytes > m.max_bytes))
      Finish(i, State::kRejected);
  }

  void Finish(size_t i, State how) {
    if (!IsEnd(ends_[i].how)) ends_[i] = {how, now_, 0};
  }

  /// When those that wait for `model` with this extent may begin.
  int64_t BeginsAt(size_t model, int64_t extent) const {
    int64_t rows = 0, oldest = kNever, deadline = kNever;
    bool high = false;
    for (size_t i = 0; i < arrivals_.size(); ++i) {
      const Arrival& a = arrivals_[i];
      if (!Waits(i) || a.model != model || Extent(i) != extent) continue;
      rows += a.rows;
      oldest = std::min(oldest, a.at_ns);
      deadline = std::min(deadline, a.deadline_ns);
      high |= a.priority == 0;
    }
    if (rows == 0) return kNever;
    if (rows >= MostRows(model, extent) || high) return 0;
    const int64_t waited = oldest + models_[model].max_delay_ns;
    if (deadline == kNever) return waited;
    return expected_[model] == 0 ? 0 : std::min(waited, deadline - 2 * expected_[model]);
  }

  int64_t Key(size_t i) const {
    const Arrival& a = arrivals_[i];
    return (now_ > late_[i] ? a.deadline_ns : a.at_ns) + a.priority * ageing_ns_;
  }

  /// A run may begin while fewer than `width` runs go on that are as urgent or more.
  int OpenLevels() const {
    for (int level = 0; level < static_cast<int>(kPriorities); ++level) {
      const auto as_urgent = std::count_if(runs_.begin(), runs_.end(), [&](const Going& g) {
        return std::any_of(g.all.begin(), g.all.end(),
                           [&](size_t i) { return arrivals_[i].priority <= level; });
      });
      if (as_urgent >= width_) return level;
    }
    return static_cast<int>(kPriorities);
  }

  bool Begin() {
    std::vector<size_t> waiting;
    for (size_t i = 0; i < arrivals_.size(); ++i)
      if (Waits(i) && arrivals_[i].priority < OpenLevels()) waiting.push_back(i);
    std::sort(waiting.begin(), waiting.end(),
              [&](size_t a, size_t b) { return std::pair(Key(a), a) < std::pair(Key(b), b); });
    for (size_t first : waiting) {
      const Arrival& f = arrivals_[first];
      if (!Free(f.model) || BeginsAt(f.model, Extent(first)) > now_) continue;
      std::vector<size_t> batch;
      int64_t rows = 0, waiting_rows = 0, alike = 0;
      const int64_t extent = Extent(first), most = MostRows(f.model, extent);
      for (size_t i = 0; i < arrivals_.size(); ++i)
        if (Waits(i) && arrivals_[i].model == f.model && Extent(i) == extent) {
          ++alike;
          waiting_rows += arrivals_[i].rows;
        }
      for (size_t i : waiting) {
        const Arrival& a = arrivals_[i];
        if (a.model != f.model || Extent(i) != extent) continue;
        if (!batch.empty() && rows + a.rows > most) break;
        batch.push_back(i);
        rows += a.rows;
      }
      if (most < models_[f.model].max_rows) {
        by_memory_[f.model].fired += waiting_rows >= most ? 1 : 0;
        by_memory_[f.model].single += batch.size() == 1 && alike > 1 ? 1 : 0;
      }
      runs_.push_back({.model = f.model, .all = batch});
      runs_.back().instance = memory_.Begin(
          f.model, extent, rows, models_[f.model].sizes.Run(rows, extent), batch.size() > 1);
      Try(runs_.back(), std::move(batch));
      return true;
    }
    return false;
  }

  void Try(Going& g, std::vector<size_t> requests) {
    const RunFacts facts = run_of_(requests);
    g.end_ns = now_ + facts.ns;
    if (g.first_ns == 0) g.first_ns = facts.ns;
    g.fails = facts.fails;
    g.for_memory = facts.for_memory;
    g.rows = 0;
    for (size_t i : requests) g.rows += arrivals_[i].rows;
    // Who is run again is not padded.
    const int64_t extent = g.again ? arrivals_[requests[0]].shape + 1 : Extent(requests[0]);
    const int64_t takes = models_[g.model].sizes.Run(g.rows, extent);
    g.took = std::max(g.took, takes);
    if (!g.again && !g.fails) g.ran = g.rows, g.ran_took = takes;
    if (!g.again && g.for_memory) g.refused = g.rows;
    g.tried = std::move(requests);
  }

  void Ended(size_t b) {
    Going& g = runs_[b];
    const auto open = [&](size_t i) { return !IsEnd(ends_[i].how); };
    // Also a padded one alone, as it is.
    if (!g.again && g.fails &&
        (g.tried.size() > 1 ||
         std::any_of(g.tried.begin(), g.tried.end(), [&](size_t i) { return IsPadded(i); })))
      std::copy_if(g.tried.begin(), g.tried.end(), std::back_inserter(g.alone), open);
    else
      for (size_t i : g.tried)
        g.given.push_back({i, g.fails ? State::kFailed : State::kSucceeded, g.rows});
    g.again = true;
    while (!g.alone.empty() && !open(g.alone.front())) g.alone.erase(g.alone.begin());
    if (!g.alone.empty()) {
      const size_t next = g.alone.front();
      g.alone.erase(g.alone.begin());
      return Try(g, {next});
    }
    // A batch ends as a whole, with those that were run again.
    for (const Given& given : g.given)
      if (open(given.who))
        ends_[given.who] = {given.how, now_, given.how == State::kSucceeded ? given.rows : 0};
    int64_t& expected = expected_[g.model];
    expected += expected == 0 ? g.first_ns : (g.first_ns - expected) / 8;
    memory_.End(g.model, g.instance, Extent(g.all[0]), g.took, g.ran, g.ran_took, g.refused,
                g.all.size() > 1);
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(b));
  }

  std::vector<Model> models_;
  std::vector<Arrival> arrivals_;
  int width_;
  int64_t ageing_ns_;
  RunOf run_of_;
  std::vector<End> ends_;
  std::vector<bool> arrived_;
  std::vector<int64_t> late_;      // from when on a run would hardly end in time
  std::vector<int64_t> expected_;  // what a run of each model takes
  std::vector<Going> runs_;
  Memory memory_;
  std::vector<ByMemory> by_memory_;
  int64_t now_ = -1;
};

}  // namespace infer::engine::plain
