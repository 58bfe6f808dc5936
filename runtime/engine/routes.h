#pragma once
/// Routes of an engine: requests by a route's name go to one of its variants, copies to shadows,
/// unsure answers on to the next of a cascade. Decisions are route_state.h's. Thread-safe.
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/engine/core.h"
#include "runtime/engine/route_state.h"

namespace infer::engine {

class Routes : public std::enable_shared_from_this<Routes> {
 public:
  explicit Routes(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  Status Set(const std::string& name, RoutePolicy policy);
  Status Remove(const std::string& name);
  /// InvalidArgument: a route has the name.
  Status CheckName(const std::string& name) const;
  /// Whether the model may be loaded under the name: besides CheckName, a variant of a route is
  /// warm and like the others.
  Status CheckVersion(const std::string& name, const Program* program,
                      const ModelOptions& options) const;
  /// A name that is no route's is a model's. `entry`: of the first variant.
  void Submit(Request request, Callback callback, Entry entry);
  Status RecordOutcome(const Ticket& ticket, bool good);
  std::vector<RouteStats> Stats();

 private:
  struct Flight;
  struct Pair;
  using RoutePtr = std::shared_ptr<RouteState>;  // guarded by the mutex

  RoutePtr Find(const std::string& name) const;
  std::vector<ModelLoad> LoadsOf(const RouteState& route, const std::string& sequence = {}) const;
  void Send(const std::shared_ptr<Flight>& flight, size_t variant, Entry entry);
  void Ended(const std::shared_ptr<Flight>& flight, const RouteState::Sent& sent, Outcome o);
  bool GoesOn(const std::shared_ptr<Flight>& flight, const RouteState::Sent& sent, Outcome& o);
  void SendCopy(const RoutePtr& route, const std::shared_ptr<Pair>& pair, Request copy,
                size_t variant);
  void PartEnded(const RoutePtr& route, const std::shared_ptr<Pair>& pair, bool copy,
                 const Outcome& o);
  Status SetShadows(const RoutePolicy& policy, bool shadow);

  const std::shared_ptr<Core> core_;
  std::mutex setting_;  // one route at a time is set or removed
  mutable std::mutex mutex_;
  std::map<std::string, RoutePtr> routes_;
  std::atomic<bool> any_{false};  // routes_ is not empty: for those who look without the mutex
  int64_t generations_ = 0;
};

}  // namespace infer::engine
