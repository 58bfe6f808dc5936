#include "tools/infer_bench/load/curve.h"

#include <algorithm>

namespace infer::bench {
namespace {

constexpr double kBehind = 0.05;

}  // namespace

bool Saturated(const LoadResult& r, int lanes) {
  return r.backlog > lanes &&
         static_cast<double>(r.backlog) > kBehind * static_cast<double>(r.issued);
}

std::vector<double> CurveShares() {
  std::vector<double> out;
  for (int tenths = 1; tenths <= 11; ++tenths) out.push_back(tenths / 10.0);
  return out;
}

Result<LoadResult> MeasureCapacity(Engine& engine, double seconds, const LoadOptions& base) {
  LoadOptions o = base;
  o.arrivals = Arrivals::kClosed;
  o.concurrency = engine.lanes();
  o.duration_s = seconds;
  o.min_queries = 5 * engine.lanes();
  return Drive(engine, o);
}

Result<CurvePoint> MeasurePoint(Engine& engine, double share, double capacity_per_s,
                                const LoadOptions& base) {
  LoadOptions o = base;
  if (o.arrivals == Arrivals::kClosed) o.arrivals = Arrivals::kPoisson;
  o.rate = share * capacity_per_s;
  CurvePoint p;
  p.share = share;
  p.rate = o.rate;
  INFER_ASSIGN(p.result, Drive(engine, o));
  p.saturated = Saturated(p.result, engine.lanes());
  return p;
}

}  // namespace infer::bench
