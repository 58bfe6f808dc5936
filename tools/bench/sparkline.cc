#include "tools/bench/sparkline.h"

#include <algorithm>
#include <vector>

#include "tools/bench/distribution.h"

namespace infer::bench {

std::string Sparkline(std::span<const double> samples, int width) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr int kLevels = 8;
  const size_t columns = std::min(samples.size(), static_cast<size_t>(std::max(width, 1)));
  std::vector<double> heights;
  for (size_t c = 0; c < columns; ++c) {
    const size_t begin = c * samples.size() / columns, end = (c + 1) * samples.size() / columns;
    std::vector<double> part(samples.begin() + static_cast<std::ptrdiff_t>(begin),
                             samples.begin() + static_cast<std::ptrdiff_t>(end));
    std::sort(part.begin(), part.end());
    heights.push_back(QuantileOfSorted(part, 0.5));
  }
  std::string out;
  if (heights.empty()) return out;
  const auto [low, high] = std::minmax_element(heights.begin(), heights.end());
  for (double h : heights) {
    const double share = *high > 1.01 * *low ? (h - *low) / (*high - *low) : 0;
    out += kBars[std::min(static_cast<int>(share * kLevels), kLevels - 1)];
  }
  return out;
}

}  // namespace infer::bench
