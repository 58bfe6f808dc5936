#include "tools/infer_bench/peers/machine.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "lib/support/retry.h"
#include "lib/support/strings.h"

namespace infer::peers {

std::string MeasuringLock::DefaultPath() {
  const char* given = std::getenv("INFER_BENCH_LOCK");
  return given && *given ? given : TemporaryFolder() + "/infer-bench.lock";
}

Result<std::unique_ptr<MeasuringLock>> MeasuringLock::Open(const std::string& path) {
  // Read-only is enough for flock, and does for a file of another user.
  int fd = Retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
  if (fd < 0 && errno == ENOENT)
    fd = Retry([&] { return ::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0644); });
  if (fd < 0) return IoError(Cat("lock ", path, ": ", std::strerror(errno)));
  return std::unique_ptr<MeasuringLock>(new MeasuringLock(fd));
}

bool MeasuringLock::Try() { return ::flock(fd_, LOCK_EX | LOCK_NB) == 0; }

Status MeasuringLock::Wait(const std::stop_token& stop) {
  while (!Try()) {
    if (errno != EWOULDBLOCK && errno != EINTR) return IoError(Cat("lock: ", std::strerror(errno)));
    if (stop.stop_requested()) return Cancelled("interrupted while waiting for the lock");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return {};
}

MeasuringLock::~MeasuringLock() { ::close(fd_); }

}  // namespace infer::peers
