#include "runtime/reference/backend.h"
#include "tests/suites/suite.h"

namespace infer {

const Backend& BackendUnderTest() {
  static const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  return *backend;
}

}  // namespace infer
