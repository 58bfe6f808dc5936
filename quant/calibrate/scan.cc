#include "quant/calibrate/scan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/support/parallel.h"
#include "quant/calibrate/number_loops.h"

namespace infer {
namespace {

/// Below that, a second thread gains nothing.
constexpr size_t kPart = size_t{1} << 16;

Scan ScanSlowly(std::span<const float> values) {
  Scan s{FiniteRange(values)};
  for (const float v : values) s.finite += std::isfinite(v) ? 1 : 0;
  s.non_finite = static_cast<int64_t>(values.size()) - s.finite;
  return s;
}

Scan ScanPart(std::span<const float> values) {
  if (values.empty()) return {};
  float lo = 0, hi = 0;
  if (!TheNumberLoops().bounds(values.data(), values.size(), lo, hi)) return ScanSlowly(values);
  return {
      {static_cast<double>(lo), static_cast<double>(hi)}, static_cast<int64_t>(values.size()), 0};
}

}  // namespace

void Scan::Add(const Scan& o) {
  non_finite += o.non_finite;
  if (o.finite == 0) return;
  range = finite > 0 ? range.Union(o.range) : o.range;
  finite += o.finite;
}

Scan ScanValues(std::span<const float> values) {
  const size_t parts = (values.size() + kPart - 1) / kPart;
  if (parts < 2 || CurrentLanes() < 2) return ScanPart(values);
  std::vector<Scan> found(parts);
  ParallelFor(static_cast<int64_t>(parts), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      found[i] = ScanPart(values.subspan(i * kPart, std::min(kPart, values.size() - i * kPart)));
  });
  Scan all;
  for (const Scan& s : found) all.Add(s);
  return all;
}

}  // namespace infer
