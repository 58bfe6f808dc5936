#pragma once
/// Which models go where memory is short: a value in, a decision out.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/support/status.h"

namespace infer::engine {

/// A model that is loaded, as the rules see it.
struct MemoryHolder {
  std::string model = {};
  int64_t bytes = 0;
  int64_t last_use = 0;  ///< of two the greater one was asked later
  bool may_go = false;   ///< it can be loaded again when it is asked for
};

/// Positions of the holders to unload so that `needed` bytes more are within `budget`: the longest
/// unused first, and none that need not go. ResourceExhausted, with figures: it does not fit.
Result<std::vector<size_t>> MakeRoom(int64_t budget, const std::string& model, int64_t needed,
                                     std::span<const MemoryHolder> holders);

}  // namespace infer::engine
