#pragma once
/// A training run in a file: taken up again after an interruption with the bits that it would have
/// had without.
#include <optional>
#include <string>
#include <vector>

#include "lib/tensor/tensor.h"
#include "quant/train/adam.h"

namespace infer {

struct TrainingPoint {
  int64_t step = 0;          ///< steps done
  double loss = 0;           ///< of the training steps since the last point that is reported
  std::vector<double> seen;  ///< step, training loss, held-out loss, by point
  int64_t best_step = 0;
  double best_loss = 0;  ///< held-out
};

struct TrainingState {
  TrainingPoint at;
  std::vector<Tensor> weights, best;
  std::vector<AdamState> adam;
};

/// Restores `state`, whose tensors have the extents of this run, from `path`. False: there is no
/// such file, or it is of another run: `key` stands for model, data, options and build.
/// InvalidArgument: the file is no such checkpoint, or is damaged.
Result<bool> ReadCheckpoint(const std::string& path, const std::string& key, TrainingState& state);
/// The old file or the complete new one, whatever interrupts.
Status WriteCheckpoint(const std::string& path, const std::string& key, const TrainingState& state);

}  // namespace infer
