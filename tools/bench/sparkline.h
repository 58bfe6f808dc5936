#pragma once
/// Samples as one line of text, and numbers as tables want them.
#include <span>
#include <string>

namespace infer::bench {

/// "▁▁▂▁█▁▁": at most `width` columns, each the median of as many samples in turn, from the
/// smallest to the largest of them. Level where they differ by less than 1 %. Empty for no samples.
std::string Sparkline(std::span<const double> samples, int width = 24);

}  // namespace infer::bench
