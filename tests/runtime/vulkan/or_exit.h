#pragma once

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "runtime/api/program.h"

namespace infer {

/// `backend`; without a device the test program ends here with one line, not with a failure of
/// each test in turn.
inline std::unique_ptr<Backend> OrExit(std::unique_ptr<Backend> backend) {
  if (const std::string why = backend->Unavailable(); !why.empty()) {
    std::fprintf(stderr, "no test of vulkan can run: %s; tools/setup.sh installs a driver\n",
                 why.c_str());
    std::exit(1);
  }
  return backend;
}

}  // namespace infer
