#pragma once
/// Faults on purpose: a program whose contexts fail, throw or stand still now and then, as a plan
/// says, to see what an engine makes of it. The n-th visit to a site meets the same faults for the
/// same plan, whatever threads do; in virtual time (runtime/engine/simulation.h) the same request
/// meets them, too.
#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>
#include <vector>

#include "runtime/api/program.h"

namespace infer::engine {

enum class FaultSite : uint8_t {
  kLoad,    ///< a context is made: a load, a hot swap
  kBind,    ///< an input is bound
  kRun,     ///< before a run
  kAnswer,  ///< behind a run that succeeded
};
inline constexpr size_t kFaultSites = 4;
std::string_view Name(FaultSite s);

enum class FaultKind : uint8_t {
  kFail,   ///< Internal
  kThrow,  ///< std::runtime_error
  kDelay,  ///< the visit takes `delay_ns` longer
};
inline constexpr size_t kFaultKinds = 3;
std::string_view Name(FaultKind k);

struct Fault {
  FaultSite site = FaultSite::kRun;
  FaultKind kind = FaultKind::kFail;
  double rate = 0;       ///< of the visits to the site, 0 to 1
  int64_t delay_ns = 0;  ///< of kDelay, above 0; else 0
};

/// Each fault is drawn for itself; of several that meet one visit, delays come first, and the first
/// of the others ends it.
struct FaultPlan {
  std::vector<Fault> faults = {};
  uint64_t seed = 0;
};

struct FaultCount {
  Fault fault;
  int64_t visits = 0;  ///< to its site
  int64_t met = 0;     ///< of them
};

/// Thread-safe.
class FaultInjector {
 public:
  /// Lets so many nanoseconds pass, fewer once a stop is asked for.
  using Wait = std::function<void(int64_t ns, const std::stop_token& stop)>;

  /// `wait`: none: sleeps. InvalidArgument: a rate or a delay out of range.
  static Result<std::shared_ptr<FaultInjector>> Make(FaultPlan plan, Wait wait = {});

  /// Before Begin nothing happens, and visits do not count: models load and warm in peace.
  void Begin() { began_.store(true, std::memory_order_relaxed); }
  /// Cancelled where a stop ended a delay. Throws what the plan throws.
  Status Visit(FaultSite site, const std::stop_token& stop = {});
  /// As the plan has them.
  std::vector<FaultCount> Counts() const;

 private:
  FaultInjector(FaultPlan plan, Wait wait);
  bool Meets(size_t fault, int64_t visit) const;

  FaultPlan plan_;
  Wait wait_;
  std::atomic<bool> began_{false};
  std::array<std::atomic<int64_t>, kFaultSites> visits_ = {};
  std::vector<std::atomic<int64_t>> met_;  // as plan_.faults
};

/// `program`, whose contexts visit the injector. Its numbers are untouched.
std::shared_ptr<const Program> WithFaults(std::shared_ptr<const Program> program,
                                          std::shared_ptr<FaultInjector> injector);

}  // namespace infer::engine
