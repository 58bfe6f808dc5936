#pragma once
/// Sequences of a stateful model: outputs of a step that are inputs of the next. The state is the
/// engine's: contexts keep none between runs, so that any instance runs any step, and steps of
/// several sequences share runs as other requests do.
#include <deque>
#include <memory>

#include "lib/tensor/datum.h"
#include "runtime/engine/executor.h"

namespace infer::engine {

class Pending;

/// An output that is an input of the next step.
struct StatePair {
  size_t input = 0, output = 0;  ///< positions among those of the model
  /// Of the first step; none: zeros, with extents that the model leaves open as the first step's
  /// inputs have them, and 0 where none has.
  Tensor initial = {};
};

struct StateRules {
  /// Empty: the model keeps no state. Requests then have the other inputs only, in their order, and
  /// answers the other outputs.
  std::vector<StatePair> pairs = {};
  int64_t idle_ns = 60'000'000'000;  ///< a sequence without a step for so long is forgotten
  int64_t max_sequences = 1024;
};

/// One sequence as its version holds it; guarded by the engine's mutex.
struct Sequence {
  std::vector<Datum> state = {};                      ///< as StateRules::pairs
  Pending* step = nullptr;                            ///< that is queued or runs
  std::deque<std::shared_ptr<Pending>> waiting = {};  ///< behind it
  int64_t idle_at_ns = kNever;                        ///< when it is forgotten
};

}  // namespace infer::engine
