#pragma once
/// Model by device, as JSON and as a table.
#include "runtime/engine/device_matrix.h"
#include "tools/common/report.h"

namespace infer::bench {

/// {"cells", "device_share"}.
Json MatrixJson(const std::vector<engine::MatrixCell>& cells);
std::string MatrixTable(const std::vector<engine::MatrixCell>& cells);

}  // namespace infer::bench
