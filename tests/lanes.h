#pragma once
/// For tests about threads: the lane budget, and the threads that there are.
#include <dirent.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
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

/// Whether thread `id` of this process is on its way out. A join returns before the kernel has
/// taken the thread from its list: `flags`, field 9 of `stat`, has PF_EXITING (4) from before that
/// on.
inline bool IsEnding(const std::string& id) {
  std::ifstream f("/proc/self/task/" + id + "/stat");
  std::string line, field;
  if (!std::getline(f, line)) return true;
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  for (int i = 3; i <= 9; ++i) fields >> field;
  return std::strtoul(field.c_str(), nullptr, 10) & 4;
}

/// Ids of the threads of this process that have not ended.
inline std::vector<std::string> Tasks() {
  std::vector<std::string> ids;
  DIR* dir = ::opendir("/proc/self/task");
  if (!dir) return ids;
  while (const dirent* e = ::readdir(dir))
    if (e->d_name[0] != '.' && !IsEnding(e->d_name)) ids.emplace_back(e->d_name);
  ::closedir(dir);
  return ids;
}

}  // namespace infer
