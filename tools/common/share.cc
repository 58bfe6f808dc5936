#include "tools/common/share.h"

#include <cmath>

#include "lib/support/strings.h"

namespace infer {

std::optional<ShareText> ParseShare(std::string_view text) {
  text = Trim(text);
  const bool percent = text.ends_with('%');
  if (percent) text = Trim(text.substr(0, text.size() - 1));
  const auto v = ParseDouble(text);
  if (!v || !std::isfinite(*v)) return std::nullopt;
  return ShareText{percent ? *v / 100 : *v, percent};
}

}  // namespace infer
