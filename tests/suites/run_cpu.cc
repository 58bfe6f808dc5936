#include "runtime/cpu/backend.h"
#include "tests/suites/suite.h"

namespace infer {

const Backend& BackendUnderTest() {
  static const std::unique_ptr<Backend> backend = MakeCpuBackend();
  return *backend;
}

}  // namespace infer
