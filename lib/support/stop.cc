#include "lib/support/stop.h"

#include <algorithm>
#include <utility>

namespace infer {
namespace {

thread_local const StopScope* t_scope = nullptr;
thread_local bool t_stoppable_loops = false;

}  // namespace

StopScope::StopScope(std::stop_token token, Deadline deadline)
    : token_(std::move(token)), deadline_(deadline), outer_(t_scope) {
  if (token_.stop_possible() || deadline_ != kNoDeadline) t_scope = this;
}

StopScope::~StopScope() { t_scope = outer_; }

bool StopScope::Late() const {
  return deadline_ != kNoDeadline && std::chrono::steady_clock::now() >= deadline_;
}

bool StopRequested() {
  for (const StopScope* s = t_scope; s; s = s->outer_)
    if (s->Asks()) return true;
  return false;
}

Status CheckStop() {
  for (const StopScope* s = t_scope; s; s = s->outer_)
    if (s->Asks())
      return Cancelled(s->token_.stop_requested() ? "the run was stopped"
                                                  : "the run has reached its deadline");
  return {};
}

const StopScope* StopScopes() { return t_scope; }

StopScopesOf::StopScopesOf(const StopScope* scopes) : before_(std::exchange(t_scope, scopes)) {}
StopScopesOf::~StopScopesOf() { t_scope = before_; }

StopWait::StopWait(const std::function<void()>& wake) {
  for (const StopScope* s = t_scope; s; s = s->outer_) {
    deadline_ = std::min(deadline_, s->deadline_);
    if (s->token_.stop_possible()) callbacks_.emplace_back(s->token_, wake);
  }
}

StoppableLoops::StoppableLoops() : before_(std::exchange(t_stoppable_loops, true)) {}
StoppableLoops::~StoppableLoops() { t_stoppable_loops = before_; }

bool LoopsLookForStops() { return t_stoppable_loops && t_scope; }

}  // namespace infer
