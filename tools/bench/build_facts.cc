#include "tools/bench/build_facts.h"

#include <gnu/libc-version.h>
#include <infer_git_revision.h>

#include "tools/common/version.h"

namespace infer::bench {

std::string BuildRevision() { return kGitRevision; }

std::map<std::string, std::string> BuildLibraries() {
  return {{"infer", std::string(kVersion)}, {"glibc", gnu_get_libc_version()}};
}

}  // namespace infer::bench
