#pragma once
/// One route as it goes: which variant is next, and what became of those before. No threads, no
/// clock, no engine: loads and moments are handed in. Not thread-safe.
#include <map>
#include <span>
#include <unordered_set>

#include "runtime/engine/answers.h"
#include "runtime/engine/route.h"

namespace infer::engine {

class RouteState {
 public:
  /// Pre: Check(policy).
  RouteState(std::string name, RoutePolicy policy, int64_t generation, int64_t now_ns);
  const std::string& name() const { return name_; }
  int64_t generation() const { return generation_; }
  const RoutePolicy& policy() const { return policy_; }
  const std::string& model(size_t variant) const { return policy_.variants[variant].model; }

  struct Picked {
    std::optional<size_t> variant;
    std::string why;  ///< that there is none
  };
  /// `loads`: of the variants, in their order.
  Picked Pick(const Request& request, std::span<const ModelLoad> loads, int64_t now_ns);
  /// Of a cascade: who is asked behind `variant`.
  std::optional<size_t> Next(size_t variant, std::span<const ModelLoad> loads,
                             int64_t now_ns) const;
  /// Of a shadow route: the variants that are sent a copy of the next request.
  std::vector<size_t> Copies(std::span<const ModelLoad> loads, int64_t now_ns);

  /// A request on its way to a variant, or a copy.
  struct Sent {
    int64_t id = 0;
    size_t variant = 0;
    bool probe = false;
  };
  Sent Send(size_t variant, int64_t now_ns);
  void Ended(const Sent& sent, const Outcome& outcome, int64_t now_ns);
  void Reject() { ++rejected_; }
  void GaveUp() { ++gave_up_; }
  void Unsure(size_t variant, bool readable);
  void Compared(const Difference& d);
  /// False: there is no such variant.
  bool Label(const std::string& model, bool good);

  RouteStats Stats(std::span<const ModelLoad> loads, int64_t now_ns);

 private:
  /// One variant.
  struct Arm {
    Breaker breaker = {};
    VariantStats stats = {};
    // Since the last judgement of a canary.
    int64_t requests = 0, errors = 0, opened = 0;
    Histogram recent_ns = {};
    std::map<int64_t, int64_t> open = {};  // of the canary: id -> when it came
  };
  std::vector<Variant> Variants(std::span<const ModelLoad> loads, int64_t now_ns) const;
  bool Ready(size_t variant, const ModelLoad& load, int64_t now_ns) const;
  Picked PickCanary(std::vector<Variant> variants, const CanaryRoute& mode, const std::string& key);
  Picked PickByDevice(std::vector<Variant> variants, const std::string& device);
  Picked PickInTime(const std::vector<Variant>& variants, const SloRoute& mode, int64_t timeout_ns);
  void JudgeIfDue(int64_t now_ns);
  void CountShare(const Picked& picked, const std::string& key);
  double ShareOf(size_t variant) const;
  const CanaryRoute* canary() const { return std::get_if<CanaryRoute>(&policy_.mode); }

  std::string name_;
  RoutePolicy policy_;
  int64_t generation_;
  std::vector<Arm> arms_;
  Random random_;
  Canary canary_;
  int64_t judge_ns_;  // the next judgement
  std::optional<Experiment> experiment_;
  std::unordered_set<uint64_t> counted_;  // hashes of keys whose share was counted
  ShadowStats shadow_;
  int64_t sent_ = 0, submitted_ = 0, rejected_ = 0, gave_up_ = 0, late_ = 0;
};

}  // namespace infer::engine
