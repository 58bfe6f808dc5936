#include "tools/infer_opt/quantize/budget.h"

#include "lib/support/strings.h"

namespace infer {

Result<std::chrono::steady_clock::duration> ParseBudget(const std::string& option,
                                                        const std::string& text) {
  for (const auto& [unit, seconds] : {std::pair("min", 60.0), {"h", 3600.0}, {"s", 1.0}}) {
    if (!text.ends_with(unit)) continue;
    const auto n = ParseDouble(text.substr(0, text.size() - std::string_view(unit).size()));
    if (n && *n > 0 && *n * seconds < 1e7)
      return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(*n * seconds));
  }
  return InvalidArgument(Cat(option, " ", text, ": write a time above 0, as 90s, 10min or 1h"));
}

}  // namespace infer
