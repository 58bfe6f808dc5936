#include "runtime/engine/result_stream.h"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace infer::engine {

/// With the callbacks, which may outlive the stream.
struct ResultStream::Shared {
  std::mutex mutex;
  std::condition_variable came;
  std::deque<Result> ready;
};

ResultStream::ResultStream(Engine& engine, Source source, int64_t window)
    : engine_(engine),
      source_(std::move(source)),
      window_(window),
      shared_(std::make_shared<Shared>()) {
  INFER_CHECK(window >= 1);
}

ResultStream::~ResultStream() { cancel_.request_stop(); }

std::optional<ResultStream::Result> ResultStream::Next() {
  while (!exhausted_ && submitted_ - read_ < window_) {
    std::optional<Request> request = source_();
    if (!request) {
      exhausted_ = true;
      break;
    }
    if (!request->stop.stop_possible()) request->stop = cancel_.get_token();
    engine_.Submit(*std::move(request), [shared = shared_, index = submitted_++](Outcome o) {
      const std::lock_guard lock(shared->mutex);
      shared->ready.push_back({index, std::move(o)});
      shared->came.notify_one();
    });
  }
  if (read_ == submitted_) return std::nullopt;
  std::unique_lock lock(shared_->mutex);
  shared_->came.wait(lock, [&] { return !shared_->ready.empty(); });
  Result first = std::move(shared_->ready.front());
  shared_->ready.pop_front();
  ++read_;
  return first;
}

}  // namespace infer::engine
