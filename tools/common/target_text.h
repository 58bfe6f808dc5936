#pragma once
/// What CheckTarget found, for people and for reports.
#include "lib/onnx/model.h"
#include "quant/target/check.h"
#include "tools/common/report.h"

namespace infer {

FileVersions VersionsOf(const Model& m);
/// One line per kind of finding, with its first node and how many there are.
std::string ToText(const TargetReport& r, const Target& t);
Json ToJson(const TargetReport& r, const Target& t);

}  // namespace infer
