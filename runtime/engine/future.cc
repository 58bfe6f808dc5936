#include "runtime/engine/future.h"

#include "runtime/engine/core.h"
#include "runtime/engine/patience.h"

namespace infer::engine {

void Future::wait() const {
  const auto there = [this] {
    return told_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  if (there()) return;
  if (const auto request = request_.lock())
    if (const auto core = core_.lock()) core->Help(*request);
  const auto begin = std::chrono::steady_clock::now();
  thread_local Patience patience;
  if (!patience.Look(there)) told_.wait();
  patience.Waited(std::chrono::steady_clock::now() - begin);
}

Outcome Future::get() {
  wait();
  return told_.get();
}

}  // namespace infer::engine
