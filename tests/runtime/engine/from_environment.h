#pragma once
/// Sizes of tests that grow by night.
#include <cstdlib>

#include "lib/support/strings.h"

namespace infer::engine {

inline int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? ParseInt(text).value_or(otherwise) : otherwise;
}

}  // namespace infer::engine
