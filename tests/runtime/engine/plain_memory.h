#pragma once
/// The rules of memory, written down a second time and as plainly as possible.
#include <algorithm>
#include <map>
#include <vector>

#include "runtime/engine/executor.h"

namespace infer::engine::plain {

/// Of one model: what its runs really take.
struct Sizes {
  int64_t weights = 0;
  int64_t fixed = 0, slope = 0;    ///< of a run: fixed + slope for each element,
  int64_t steep = 0;               ///< or this for each element where that is more
  int64_t most = kNever;           ///< that the model may have
  int64_t refuses_above = kNever;  ///< runs of several requests with more rows fail for memory

  int64_t Run(int64_t rows, int64_t extent) const {
    return std::max(fixed + slope * rows * extent, steep * rows * extent);
  }
};

/// Known, held and expected bytes of all models.
class Memory {
 public:
  Memory(std::vector<Sizes> sizes, int64_t budget) : sizes_(std::move(sizes)), budget_(budget) {}

  void Add(int instances, bool batches) {
    batches_.push_back(batches);
    idle_.emplace_back();
    for (int i = 0; i < instances; ++i) idle_.back().push_back(static_cast<size_t>(i));
    held_.emplace_back(static_cast<size_t>(instances), 0);
    promised_.emplace_back(static_cast<size_t>(instances), 0);
    takes_.emplace_back(static_cast<size_t>(instances), 0);
    kinds_.emplace_back();
    peak_ = Used();
  }

  /// Rows of the next run, of at most so many. Pre: an instance is idle.
  int64_t Rows(size_t model, int64_t extent, int64_t most) const {
    const auto kind = kinds_[model].find(extent);
    const bool known = kind != kinds_[model].end();
    if (known) most = std::min(most, kind->second.limit);
    if (!Limited(model)) return most;
    if (!known || kind->second.seen.empty()) return 1;
    const int64_t room = Room(model);
    while (most > 1 && AtMost(kind->second, most) > room) --most;
    return most;
  }

  /// Returns the instance. `takes`: what the run really takes.
  size_t Begin(size_t model, int64_t extent, int64_t rows, int64_t takes, bool several) {
    const size_t instance = idle_[model].back();
    const auto kind = kinds_[model].find(extent);
    if (Limited(model) && kind != kinds_[model].end() && AtMost(kind->second, rows) <= Room(model))
      promised_[model][instance] = AtMost(kind->second, rows);
    idle_[model].pop_back();
    takes_[model][instance] = takes;
    unknown_ += IsUnknown(model, instance, several);
    // Where nothing goes on of which nothing was known, a batch never is what goes over a budget.
    if (several && unknown_ == 0 && takes > held_[model][instance])
      over_ += TrulyUsed() > budget_ || TrulyUsed(model) > sizes_[model].most ? 1 : 0;
    return instance;
  }

  /// `took`: the most of all its attempts; `ran`: rows of the first, if it succeeded; `refused`: if
  /// it was refused memory.
  void End(size_t model, size_t instance, int64_t extent, int64_t took, int64_t ran,
           int64_t ran_took, int64_t refused, bool several) {
    unknown_ -= IsUnknown(model, instance, several);
    idle_[model].push_back(instance);
    takes_[model][instance] = promised_[model][instance] = 0;
    if (refused > 0) {
      Kind& kind = kinds_[model][extent];
      kind.limit = std::min(kind.limit, std::max<int64_t>(1, refused / 2));
      refused_[model] = true;
    }
    if (ran > 0 && batches_[model] && (Limited(model) || refused_[model])) {
      int64_t& seen = kinds_[model][extent].seen[ran];
      seen = std::max(seen, ran_took);
    }
    if (!Limited(model)) return;
    held_[model][instance] = std::max(held_[model][instance], took);
    peak_ = std::max(peak_, Used());
  }

  int64_t peak() const { return peak_; }
  int64_t Used() const {
    int64_t used = 0;
    for (size_t m = 0; m < held_.size(); ++m) used += Used(m);
    return used;
  }
  int64_t over() const { return over_; }  ///< batches that went beyond a budget

 private:
  /// Requests of one extent.
  struct Kind {
    std::map<int64_t, int64_t> seen = {};  // rows -> bytes
    int64_t limit = kNever;
  };

  bool Limited(size_t model) const { return budget_ != kNever || sizes_[model].most != kNever; }
  /// A request alone, which takes more than anybody expects.
  int64_t IsUnknown(size_t m, size_t i, bool several) const {
    return !several && takes_[m][i] > std::max(promised_[m][i], held_[m][i]) ? 1 : 0;
  }
  int64_t Used(size_t m) const {
    int64_t used = sizes_[m].weights;
    for (size_t i = 0; i < held_[m].size(); ++i) used += std::max(held_[m][i], promised_[m][i]);
    return used;
  }
  int64_t TrulyUsed(size_t m) const {
    int64_t used = sizes_[m].weights;
    for (size_t i = 0; i < held_[m].size(); ++i) used += std::max(held_[m][i], takes_[m][i]);
    return used;
  }
  int64_t TrulyUsed() const {
    int64_t used = 0;
    for (size_t m = 0; m < held_.size(); ++m) used += TrulyUsed(m);
    return used;
  }
  int64_t Room(size_t model) const {
    const int64_t held = held_[model][idle_[model].back()];
    int64_t room = kNever;
    if (budget_ != kNever) room = budget_ - Used() + held;
    if (sizes_[model].most != kNever)
      room = std::min(room, sizes_[model].most - Used(model) + held);
    return std::max(room, held);
  }
  /// The least of all that what was seen says of the most.
  static int64_t AtMost(const Kind& kind, int64_t rows) {
    const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
    int64_t least = kind.seen.empty() ? 0 : kNever;
    for (const auto& [r, bytes] : kind.seen) {
      if (r >= rows) least = std::min(least, bytes);
      if (r > rows) continue;
      least = std::min(least, up(bytes * rows, r));
      for (const auto& [more, bytes_of_more] : kind.seen)
        if (more > rows)
          least = std::min(least, bytes + up((bytes_of_more - bytes) * (rows - r), more - r));
    }
    return least;
  }

  std::vector<Sizes> sizes_;
  int64_t budget_;
  std::vector<bool> batches_;
  std::vector<std::vector<size_t>> idle_;  // the one that ran last is the last
  std::vector<std::vector<int64_t>> held_, promised_, takes_;
  std::vector<std::map<int64_t, Kind>> kinds_;  // by extent
  std::map<size_t, bool> refused_;
  int64_t peak_ = 0, unknown_ = 0, over_ = 0;
};

}  // namespace infer::engine::plain
