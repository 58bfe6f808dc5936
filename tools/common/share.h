#pragma once
/// Shares in options: "0.5%" or "0.005".
#include <optional>
#include <string_view>

namespace infer {

struct ShareText {
  double value = 0;
  bool percent = false;  ///< written with a percent sign
};
/// nullopt: no finite number.
std::optional<ShareText> ParseShare(std::string_view text);

}  // namespace infer
