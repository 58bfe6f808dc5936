#include "tools/infer_bench/peers/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <set>
#include <thread>

#include "lib/support/strings.h"

namespace infer::peers {
double MachineBusySeconds() {
  std::ifstream f("/proc/stat");
  std::string cpu;
  // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice already.
  double t[8] = {};
  if (!(f >> cpu) || cpu != "cpu") return -1;
  for (double& v : t)
    if (!(f >> v)) return -1;
  return (t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double OwnCpuSeconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

std::string MeasuringLock::DefaultPath() {
  const char* given = std::getenv("INFER_BENCH_LOCK");
  return given && *given ? given : TemporaryFolder() + "/infer-bench.lock";
}

Result<std::unique_ptr<MeasuringLock>> MeasuringLock::Open(const std::string& path) {
  // Read-only is enough for flock, and does for a file of another user.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) fd = ::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
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
