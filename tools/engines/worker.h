#pragma once
/// A worker of `infer-bench peers` and `infer-opt compare --against`: a child process that answers
/// one line of JSON with another.
#include <sys/types.h>

#include <chrono>
#include <stop_token>
#include <string>
#include <vector>

#include "tools/common/report.h"

namespace infer::peers {

struct WorkerSpec {
  std::vector<std::string> argv;         ///< argv[0] is looked up in PATH
  std::vector<std::string> environment;  ///< NAME=VALUE, over the caller's own
  std::vector<int> cpus;                 ///< affinity from the first instruction on; empty: as is
  std::string log;                       ///< file that takes its standard error
};

/// Why a worker gave no answer.
struct WorkerFailure {
  bool missing = false;  ///< the engine or its interpreter is not installed
  std::string text;
};

class Worker {
 public:
  /// Starts the process. Not ok: it could not be started (Unsupported: argv[0] is not there).
  static Result<std::unique_ptr<Worker>> Start(const WorkerSpec& spec);
  /// Ends it at once.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The answer to `request`. Where there is none (the worker said that it failed, ended, said what
  /// is no JSON, or was silent for `timeout_s` and was killed), failure() says why.
  /// Cancelled: the stop token fired.
  Result<Json> Ask(const Json& request, double timeout_s, const std::stop_token& stop);
  const WorkerFailure& failure() const { return failure_; }
  bool alive() const { return pid_ > 0; }

  /// Processor time of all its threads so far, in seconds; 0 once it has ended.
  double CpuSeconds() const;
  /// Whether every thread may run on these processors only. True when it has ended.
  bool StaysOn(const std::vector<int>& cpus) const;
  /// Sets threads that may run elsewhere back to these processors, as far as the system lets us.
  /// Their names.
  std::vector<std::string> BringBack(const std::vector<int>& cpus) const;

 private:
  Worker() = default;
  Status Fail(std::string text, bool missing = false);
  /// Kills it if asked, waits for its end, and tells how it ended.
  std::string End(bool kill);
  std::string LogTail() const;
  Result<std::string> ReadLine(double timeout_s, const std::stop_token& stop);

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;  // our ends: what it reads, what it writes
  std::string log_, buffer_;
  WorkerFailure failure_;
};

}  // namespace infer::peers
