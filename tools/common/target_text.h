#pragma once
/// What CheckTarget found, for people and for reports.
#include "lib/onnx/model.h"
#include "quant/target/readers.h"
#include "tools/common/report.h"

namespace infer {

FileVersions VersionsOf(const Model& m);
/// One line per kind of finding, with its first node and how many there are.
std::string ToText(const TargetReport& r, const Target& t);
Json ToJson(const TargetReport& r, const Target& t);
/// "ONNX Runtime 1.8 (by opset and IR version) and newer, OpenVINO 2026.4".
std::string ToText(const Readers& r);
Json ToJson(const Readers& r);

}  // namespace infer
