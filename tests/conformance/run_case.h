#pragma once
/// One case: run as it came, and after import -> passes -> export -> import.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/ops/op_def.h"
#include "tests/conformance/cases.h"

namespace infer::conformance {

struct RunSettings {
  std::string backend = "reference";
  int level = 1;             ///< CompileOptions::level
  bool roundtrip = false;    ///< also rewrite, export, import the bytes and run again
  int rewrites = 3;          ///< OptimizeOptions::level of the round trip
  int opset = 0;             ///< ExportOptions::opset of the round trip
  bool export_only = false;  ///< of the round trip: nothing is run
  std::string write_dir;     ///< "" or where exported models go, DIR/CASE/model.onnx
};

struct Outcome {
  std::string reason;  ///< "": passed
  /// How far it came when it failed: import or run of the case as it came; then rewrite, export,
  /// reimport or rerun.
  std::string stage;
  /// Of ai.onnx, before and after the round trip; 0: there was none, or the file names none.
  int64_t opset = 0, written_opset = 0;
  std::string refused;  ///< why RunSettings::opset cannot express it, so that nothing was exported
  std::vector<std::string> notes;
  bool passed() const { return reason.empty(); }
  /// Passes as it came, fails in the round trip.
  bool lost_in_roundtrip() const { return !passed() && stage != "import" && stage != "run"; }
};

/// Runs the case in a process of its own, so that a crash or a hang is one failed case. As in
/// ONNX's runner, the stored inputs count and not the shapes that the model declares for them; a
/// note says where these contradict.
Outcome RunIsolated(const Case& c, const OpRegistry& ops, const RunSettings& settings);

}  // namespace infer::conformance
