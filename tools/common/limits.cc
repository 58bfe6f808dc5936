#include "tools/common/limits.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "lib/support/memory_limit.h"
#include "lib/support/retry.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int64_t kNone = INT64_MAX;

int64_t Clamped(uint64_t bytes) {
  return static_cast<int64_t>(std::min<uint64_t>(bytes, static_cast<uint64_t>(kNone)));
}

/// What is left for tensors of a limit on addresses.
int64_t ForTensors(int64_t limit) {
  return limit == kNone ? kNone : limit - std::min(limit / 8, int64_t{512} << 20);
}

int64_t LimitOf(__rlimit_resource_t resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNone;
  return Clamped(limit.rlim_cur);
}

/// Of a control group; its files hold "max", or a number that stands for it, where there is none.
int64_t LimitIn(const char* file) {
  uint64_t bytes = 0;
  return std::ifstream(file) >> bytes ? Clamped(bytes) : kNone;
}

}  // namespace

void LimitMemoryToMachine() {
  int64_t limit = kNone;
  struct sysinfo machine {};
  if (::sysinfo(&machine) == 0)
    limit = Clamped((uint64_t{machine.totalram} + machine.totalswap) * machine.mem_unit);
  limit = std::min({limit, LimitIn("/sys/fs/cgroup/memory.max"),
                    LimitIn("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
                    ForTensors(LimitOf(RLIMIT_AS)), ForTensors(LimitOf(RLIMIT_DATA))});
  SetMemoryLimit(limit);
}

Result<int64_t> ParseBytes(std::string_view text) {
  std::string_view digits = Trim(text);
  int shift = 0;
  for (const std::string_view ending : {"iB", "B"})
    if (digits.ends_with(ending)) {
      digits.remove_suffix(ending.size());
      break;
    }
  constexpr std::string_view kUnits = "KMGT";
  if (!digits.empty()) {
    const size_t unit = kUnits.find(static_cast<char>(digits.back() & ~0x20));
    if (unit != std::string_view::npos) {
      shift = static_cast<int>(unit + 1) * 10;
      digits.remove_suffix(1);
    }
  }
  const auto n = ParseInt(digits);
  if (!n || *n <= 0 || *n > (kNone >> shift))
    return InvalidArgument(Cat("'", text, "' is no size (2G, 512M, 1000000)"));
  return *n << shift;
}

Status LimitMemory(int64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0) return ErrnoError("--max-memory");
  const auto wanted = static_cast<rlim_t>(bytes);
  limit.rlim_cur = std::min(limit.rlim_cur, wanted);
  limit.rlim_max = std::min(limit.rlim_max, wanted);
  if (::setrlimit(RLIMIT_DATA, &limit) != 0) return ErrnoError("--max-memory");
  SetMemoryLimit(std::min(MemoryLimit(), ForTensors(bytes)));
  return {};
}

}  // namespace infer
