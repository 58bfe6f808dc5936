#include "tools/infer_bench/load/latencies.h"

#include <algorithm>
#include <cmath>

#include "lib/support/strings.h"
#include "tools/bench/distribution.h"

namespace infer::bench {
namespace {

constexpr auto kMostNs = static_cast<double>(engine::Histogram::kMost);

}  // namespace

void Latencies::Add(double at_ms, double ms) {
  min_ = count() == 0 ? ms : std::min(min_, ms);
  max_ = count() == 0 ? ms : std::max(max_, ms);
  sum_ += ms;
  ns_.Record(static_cast<int64_t>(std::clamp(std::round(ms * kNsPerMs), 0.0, kMostNs)));
  if (static_cast<int64_t>(first_.size()) < keep_) first_.Add(at_ms, ms);
}

std::vector<double> Latencies::Sorted() const {
  if (!exact()) return {};
  std::vector<double> sorted = first_.ms;
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

double Latencies::ValueAt(const std::vector<double>& sorted, int64_t k) const {
  if (exact()) return sorted[static_cast<size_t>(k)];
  // What is known for sure bounds what the buckets say.
  return std::clamp(ns_.ValueAt(k) / kNsPerMs, min_, max_);
}

int64_t Latencies::CountAbove(double ms) const {
  if (exact())
    return std::count_if(first_.ms.begin(), first_.ms.end(), [&](double x) { return x > ms; });
  int64_t low = 0, high = count();
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (ValueAt({}, middle) > ms)
      high = middle;
    else
      low = middle + 1;
  }
  return count() - low;
}

double Latencies::Quantile(double q) const {
  if (count() == 0) return 0;
  const auto rank = static_cast<int64_t>(std::ceil(q * static_cast<double>(count()))) - 1;
  return ValueAt(Sorted(), std::clamp<int64_t>(rank, 0, count() - 1));
}

Percentile Latencies::At(const std::vector<double>& sorted, double q) const {
  if (exact()) return bench::Percentiles(sorted, std::span(&q, 1)).front();
  Percentile p{.q = q, .name = PercentileName(q), .value = {}, .upper = {}, .withheld = {}};
  const int64_t n = count(), least = LeastCount(q), t = MostBeyond(n, q);
  if (n < least)
    p.withheld = Cat("needs ", least, " samples, there are ", n);
  else
    p.value = ValueAt(sorted, static_cast<int64_t>(std::llround(q * static_cast<double>(n - 1))));
  if (t >= 1) p.upper = ValueAt(sorted, n - t);
  return p;
}

Percentile Latencies::AtQuantile(double q) const { return At(Sorted(), q); }

std::vector<Percentile> Latencies::Percentiles() const {
  const std::vector<double> sorted = Sorted();
  std::vector<Percentile> out;
  for (double q : kReportedQuantiles) out.push_back(At(sorted, q));
  return out;
}

Json ToJson(const Latencies& l) {
  Json j = {{"count", l.count()},
            {"exact", l.exact()},
            {"min", l.min()},
            {"mean", l.mean()},
            {"max", l.max()}};
  Json upper = Json::object(), withheld = Json::object();
  for (const Percentile& p : l.Percentiles()) {
    j[p.name] = p.value ? Json(*p.value) : Json();
    upper[p.name] = p.upper ? Json(*p.upper) : Json();
    if (!p.withheld.empty()) withheld[p.name] = p.withheld;
  }
  j["upper_99"] = std::move(upper);
  j["withheld"] = std::move(withheld);
  return j;
}

}  // namespace infer::bench
