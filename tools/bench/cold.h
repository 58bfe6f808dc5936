#pragma once
/// Cold starts: how long a fresh process takes from exec to the first result. The file is in the
/// page cache from the second start on; what is cold is the process.
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/session.h"

namespace infer::bench {

/// One process. Times in ms; they add up to `total_ms`, which leaves out what a program that has
/// its inputs would not do: making them, and converting to another precision.
struct ColdStart {
  double total_ms = 0;    ///< exec to first result
  double process_ms = 0;  ///< exec to main: loading the program and its libraries
  double load_ms = 0, compile_ms = 0, first_ms = 0;
  double rest_ms = 0;                           ///< total less the stages above
  int64_t peak_resident_bytes = 0;              ///< of the whole life of the process
  std::optional<PipelineInfo> pipelines;        ///< of a device with shaders
  std::optional<int64_t> allocated_peak_bytes;  ///< of the allocator; none where it is not counted
};

struct ColdOptions {
  int starts = 3;
  double max_s = 10;  ///< no further start begins after it
  std::stop_token stop = {};
};

/// Starts this program anew, one process at a time. Fewer than asked for after `max_s` or a stop.
Result<std::vector<ColdStart>> MeasureColdStarts(const std::string& path,
                                                 const SessionOptions& options,
                                                 const ColdOptions& cold);

Json ToJson(const std::vector<ColdStart>& starts);

/// argv[1] of such a process; behind it the model, and in JSON how to start it.
inline constexpr char kColdArgument[] = "--cold-start";
int RunColdStart(const char* path, const char* request);

}  // namespace infer::bench
