#pragma once
/// A rewritten model against the golden one on data that the rewriting has not seen, and the gates:
/// the last word of quantize and prune.
#include "tools/common/cost_gates.h"
#include "tools/common/export_options.h"

namespace infer {

/// Below it a quarter of an output's energy is error, so that hardly anybody wants the result.
inline constexpr double kUsefulDecibels = 6;

struct JudgedModels {
  const Graph& golden;
  const Model& result;  ///< with the info of the file that it came from
};
struct JudgedData {
  const Samples& calibration;
  const Samples& evaluation;  ///< count 0: accuracy is not known, which is told
};
struct JudgeOptions {
  std::string golden_path;  ///< what --eval-command is run on
  bool layers = false;      ///< compare inner values, too
  /// Told the accuracy as soon as it is printed.
  std::function<void(const AccuracyReport&)> accuracy = nullptr;
};

/// Prints and reports accuracy, gates, and where accuracy fails which layers are to blame.
/// InvalidArgument: a gate on outputs without data to judge by, or an --eval-command that fails.
Result<GateVerdict> JudgeResult(Context& context, const JudgedModels& models,
                                const JudgedData& data, const GateFlags& gates,
                                const DeviceOptions& device, const ExportFlags& exported,
                                const JudgeOptions& options, Json& report);

}  // namespace infer
