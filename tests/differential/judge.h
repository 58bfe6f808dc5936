#pragma once
/// One model on every backend, level and number of threads, as it came, fused, and written and read
/// again: all must give the same answer or refuse alike. The reference backend is the judge.
#include <span>
#include <string>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

struct JudgeOptions {
  std::vector<int> levels = {0, 1, 2};
  std::vector<int> threads = {1, 2};  ///< the same bits with each
  bool fuse = true;                   ///< also what `fuse` makes of it, and that file read again
  double seconds = 5;                 ///< a run is stopped then, and counts as out of resources
};

struct Verdict {
  enum Kind {
    kAgree,
    kRefused,    ///< by all, for the same reason
    kRounding,   ///< differs by no more than a little noise on the inputs changes the reference
    kExhausted,  ///< out of memory or time somewhere
    kDiffer,
  };
  Kind kind = kAgree;
  std::string what;  ///< the refusal or the difference
};

Verdict Judge(const Graph& g, std::span<const Datum> inputs, const JudgeOptions& options = {});

}  // namespace infer
