#include "tools/infer_opt/prune/report.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr size_t kMostLayers = 40;  // in the table; the report has all

double PercentOf(int64_t part, int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string ErrorText(double error) { return error < 0 ? "-" : Cat(Rounded(100 * error, 3)); }

std::string_view UnitName(const SparsityPattern& p) {
  return p.kind == SparsityPattern::Kind::kBlocks ? "blocks"
         : p.kind == SparsityPattern::Kind::kNm   ? "groups"
                                                  : "weights";
}

Json PatternJson(const SparsityPattern& p) {
  switch (p.kind) {
    case SparsityPattern::Kind::kNm: return {{"kind", "n:m"}, {"n", p.n}, {"m", p.m}};
    case SparsityPattern::Kind::kBlocks:
      return {{"kind", "blocks"},
              {"rows", p.block_rows},
              {"columns", p.block_columns},
              {"sparsity", p.share}};
    case SparsityPattern::Kind::kUnstructured: break;
  }
  return {{"kind", "unstructured"}, {"sparsity", p.share}};
}

Json LayerJson(const PrunedLayer& l) {
  Json j = {{"name", l.name},
            {"op", l.op},
            {"weights", l.weights},
            {"groups", l.plane.groups},
            {"rows", l.plane.all_rows()},
            {"channels", l.plane.channels},
            {"taps", l.plane.taps},
            {"count", l.count},
            {"zeros_before", l.zeros_before},
            {"zeros", l.zeros},
            {"pruned", l.pruned},
            {"reason", l.reason}};
  if (!l.pruned) return j;
  j["units"] = l.units;
  j["zero_units"] = l.zero_units;
  j["method"] = l.method;
  j["note"] = l.note;
  if (l.error >= 0) {
    j["error"] = l.error;
    j["dense_error"] = l.dense_error;
  }
  if (l.magnitude_error >= 0) j["magnitude_error"] = l.magnitude_error;
  if (l.cost >= 0) j["cost"] = JsonNumber(l.cost);
  return j;
}

/// One row per reason.
std::string LeftDense(const PruneReport& r) {
  std::vector<std::vector<std::string>> rows = {{"dense layer", "operator", "weights", "why"}};
  std::vector<int> more;
  std::vector<int64_t> weights;
  for (const PrunedLayer& l : r.layers) {
    if (l.reason.empty()) continue;
    const auto same = std::find_if(rows.begin() + 1, rows.end(), [&](const auto& row) {
      return row[1] == l.op && row[3] == l.reason;
    });
    if (same == rows.end()) {
      rows.push_back({l.name, l.op, "", l.reason});
      more.push_back(0);
      weights.push_back(l.count);
    } else {
      const auto i = static_cast<size_t>(same - rows.begin() - 1);
      ++more[i];
      weights[i] += l.count;
    }
  }
  for (size_t i = 0; i < more.size(); ++i) {
    rows[i + 1][2] = Cat(weights[i]);
    if (more[i] > 0) rows[i + 1][0] += Cat(" and ", more[i], " more");
  }
  return rows.size() > 1 ? "\n" + TextTable(rows) : "";
}

}  // namespace

Json ToJson(const PruneReport& r, const PruneOptions& options) {
  Json j = {{"pattern", PatternJson(options.pattern)},
            {"method", Name(options.method)},
            {"allocation", r.allocation},
            {"calibration_samples", r.calibration_samples},
            {"unit", UnitName(options.pattern)},
            {"weights", r.weights},
            {"zeros", r.zeros},
            {"units", r.units},
            {"zero_units", r.zero_units}};
  j["layers"] = Json::array();
  for (const PrunedLayer& l : r.layers) j["layers"].push_back(LayerJson(l));
  return j;
}

std::string SummaryText(const PruneReport& r, const PruneOptions& options) {
  int64_t layers = 0, touched = 0, others = 0;
  for (const PrunedLayer& l : r.layers) {
    layers += l.pruned ? 1 : 0;
    touched += l.zero_units > 0 ? 1 : 0;
    others += l.pruned ? 0 : l.count;
  }
  std::string out = Cat(ToString(options.pattern), ": ", r.zeros, " of ", r.weights,
                        " weights are zero (", Rounded(PercentOf(r.zeros, r.weights), 4),
                        " %), in ", touched, " of ", layers, layers == 1 ? " layer" : " layers");
  if (options.pattern.kind == SparsityPattern::Kind::kBlocks)
    out += Cat("; ", r.zero_units, " of ", r.units, " blocks");
  if (others > 0) out += Cat("; ", others, " weights of other layers stay");
  out += r.calibration_samples > 0 ? Cat("; fitted to ", r.calibration_samples, " samples\n")
                                   : "; by magnitude alone, without data\n";
  std::vector<std::vector<std::string>> rows = {
      {"layer", "operator", "weights", "zero %", "method", "error %", "magnitude's"}};
  int64_t left = 0;
  for (const PrunedLayer& l : r.layers) {
    if (!l.pruned) continue;
    if (rows.size() > kMostLayers) {
      ++left;
      continue;
    }
    rows.push_back({l.name, l.op, Cat(l.count), Fixed(PercentOf(l.zeros, l.count), 1),
                    l.note.empty() ? l.method : Cat(l.method, " (", l.note, ")"),
                    ErrorText(l.error), ErrorText(l.magnitude_error)});
  }
  out += "\n" + TextTable(rows);
  if (left > 0) out += Cat("and ", left, " more layers (--json has them all)\n");
  if (r.calibration_samples > 0)
    out +=
        "error: of the layer's outputs against the dense model's, on samples that it was not "
        "fitted "
        "to when it was chosen; layers before it were, so that behind them it is too good\n";
  return out + LeftDense(r);
}

}  // namespace infer
