#include "quant/calibrate/samples.h"

#include <memory>
#include <utility>

namespace infer {

Samples Subset(const Samples& all, std::vector<int64_t> which) {
  for (const int64_t i : which) INFER_CHECK(i >= 0 && i < all.count);
  auto index = std::make_shared<const std::vector<int64_t>>(std::move(which));
  Samples s;
  s.count = static_cast<int64_t>(index->size());
  s.random = all.random;
  s.get = [index, get = all.get](int64_t i) { return get((*index)[static_cast<size_t>(i)]); };
  if (all.labels)
    s.labels = [index, labels = all.labels](int64_t i) {
      return labels((*index)[static_cast<size_t>(i)]);
    };
  return s;
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
