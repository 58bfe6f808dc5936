#pragma once
/// Arguments of the functions that rewrite or compare models: samples, patterns, progress
/// callbacks.
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "quant/calibrate/samples.h"
#include "quant/scheme/node_filter.h"
#include "runtime/c_api/handles.h"

namespace infer::c_api {

/// Samples for the inputs of `g`, which use the caller's memory or callback while they are read.
/// `given` NULL: none. InvalidArgument: a structure that is not filled.
Result<Samples> SamplesOf(const infer_samples* given, const Graph& g);

/// Tells the caller of progress, and stops the work when he asks for it.
class Told {
 public:
  Told(infer_progress progress, void* user) : progress_(progress), user_(user) {}
  void Tell(const std::string& step, int64_t done, int64_t total) {
    if (progress_ && progress_(user_, step.c_str(), done, total) != 0) stop_.request_stop();
  }
  /// The same for work of one step. *this outlives it.
  Progress Of(std::string step) {
    return [this, step = std::move(step)](int64_t done, int64_t total) { Tell(step, done, total); };
  }
  /// The same for work of several steps, which names them.
  std::function<void(const std::string& step, int64_t done, int64_t total)> OfSteps() {
    return
        [this](const std::string& step, int64_t done, int64_t total) { Tell(step, done, total); };
  }
  std::stop_token stop() const { return stop_.get_token(); }
  /// Cancelled: the caller asked for it.
  Status Check() const;

 private:
  infer_progress progress_;
  void* user_;
  std::stop_source stop_;
};

/// A list that ends with NULL; NULL is an empty one.
std::vector<NodePattern> PatternsOf(const char* const* texts);

/// `text`, or `standard` where it is NULL.
inline std::string Or(const char* text, std::string_view standard) {
  return text ? std::string(text) : std::string(standard);
}

}  // namespace infer::c_api
