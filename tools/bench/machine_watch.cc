#include "tools/bench/machine_watch.h"

#include <sys/resource.h>

#include <algorithm>

#include "lib/support/measure.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/environment.h"
#include "tools/common/host.h"

namespace infer::bench {
namespace {

constexpr double kSlower = 1.03;
constexpr double kOtherCores = 0.2;
constexpr int64_t kSpinSteps = 1'000'000;

std::vector<int> OwnProcessors() {
  static const std::vector<int> cpus = CaptureEnvironment().affinity;
  return cpus;
}

}  // namespace

double SpinMs(int rounds) {
  double best = 0;
  volatile uint64_t sink = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    uint64_t x = sink + 1;
    for (int64_t i = 0; i < kSpinSteps; ++i)
      x = x * 6364136223846793005ull + 1442695040888963407ull;
    sink = x;
    const double ms = MsSince(start);
    best = round == 0 ? ms : std::min(best, ms);
  }
  return best;
}

MachineWatch::Counters MachineWatch::Now() {
  Counters c;
  c.at = std::chrono::steady_clock::now();
  const MachineSeconds machine = GetMachineSeconds();
  c.busy_s = machine.busy;
  c.stolen_s = machine.stolen;
  c.own_s = OwnCpuSeconds();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  c.preemptions = usage.ru_nivcsw;
  return c;
}

MachineWatch::MachineWatch()
    : spin_ms_(SpinMs()), mhz_(MegahertzNow(OwnProcessors())), start_(Now()) {}

Watched MachineWatch::Finish() const {
  const Counters end = Now();
  Watched w;
  w.seconds = std::chrono::duration<double>(end.at - start_.at).count();
  const double own = end.own_s - start_.own_s;
  if (w.seconds > 0) {
    w.own_cores = own / w.seconds;
    if (start_.busy_s >= 0 && end.busy_s >= 0) {
      w.other_cores = std::max(0.0, end.busy_s - start_.busy_s - own) / w.seconds;
      w.stolen_cores = (end.stolen_s - start_.stolen_s) / w.seconds;
    }
  }
  w.preemptions = end.preemptions - start_.preemptions;
  w.spin_before_ms = spin_ms_;
  w.mhz_before = mhz_;
  w.mhz_after = MegahertzNow(OwnProcessors());
  w.spin_after_ms = SpinMs();
  return w;
}

std::vector<std::string> Warnings(const Watched& w) {
  std::vector<std::string> out;
  if (w.spin_after_ms > kSlower * w.spin_before_ms)
    out.push_back(Cat("the processor became ",
                      Fixed(100 * (w.spin_after_ms / w.spin_before_ms - 1), 0),
                      " % slower while it was measured: throttled, or shared"));
  if (w.mhz_before > kSlower * w.mhz_after && w.mhz_after > 0)
    out.push_back(
        Cat("the clock fell from ", Fixed(w.mhz_before, 0), " to ", Fixed(w.mhz_after, 0), " MHz"));
  if (w.other_cores > kOtherCores)
    out.push_back(Cat("other processes took ", Fixed(w.other_cores, 1), " processors meanwhile"));
  return out;
}

}  // namespace infer::bench
