#pragma once
/// The caller's own metric as a judge of candidates (infer_evaluate).
#include <limits>
#include <string>

#include "runtime/c_api/handles.h"

namespace infer::c_api {

class Judge {
 public:
  Judge(infer_evaluate evaluate, void* user, double max_drop, const char* device, int32_t threads)
      : evaluate_(evaluate), user_(user), max_drop_(max_drop) {
    session_.device = device;
    session_.threads = threads;
  }
  /// Whether there is a metric; else every candidate is taken.
  bool wanted() const { return evaluate_ != nullptr; }
  /// Measures the model as it came. InvalidArgument: max_drop makes no sense.
  Status Begin(const Graph& golden);
  /// Whether the candidate may be taken; measured fused, as it will run.
  Result<bool> Takes(const std::string& name, const Graph& candidate);
  /// Each candidate with its metric, once none was taken.
  Status Refusal() const;
  /// NaN: not measured.
  double golden() const { return golden_; }
  double candidate() const { return candidate_; }

 private:
  /// `of`: for people.
  Result<double> Measure(const std::string& of, Graph graph);

  infer_evaluate evaluate_;
  void* user_;
  double max_drop_;
  infer_session_options session_ = {};
  double golden_ = std::numeric_limits<double>::quiet_NaN();
  double candidate_ = std::numeric_limits<double>::quiet_NaN();
  std::string refused_;
};

/// The code of `body(refused)`, which fails with INFER_GATE where it sets `refused`.
template <typename F>
infer_code GuardedByGate(F body) noexcept {
  bool refused = false;
  const infer_code code = Guarded([&] { return body(refused); });
  return refused ? INFER_GATE : code;
}

}  // namespace infer::c_api
