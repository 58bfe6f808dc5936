#pragma once
/// How operators are named in texts, reports and messages.
#include <string>
#include <string_view>

#include "lib/support/strings.h"

namespace infer {

/// "Relu" of the standard domain "", "com.microsoft::Gelu" of another.
inline std::string FullOpName(std::string_view domain, std::string_view op) {
  return Cat(domain, domain.empty() ? "" : "::", op);
}

}  // namespace infer
