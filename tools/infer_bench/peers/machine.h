#pragma once
/// The lock that keeps two measurements apart.
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "tools/common/scratch_folder.h"

namespace infer::peers {

/// A file lock (flock) that measurements share, held from Take to the destructor.
class MeasuringLock {
 public:
  /// "$INFER_BENCH_LOCK", else "infer-bench.lock" in the folder for temporary files.
  static std::string DefaultPath();
  /// Waits for it; `waiting` is called once where somebody else has it. Cancelled, Io.
  template <typename F>
  static Result<std::unique_ptr<MeasuringLock>> Take(const std::string& path,
                                                     const std::stop_token& stop, F waiting) {
    INFER_ASSIGN(auto lock, Open(path));
    if (!lock->Try()) waiting();
    INFER_TRY(lock->Wait(stop));
    return lock;
  }
  ~MeasuringLock();
  MeasuringLock(const MeasuringLock&) = delete;
  MeasuringLock& operator=(const MeasuringLock&) = delete;

 private:
  explicit MeasuringLock(int fd) : fd_(fd) {}
  static Result<std::unique_ptr<MeasuringLock>> Open(const std::string& path);
  bool Try();
  Status Wait(const std::stop_token& stop);
  int fd_;
};

}  // namespace infer::peers
