#include "lib/support/stop.h"

#include <utility>

namespace infer {
namespace {

thread_local const StopScope* t_scope = nullptr;

}  // namespace

StopScope::StopScope(std::stop_token token) : token_(std::move(token)), outer_(t_scope) {
  if (token_.stop_possible()) t_scope = this;
}

StopScope::~StopScope() { t_scope = outer_; }

bool StopRequested() {
  for (const StopScope* s = t_scope; s; s = s->outer_)
    if (s->token_.stop_requested()) return true;
  return false;
}

Status CheckStop() { return StopRequested() ? Cancelled("the run was stopped") : Status(); }

}  // namespace infer
