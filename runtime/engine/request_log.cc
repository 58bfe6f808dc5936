#include "runtime/engine/request_log.h"

namespace infer::engine {

void RequestLog::Add(RequestSpan span) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() >= most_) {
    ++dropped_;
    if (spans_.empty()) return;
    spans_.pop_front();
  }
  spans_.push_back(std::move(span));
}

std::vector<RequestSpan> RequestLog::Spans() const {
  const std::lock_guard lock(mutex_);
  return {spans_.begin(), spans_.end()};
}

int64_t RequestLog::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

void RequestLog::Clear() {
  const std::lock_guard lock(mutex_);
  spans_.clear();
  dropped_ = 0;
}

}  // namespace infer::engine
