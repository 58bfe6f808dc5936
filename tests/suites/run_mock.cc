#include "runtime/cpu/backend.h"
#include "runtime/mock/backend.h"
#include "tests/suites/suite.h"

namespace infer {

/// The device with the CPU's kernels behind it.
const Backend& BackendUnderTest() {
  static const std::unique_ptr<Backend> backend = MakeMockBackend({.behind = CpuHost()});
  return *backend;
}

}  // namespace infer
