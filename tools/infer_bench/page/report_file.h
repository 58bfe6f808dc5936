#pragma once
/// Reports in files, for the page: what may be drawn, and nothing else.
#include <string>

#include "tools/common/report.h"

namespace infer {

/// A report of infer-bench run, compare, load, soak, peers, predict or kernels, or of infer-opt
/// quantize or compare, as far as it goes: what is missing or null the page
/// leaves out. InvalidModel says what is wrong: no JSON, another kind or version, a value that is
/// not what it has to be, more than 64 MB. Io.
Result<Json> ReadReport(const std::string& path);

/// The checks of ReadReport on what was read. InvalidModel.
Status CheckReport(const Json& report);

}  // namespace infer
