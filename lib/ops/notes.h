#pragma once
/// Attributes of ours at standard operators that tell rewrites and the exporter what they may do.
/// No file has them.
#include <string_view>

namespace infer {

/// At the standard's Attention: what stood for a query without keys before fusion, a WithoutKeys.
/// The operator itself makes 0 of it. But for kZero a Softmax of scores stood there that had the
/// mask added, so that the mask has all keys.
inline constexpr std::string_view kWithoutKeys = "without_keys";

enum class WithoutKeys : int64_t {
  kZero = 0,       ///< 0, and NaN of scores that are NaN, as the standard says
  kAny = 1,        ///< a Softmax, which made NaN: operators that make NaN may be written
  kNanIsZero = 2,  ///< a Softmax whose NaN became 0, wherever it came from
};

inline bool IsNote(std::string_view attr) { return attr == kWithoutKeys; }

}  // namespace infer
