#include "lib/support/status.h"

#include <cstdio>
#include <cstdlib>

namespace infer {

void CheckFailed(const char* file, int line, const char* text) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, text);
  std::abort();
}

}  // namespace infer
