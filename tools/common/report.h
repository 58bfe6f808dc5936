#pragma once
/// The frame of every JSON report: schema, tool, host, command line, warnings, step timings. The
/// schemas are docs/schemas/*.schema.json.
#include <nlohmann/json.hpp>

#include "lib/onnx/model.h"
#include "lib/support/statistics.h"
#include "runtime/api/program.h"
#include "tools/common/command.h"
#include "tools/common/text_table.h"

namespace infer {

using Json = nlohmann::ordered_json;

/// {"schema": schema, "tool": {...}, "command": [...], "host": {...}}.
Json NewReport(const Context& context, std::string_view schema);
/// The report with warnings and timings so far, as it is written.
std::string ReportText(const Context& context, Json report);
/// Adds warnings and timings, and writes to --json (nothing when it was not given).
Status WriteReport(Context& context, Json report);

/// A double that JSON can hold: infinities and NaN become "inf", "-inf", "nan".
Json JsonNumber(double v);
/// What is written of JSON: with a line feed at the end, U+FFFD for bytes that are no UTF-8.
/// `indent` -1: a line.
std::string JsonText(const Json& j, int indent);
Json ToJson(const Summary& s);
Json ToJson(const MemoryInfo& m);
Json ToJson(const Cost& c);
/// {"path", "sha256", "opset", "nodes", "inputs": [{name,type}], "outputs": [...]}.
Json ToJson(const Model& m, const std::string& path);
Json HostJson();

/// The operators of a step for people: those between quantizations, behind "QDQ ".
std::string ShownOperators(std::string_view op);

}  // namespace infer
