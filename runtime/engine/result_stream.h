#pragma once
/// Many requests, and their results as they finish, in bounded memory.
#include <functional>
#include <memory>
#include <optional>

#include "runtime/engine/engine.h"

namespace infer::engine {

/// At most `window` requests are in the engine or wait to be read: who reads slowly holds back what
/// is submitted. The engine works on while the reader does something else. Belongs to one thread;
/// the engine outlives it, and may drain or shut down while results are unread.
class ResultStream {
 public:
  /// Gives the requests one after the other; nothing: there are no more. Called within Next, on the
  /// reader's thread.
  using Source = std::function<std::optional<Request>()>;

  struct Result {
    int64_t index = 0;  ///< of its request, from 0
    Outcome outcome;
  };

  /// Pre: window >= 1.
  ResultStream(Engine& engine, Source source, int64_t window);
  /// Cancels requests that have not ended and have no stop token of their own; does not wait.
  ~ResultStream();
  ResultStream(const ResultStream&) = delete;
  ResultStream& operator=(const ResultStream&) = delete;

  /// Submits up to the window, then waits for a result. Nothing: all have been read.
  std::optional<Result> Next();

 private:
  struct Shared;

  Engine& engine_;
  Source source_;
  int64_t window_;
  int64_t submitted_ = 0, read_ = 0;
  bool exhausted_ = false;
  std::stop_source cancel_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace infer::engine
