#include "tools/common/judgement.h"

#include "lib/support/strings.h"
#include "tools/common/guilt.h"
#include "tools/common/scratch_folder.h"
#include "tools/common/verification.h"

namespace infer {

Result<GateVerdict> JudgeResult(Context& context, const JudgedModels& models,
                                const JudgedData& data, const GateFlags& gates,
                                const DeviceOptions& device, const ExportFlags& exported,
                                const JudgeOptions& options, Json& report) {
  const Graph& candidate = models.result.graph;
  std::vector<GateResult> results;
  AccuracyReport accuracy;
  bool accurate = true;
  if (data.evaluation.count > 0) {
    context.Step("evaluate");
    INFER_ASSIGN(accuracy, CompareGraphs(context, models.golden, candidate, device, data.evaluation,
                                         options.layers));
    results = CheckGates(accuracy, gates.limits());
    context.Print("\n" + AccuracyText(accuracy, context.verbose));
    report["accuracy"] = ToJson(accuracy);
    accurate = AllPassed(results);
    if (options.accuracy) options.accuracy(accuracy);
  } else {
    if (gates.any()) return InvalidArgument("a gate needs data to judge by: --eval X, or --data X");
    context.PrintLine("accuracy: not known, because no data was given (--eval X)");
  }
  CostSide before{models.golden, models.result.info.file_bytes}, after{candidate};
  if (gates.size()) {
    INFER_ASSIGN(after.bytes, exported.Size(models.result));
  }
  INFER_ASSIGN(auto costs,
               CheckCosts(context, gates, device, &before, after,
                          data.evaluation.count > 0 ? data.evaluation : data.calibration, report));
  results.insert(results.end(), costs.begin(), costs.end());
  if (gates.eval.given()) {
    // In a folder of its own while the user's program reads it.
    INFER_ASSIGN(const auto folder, ScratchFolder::Make());
    const std::string path = Cat(folder->path(), "/candidate.onnx");
    INFER_TRY(exported.WriteTo(models.result, path).status());
    INFER_ASSIGN(GateResult judged,
                 JudgeByCommand(context, gates.eval, options.golden_path, path, report));
    results.push_back(std::move(judged));
  }
  if (!results.empty()) context.Print("\n" + GateText(results));
  if (!accurate)
    TellGuilty(context, Isolate(context, models.golden, candidate, device, data.evaluation),
               accuracy, report);
  report["gates"] = ToJson(results);
  return VerdictOf(results);
}

}  // namespace infer
