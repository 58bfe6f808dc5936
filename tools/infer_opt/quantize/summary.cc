#include "tools/infer_opt/quantize/summary.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/text_table.h"

namespace infer {
namespace {

/// How many values that padded convolutions read have the zero point that suits padding, and what
/// that cost.
std::string ZeroPoints(const QuantizeReport& r) {
  int64_t padded = 0, at_zero = 0, cut = 0;
  double most = 0;
  for (const QuantizedValue& v : r.values) {
    if (!v.padded) continue;
    ++padded;
    at_zero += v.zero_point == 0 ? 1 : 0;
    if (v.zero_point_cost_db == 0) continue;
    ++cut;
    most = std::max(most, v.zero_point_cost_db);
  }
  if (padded == 0) return "";
  return Cat("zero point 0 at ", at_zero, " of ", padded, " inputs of padded convolutions",
             cut > 0 ? Cat(" (", cut, " ranges cut at 0 for it, at most ",
                           std::round(most * 1000) / 1000, " dB of their SQNR)")
                     : "",
             "\n");
}

/// "72 int4, 3 int8": the precisions but f32, in the order of their first layer.
std::string Precisions(const QuantizeReport& r) {
  std::vector<std::pair<std::string, int>> counts;
  for (const QuantizedLayer& l : r.layers) {
    if (l.precision == "f32") continue;
    const auto same = std::find_if(counts.begin(), counts.end(),
                                   [&](const auto& c) { return c.first == l.precision; });
    if (same == counts.end())
      counts.emplace_back(l.precision, 1);
    else
      ++same->second;
  }
  std::vector<std::string> texts;
  for (const auto& [precision, count] : counts) texts.push_back(Cat(count, " ", precision));
  return Join(texts, ", ");
}

/// Those with weights have a row of the table.
bool IsNotCovered(const QuantizedLayer& l) {
  return !l.quantizable && l.precision == "f32" && l.weight_bytes_before == 0;
}

/// "not covered by the mode, f32: 104 Silu, 17 Concat": the most frequent operators.
std::string NotCovered(const QuantizeReport& r) {
  std::map<std::string, int64_t> counts;
  for (const QuantizedLayer& l : r.layers)
    if (IsNotCovered(l)) ++counts[l.op];
  if (counts.empty()) return "";
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr size_t kShown = 5;
  std::vector<std::string> texts;
  for (const auto& [op, count] : sorted)
    if (texts.size() < kShown) texts.push_back(Cat(count, " ", op));
  if (sorted.size() > kShown) texts.push_back(Cat(sorted.size() - kShown, " operators more"));
  return Cat("not covered by the mode, f32: ", Join(texts, ", "), "\n");
}

}  // namespace

std::string QuantizeSummary(const QuantizeReport& r) {
  std::string out = Cat(
      r.integer_layers, " of ", r.quantizable_layers, " quantizable layers are quantized (",
      Precisions(r), "); weights ", HumanBytes(r.weight_bytes_before), " -> ",
      HumanBytes(r.weight_bytes_after),
      r.calibration_samples > 0 ? Cat(", calibrated on ", r.calibration_samples, " samples") : "",
      "\n");
  out += NotCovered(r);
  out += ZeroPoints(r);
  // One row per operator and reason: attention alone leaves dozens of products of one kind.
  std::vector<std::vector<std::string>> rows = {{"FP32 layer", "operator", "why"}};
  std::vector<int> more;
  for (const QuantizedLayer& l : r.layers) {
    if (l.precision != "f32" || IsNotCovered(l)) continue;
    const auto same = std::find_if(rows.begin() + 1, rows.end(), [&](const auto& row) {
      return row[1] == l.op && row[2] == l.reason;
    });
    if (same == rows.end()) {
      rows.push_back({l.name, l.op, l.reason});
      more.push_back(0);
    } else {
      ++more[static_cast<size_t>(same - rows.begin() - 1)];
    }
  }
  for (size_t i = 0; i < more.size(); ++i)
    if (more[i] > 0) rows[i + 1][0] += Cat(" and ", more[i], " more");
  return rows.size() > 1 ? out + TextTable(rows) : out;
}

}  // namespace infer
