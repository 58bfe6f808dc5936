#pragma once
/// For tests about threads: the lane budget, and the threads that there are.
#include <dirent.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lib/support/parallel.h"

namespace infer {

/// While it lives, the process has so many lanes.
class LaneBudgetOf {
 public:
  explicit LaneBudgetOf(int lanes) : before_(LaneBudget()) { SetLaneBudget(lanes); }
  ~LaneBudgetOf() { SetLaneBudget(before_); }
  LaneBudgetOf(const LaneBudgetOf&) = delete;
  LaneBudgetOf& operator=(const LaneBudgetOf&) = delete;

 private:
  int before_;
};

/// Waits, without a clock, for what must come.
inline void Until(const std::function<bool()>& comes) {
  while (!comes()) std::this_thread::yield();
}

/// Ids of the threads of this process.
inline std::vector<std::string> Tasks() {
  std::vector<std::string> ids;
  DIR* dir = ::opendir("/proc/self/task");
  if (!dir) return ids;
  while (const dirent* e = ::readdir(dir))
    if (e->d_name[0] != '.') ids.emplace_back(e->d_name);
  ::closedir(dir);
  return ids;
}

}  // namespace infer
