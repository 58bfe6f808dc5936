#pragma once
/// Raw samples: every timed run with the moment it began. Nothing is ever dropped from them.
#include <cstddef>
#include <vector>

namespace infer::bench {

struct RunSamples {
  std::vector<double> ms;      ///< durations, in the order of the runs
  std::vector<double> at_ms;   ///< when each began, since the first; of a load: when it was due
  std::vector<double> cpu_ms;  ///< processor time of the process meanwhile; empty: not taken
  size_t size() const { return ms.size(); }
  bool empty() const { return ms.empty(); }
  void Reserve(size_t n) {
    ms.reserve(n);
    at_ms.reserve(n);
  }
  void Add(double at, double duration) {
    at_ms.push_back(at);
    ms.push_back(duration);
  }
};

}  // namespace infer::bench
