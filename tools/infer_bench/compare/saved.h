#pragma once
/// Two measurements that lie in files: reports of `infer-bench run` and `compare`, and Google
/// Benchmark's JSON.
///
/// Runs of one process are not independent, so the unit is a start here, too: what a report gives
/// of one process counts as one value, and several reports of a side as several. The two sides were
/// measured at different times; what the machine did in between looks like a difference. Only a
/// history of the series tells how much that is.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/infer_bench/compare/conclusion.h"
#include "tools/infer_bench/compare/history.h"

namespace infer {

/// One thing that was measured, by start.
struct SavedSeries {
  std::string label;              ///< the same in both files where the same was measured
  std::string model;              ///< its SHA-256, or ""
  std::vector<double> starts_ms;  ///< a value of each start
  std::vector<double> runs_ms;    ///< of the first start, where the report has them
  /// What it ran with (device, level, ...) as far as that is not what a tool takes by itself. Sides
  /// may differ in it; two series of a history do not.
  Json settings = Json::object();
};

struct SavedReport {
  std::string path, format;  ///< the schema, or "google-benchmark"
  Json machine;              ///< what has to be equal on both sides
  std::vector<SavedSeries> series;
  uint64_t content = 0;  ///< hash of the file's bytes; 0: of none
};

/// Of `compare`: `side` 0 is its A, 1 its B. A report of interrupted work is read as far as it
/// goes.
Result<SavedReport> ReadSavedReport(const std::string& path, size_t side);

/// Reports of one side as one: starts of equal labels together. Where one of the reports has
/// several series of a label, those of equal models are together, in order. InvalidArgument: they
/// are of several devices, or one is another's copy. Pre: not empty.
Result<SavedReport> Merge(std::vector<SavedReport> reports);

struct SavedPair {
  SavedSeries a, b;
  Conclusion conclusion;
  double p = 1;                     ///< Mann-Whitney over starts; 1 where there are too few
  std::optional<Estimate> of_runs;  ///< Hodges-Lehmann over single runs: no verdict is made of it
  std::optional<NoiseFloor> floor;
};

struct SavedOptions {
  double min_effect = 0.015;
  /// What the series' history teaches; null: there is none.
  std::function<std::optional<NoiseFloor>(const SavedSeries&)> floor;
};

/// Pairs of equal labels, in order, whatever their models are: B may be a new version of A. A
/// single series in each file is a pair whatever it is called. `unmatched`: labels that one file
/// alone has.
std::vector<SavedPair> CompareSaved(const SavedReport& a, const SavedReport& b,
                                    const SavedOptions& options,
                                    std::vector<std::string>& unmatched);

Json ToJson(const SavedPair& pair);

}  // namespace infer
