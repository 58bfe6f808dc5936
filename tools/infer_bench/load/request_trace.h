#pragma once
/// Requests of the engine as a trace for chrome://tracing and Perfetto.
#include <string>
#include <vector>

#include "runtime/engine/request_log.h"

namespace infer::bench {

/// Chrome's trace format: an asynchronous span for each request from `origin_ns` on, named by its
/// model, and in it one for each phase that it reached: queue, batch, compute.
std::string RequestTrace(std::string_view process, const std::vector<engine::RequestSpan>& spans,
                         int64_t origin_ns);

}  // namespace infer::bench
