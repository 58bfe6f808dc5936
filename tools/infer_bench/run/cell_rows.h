#pragma once
/// The results of a report as rows of text: what the table, CSV and Markdown share.
#include <string>
#include <vector>

#include "tools/common/report.h"

namespace infer::bench {

struct Column {
  std::string name;
  bool label = false;  ///< says which cell it is; tables leave it out where all cells agree
  std::vector<std::string> cells;
};

enum class Detail {
  kBrief,  ///< what fits on a terminal, rounded
  kAll,    ///< every figure, in full
};
std::vector<Column> ColumnsOf(const Json& results, Detail detail);

/// Without the labels in which all cells agree; one model's name stays.
std::vector<Column> OnlyWhatDiffers(std::vector<Column> columns);

/// What it was measured on, in one line.
std::string MachineLine(const Json& report);

}  // namespace infer::bench
