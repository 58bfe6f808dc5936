#pragma once
/// Which of many small changes to make together so that an error stays within a limit and as much
/// as possible is gained. Errors of single changes order them; what is decided is always measured
/// on all of them together.
#include <functional>
#include <vector>

#include "quant/recipe/held_out.h"

namespace infer {

/// `in[i]`: change i is made. `samples`: on the first so many; 0: on all.
using SubsetError =
    std::function<Result<HeldOutError>(const std::vector<bool>& in, int64_t samples)>;

struct SubsetOptions {
  int64_t ranking_samples = 8;
  int rounds = 2;  ///< in which changes that were left out are tried again, beside those made
  std::function<bool(const HeldOutError&)> accept;  ///< of all samples
  std::function<bool()> out_of_time = nullptr;
  /// Told after each change that was measured alone; of a round all, at last (total, total).
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
};
struct SubsetResult {
  std::vector<bool> in;
  std::vector<double> alone;  ///< noise of the worst output with this change alone
  HeldOutError error;         ///< with `in`; where not even none is accepted, with none
  bool reached = false;       ///< `error` is accepted
};

/// First every change alone: in the order of noise per gain those are made that are accepted (runs
/// of them, by halving). Then rounds: every change that was left out beside those that are made,
/// and again. Pre: gain[i] > 0.
Result<SubsetResult> SearchSubset(const std::vector<double>& gain, const SubsetError& error,
                                  const SubsetOptions& options);

}  // namespace infer
