#pragma once
/// Class labels: a .npy or IDX array of integers, or CSV.
#include <string>
#include <utility>
#include <vector>

#include "datasets/readers/data_bytes.h"

namespace infer {

struct LabelTable {
  std::vector<std::string> files;  ///< the "file" column; empty: row i belongs to sample i
  std::vector<int64_t> labels;     ///< class indices, >= 0
};

/// CSV (RFC 4180): an optional header, then one row per sample. The label is in the column named
/// "label", else in the last; a column named "file" (or a first column that is no number) names
/// the sample.
Result<LabelTable> ParseLabelCsv(std::string_view text, const std::string& name);
/// By extension and magic: .csv/.txt, else .npy, else IDX (gzip too).
Result<LabelTable> ReadLabels(const std::string& path, const ReadLimits& limits = {});

}  // namespace infer
