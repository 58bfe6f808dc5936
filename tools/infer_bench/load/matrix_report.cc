#include "tools/infer_bench/load/matrix_report.h"

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/infer_bench/load/latencies.h"
#include "tools/infer_bench/load/route_report.h"

namespace infer::bench {
namespace {

using engine::Correlation;
using engine::MatrixCell;

const engine::Histogram& TotalOf(const MatrixCell& c) {
  return c.times
      .by[engine::EndIndex(engine::State::kSucceeded)][static_cast<size_t>(engine::Phase::kTotal)];
}

Json CorrelationJson(const engine::Pairs& pairs) {
  const std::optional<Correlation> c = pairs.Correlate();
  return c ? Json({{"r", c->r}, {"low", c->low}, {"high", c->high}}) : Json();
}

std::string CorrelationText(const engine::Pairs& pairs) {
  const std::optional<Correlation> c = pairs.Correlate();
  return c ? Cat(Fixed(c->r, 2), " (", Fixed(c->low, 2), " to ", Fixed(c->high, 2), ")") : "-";
}

}  // namespace

Json MatrixJson(const std::vector<MatrixCell>& cells) {
  Json list = Json::array();
  for (const MatrixCell& c : cells)
    list.push_back({{"variant", c.model},
                    {"device", c.device},
                    {"ended", c.times.ended()},
                    {"success_rate", c.times.success_rate()},
                    {"total_ms", TimesJson(TotalOf(c))},
                    {"correlation",
                     {{"load", CorrelationJson(c.factors.load())},
                      {"rows", CorrelationJson(c.factors.rows())},
                      {"bytes", CorrelationJson(c.factors.bytes())}}}});
  const std::optional<double> share = engine::DeviceShare(cells);
  return {{"cells", std::move(list)}, {"device_share", share ? Json(*share) : Json()}};
}

std::string MatrixTable(const std::vector<MatrixCell>& cells) {
  if (cells.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"variant", "device", "success", "p50 ms", "p99 ms", "r with load", "rows", "bytes"}};
  for (const MatrixCell& c : cells) {
    const auto ms = [&](double q) { return Rounded(TotalOf(c).Quantile(q) / kNsPerMs, 4); };
    rows.push_back({c.model, c.device.empty() ? "-" : c.device,
                    Cat(Rounded(100 * c.times.success_rate(), 4), " %"), ms(0.5), ms(0.99),
                    CorrelationText(c.factors.load()), CorrelationText(c.factors.rows()),
                    CorrelationText(c.factors.bytes())});
  }
  std::string out = TextTable(rows);
  if (const auto share = engine::DeviceShare(cells))
    out += Cat("devices have ", Rounded(100 * *share, 3), " % of the variance of the latency\n");
  return out;
}

}  // namespace infer::bench
