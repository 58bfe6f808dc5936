#include "quant/calibrate/samples.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "lib/support/random.h"

namespace infer {

Samples Subset(const Samples& all, std::vector<int64_t> which) {
  for (const int64_t i : which) INFER_CHECK(i >= 0 && i < all.count);
  auto index = std::make_shared<const std::vector<int64_t>>(std::move(which));
  Samples s;
  s.count = static_cast<int64_t>(index->size());
  s.get = [index, get = all.get](int64_t i) { return get((*index)[static_cast<size_t>(i)]); };
  if (all.labels)
    s.labels = [index, labels = all.labels](int64_t i) {
      return labels((*index)[static_cast<size_t>(i)]);
    };
  return s;
}

SampleSplit SplitBySeed(int64_t count, int64_t calibration_count, uint64_t seed) {
  INFER_CHECK(0 <= calibration_count && calibration_count <= count);
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  Random random(seed);
  for (size_t i = order.size(); i > 1; --i)  // Fisher-Yates
    std::swap(order[i - 1], order[random.Below(static_cast<uint32_t>(i))]);
  const auto cut = order.begin() + calibration_count;
  SampleSplit split{{order.begin(), cut}, {cut, order.end()}};
  std::sort(split.calibration.begin(), split.calibration.end());
  std::sort(split.evaluation.begin(), split.evaluation.end());
  return split;
}

Samples InMemory(std::vector<std::vector<Datum>> runs) {
  auto held = std::make_shared<const std::vector<std::vector<Datum>>>(std::move(runs));
  Samples s;
  s.count = static_cast<int64_t>(held->size());
  s.get = [held](int64_t i) -> Result<std::vector<Datum>> {
    return (*held)[static_cast<size_t>(i)];
  };
  return s;
}

}  // namespace infer
