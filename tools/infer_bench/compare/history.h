#pragma once
/// A history of comparisons: one line of JSON each, only ever appended to, and what it teaches of a
/// series' noise.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/common/report.h"

namespace infer {

struct HistoryEntry {
  /// "live": effect is what one comparison found. "files": b_ms are compared with the one before.
  std::string kind;
  Json series;  ///< what has to be equal for two entries to be of one series
  double effect = 0;
  double b_ms = 0;
  int starts = 0;
  std::string verdict;
  std::string time;  ///< UTC, ISO 8601
};

struct History {
  std::vector<HistoryEntry> entries;
  std::vector<std::string> damaged;  ///< "line 7: why", of lines that are no entries
};

/// A file that is not there is an empty history. Io.
Result<History> ReadHistory(const std::string& path);

/// One line, written at once under a lock: others may append meanwhile. A last line that was cut
/// off is ended first, so that it spoils itself only. Io.
Status AppendHistory(const std::string& path, const HistoryEntry& entry);

struct NoiseFloor {
  double share = 0;     ///< differences below it say nothing in this series
  int comparisons = 0;  ///< that it was learnt from
};

/// Three robust standard deviations (median |difference| x 1.4826 x 3) of the latest 40 differences
/// of the series: all of them, whatever was concluded, since leaving out alarms would make it too
/// small; up to half of them being real changes does little. Nothing below eight.
std::optional<NoiseFloor> LearnFloor(std::span<const HistoryEntry> entries, const Json& series,
                                     const std::string& kind);

/// For people, series by series in the order of their first entries: {"series": [{"kind", "series",
/// "entries": [{"time", "effect", "b_ms", "starts", "verdict", "floor"}]}], "damaged": [...]}.
/// floor: what LearnFloor took from the entries before, null where they were too few.
Json HistorySeries(const History& history);

std::string UtcNow();

}  // namespace infer
