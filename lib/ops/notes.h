#pragma once
/// Attributes of ours at standard operators that tell rewrites and the exporter what they may do.
/// No file has them.
#include <string_view>

namespace infer {

/// At the standard's Attention, 1: what it makes of a query without keys is free. It makes 0; where
/// a Softmax stood before fusion NaN came out, and operators that make NaN may be written.
inline constexpr std::string_view kAnyWithoutKeys = "any_without_keys";

inline bool IsNote(std::string_view attr) { return attr == kAnyWithoutKeys; }

}  // namespace infer
