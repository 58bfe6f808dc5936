#pragma once
#include <string_view>

namespace infer {

inline constexpr std::string_view kVersion = INFER_VERSION;

}  // namespace infer
