#include "tools/common/self.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <filesystem>

#include "lib/support/retry.h"

namespace infer {

Result<std::string> SelfPath() {
  constexpr const char* kSelf = "/proc/self/exe";
  std::error_code error;
  const std::filesystem::path linked = std::filesystem::read_symlink(kSelf, error);
  if (!error && ::access(linked.c_str(), X_OK) == 0) return linked.string();
  // The file was replaced or removed since; the link leads to it all the same.
  if (!error) return std::string(kSelf);
  // Relative names were looked up from the folder that we still are in.
  const auto* started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  char whole[PATH_MAX];
  if (started && ::realpath(started, whole)) return std::string(whole);
  return ErrnoError("this program's own file");
}

}  // namespace infer
