#include "quant/recipe/subset_search.h"

#include <algorithm>
#include <numeric>

namespace infer {
namespace {

constexpr int kMostRefused = 12;

class SubsetSearcher {
 public:
  SubsetSearcher(const std::vector<double>& gain, const SubsetError& error,
                 const SubsetOptions& options)
      : gain_(gain), error_(error), options_(options) {
    result_.in.assign(gain.size(), false);
    result_.alone.assign(gain.size(), 0);
  }

  Result<SubsetResult> Run() {
    std::vector<size_t> all(gain_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    INFER_ASSIGN(result_.alone, Rank(all));
    INFER_TRY(AddInOrder(std::move(all), result_.alone));
    for (int round = 0; round < options_.rounds && result_.reached && !OutOfTime(); ++round) {
      std::vector<size_t> out;
      for (size_t i = 0; i < gain_.size(); ++i)
        if (!result_.in[i]) out.push_back(i);
      if (out.empty()) break;
      INFER_ASSIGN(const std::vector<double> noise, Rank(out));
      const std::vector<bool> before = result_.in;
      INFER_TRY(AddInOrder(std::move(out), noise));
      if (result_.in == before) break;
    }
    if (!result_.reached) {
      INFER_ASSIGN(result_.error, error_(result_.in, 0));
      result_.reached = options_.accept(result_.error);
    }
    return std::move(result_);
  }

 private:
  bool OutOfTime() const { return options_.out_of_time && options_.out_of_time(); }

  void Tell(size_t done, size_t total) const {
    if (options_.progress)
      options_.progress(static_cast<int64_t>(done), static_cast<int64_t>(total));
  }

  /// By change: the noise when one of `which` joins those that are made. Those that time does not
  /// reach count as the worst.
  Result<std::vector<double>> Rank(const std::vector<size_t>& which) {
    std::vector<double> noise(gain_.size(), 0);
    double most = 0;
    size_t at = 0;
    for (; at < which.size() && !OutOfTime(); ++at) {
      std::vector<bool> in = result_.in;
      in[which[at]] = true;
      INFER_ASSIGN(const HeldOutError e, error_(in, options_.ranking_samples));
      noise[which[at]] = e.worst;
      most = std::max(most, e.worst);
      Tell(at + 1, which.size());
    }
    if (at < which.size()) Tell(which.size(), which.size());
    for (; at < which.size(); ++at) noise[which[at]] = most;
    return noise;
  }

  /// Makes changes, least noise per gain first. A change that is not accepted is left out and those
  /// behind it are tried further, until kMostRefused of them were refused.
  Status AddInOrder(std::vector<size_t> order, const std::vector<double>& noise) {
    double least = 0;  // beside changes that are made, only what a change adds is its own
    const bool beside = std::any_of(result_.in.begin(), result_.in.end(), [](bool b) { return b; });
    if (beside && !order.empty())
      least = noise[*std::min_element(order.begin(), order.end(),
                                      [&](size_t a, size_t b) { return noise[a] < noise[b]; })];
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return (noise[a] - least) * gain_[b] < (noise[b] - least) * gain_[a];
    });
    size_t at = 0, step = order.size();
    // `fails`: a run of so many from `at` on is known to be refused.
    size_t fails = order.size() + 1;
    for (int refused = 0; at < order.size() && refused < kMostRefused && !OutOfTime();) {
      step = std::min(step, order.size() - at);
      std::vector<bool> in = result_.in;
      for (size_t i = 0; i < step; ++i) in[order[at + i]] = true;
      INFER_ASSIGN(HeldOutError e, error_(in, 0));
      if (options_.accept(e)) {
        result_.in = std::move(in);
        result_.error = std::move(e);
        result_.reached = true;
        at += step;
        fails = fails > order.size() ? fails : fails - step;
        // Within a run that was refused by halves, beyond it by doubling.
        step = fails > order.size() ? step * 2 : std::max<size_t>(1, fails / 2);
      } else if (step > 1) {
        fails = step;
        step /= 2;
      } else {
        ++refused;
        ++at;
        fails = order.size() + 1;
        step = 1;
      }
      if (fails == 1 && at < order.size()) {  // the one that broke the run
        ++refused;
        ++at;
        fails = order.size() + 1;
        step = 1;
      }
    }
    return {};
  }

  const std::vector<double>& gain_;
  const SubsetError& error_;
  const SubsetOptions& options_;
  SubsetResult result_;
};

}  // namespace

Result<SubsetResult> SearchSubset(const std::vector<double>& gain, const SubsetError& error,
                                  const SubsetOptions& options) {
  return SubsetSearcher(gain, error, options).Run();
}

}  // namespace infer
