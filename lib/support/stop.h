#pragma once
/// Stop tokens by thread: what runs deep inside (the iterations of a loop, the nodes of a body)
/// sees the token of the run that it belongs to without being handed it.
#include <stop_token>

#include "lib/support/status.h"

namespace infer {

/// While it lives, what the calling thread does ends early when `token` asks for it; a token of an
/// outer scope holds, too. A token that can never ask costs nothing.
class StopScope {
 public:
  explicit StopScope(std::stop_token token);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  friend bool StopRequested();
  std::stop_token token_;
  const StopScope* outer_;
};

/// Whether a token of this thread's scopes asks to stop. A few nanoseconds.
bool StopRequested();
/// Cancelled when StopRequested(). For loops whose length the input decides.
Status CheckStop();

}  // namespace infer
