#pragma once
/// A report of `infer-bench run` in the forms that --format names. All read the report alone, so
/// that what they say is what --json holds.
#include <string>

#include "tools/common/report.h"

namespace infer::bench {

/// For people: aligned, only the columns in which cells differ, a sparkline of the samples.
std::string RunTable(const Json& report, bool colour);
/// A row for each cell, a header; RFC 4180.
std::string RunCsv(const Json& report);
/// A table in GitHub's dialect, with what it was measured on below it.
std::string RunMarkdown(const Json& report);
/// Google Benchmark's JSON: "context", and in "benchmarks" repetitions and aggregates of each cell,
/// so that its tools/compare.py (and what else reads it) works. A repetition is a stretch of
/// samples; at most 50 of them.
std::string RunGbench(const Json& report);
/// One record as a line of JSON: {"type": type, ...record}.
std::string JsonLine(std::string_view type, const Json& record);

}  // namespace infer::bench
