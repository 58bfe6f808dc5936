#include "runtime/mock/backend.h"
#include "tests/suites/suite.h"

namespace infer {

const Backend& BackendUnderTest() {
  static const std::unique_ptr<Backend> backend = MakeMockBackend();
  return *backend;
}

}  // namespace infer
