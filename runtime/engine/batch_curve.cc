#include "runtime/engine/batch_curve.h"

#include <iterator>

namespace infer::engine {

void BatchCurve::Ran(int64_t rows, int64_t ns) {
  if (rows < 1 || ns < 1) return;
  if (!ran_.contains(rows)) {
    if (ran_.size() < kMostPoints) ran_.insert(rows);
    return;
  }
  const auto [at, is_new] = ns_.emplace(rows, static_cast<double>(ns));
  if (!is_new) at->second += (static_cast<double>(ns) - at->second) / 8;
}

int64_t BatchCurve::RunNs(int64_t rows) const {
  if (ns_.empty()) return 0;
  const auto above = ns_.lower_bound(rows);
  if (above == ns_.begin()) return static_cast<int64_t>(above->second);
  const auto below = std::prev(above);
  const auto n = static_cast<double>(rows), x = static_cast<double>(below->first);
  if (above == ns_.end()) return static_cast<int64_t>(below->second / x * n);
  const double share = (n - x) / (static_cast<double>(above->first) - x);
  return static_cast<int64_t>(below->second + share * (above->second - below->second));
}

}  // namespace infer::engine
