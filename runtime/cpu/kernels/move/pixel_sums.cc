#include "runtime/cpu/kernels/move/pixel_sums.h"

#include <algorithm>
#include <map>

namespace infer {
namespace {

constexpr int64_t kMostSummands = 8192, kFewBlocks = 12;

}  // namespace

bool PixelSums::Pays(const ImageColumns& c) {
  const int64_t columns = NumElements(c.blocks);
  return c.strides.back() > 1 && c.blocks.back() <= kFewBlocks &&
         NumElements(c.image) <= kMostSummands && columns <= kMostSummands / c.entries;
}

PixelSums::PixelSums(const ImageColumns& c) {
  std::vector<std::vector<int32_t>> summands(static_cast<size_t>(NumElements(c.image)));
  const int64_t columns = NumElements(c.blocks);
  for (int64_t entry = 0; entry < c.entries; ++entry)
    for (int64_t column = 0; column < columns; ++column)
      if (const int64_t at = c.PixelOf(entry, column); at >= 0)
        summands[static_cast<size_t>(at)].push_back(static_cast<int32_t>(entry * columns + column));
  std::map<size_t, Class> by_reads;
  for (size_t at = 0; at < summands.size(); ++at) {
    Class& of = by_reads[summands[at].size()];
    of.pixels.push_back(static_cast<int32_t>(at));
    of.from.insert(of.from.end(), summands[at].begin(), summands[at].end());
  }
  for (auto& [reads, of] : by_reads) {
    of.reads = reads;
    classes_.push_back(std::move(of));
  }
}

/// kReads 0: c.reads of them.
template <size_t kReads>
void PixelSums::Sum(const Class& c, const float* x, float* y) {
  const size_t reads = kReads > 0 ? kReads : c.reads;
  const int32_t* from = c.from.data();
  for (const int32_t at : c.pixels) {
    float sum = 0;
    for (size_t k = 0; k < reads; ++k) sum += x[from[k]];
    y[at] = sum;
    from += reads;
  }
}

void PixelSums::Plane(const float* x, float* y) const {
  for (const Class& c : classes_) switch (c.reads) {
      case 1: Sum<1>(c, x, y); break;
      case 2: Sum<2>(c, x, y); break;
      case 4: Sum<4>(c, x, y); break;
      default: Sum<0>(c, x, y);
    }
}

}  // namespace infer
