#include "tools/infer_opt/compare/bisect.h"

#include <algorithm>
#include <filesystem>

#include "lib/onnx/export.h"
#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/accuracy/runtime_fault.h"
#include "quant/calibrate/calibrate.h"
#include "tools/common/guilt.h"

namespace infer {
namespace {

namespace fs = std::filesystem;

std::string TextOf(const LayerMap& map, size_t layer) {
  return Cat(Printable(map.layers()[layer].name()), " (", map.OpsOf(layer, Side::kGolden), " as ",
             map.OpsOf(layer, Side::kCandidate), ")");
}

/// The file of one side of a cut, with the opsets of the model that it comes from.
Status Write(const Model& from, Graph part, const std::string& path) {
  Model model(std::move(part));
  model.info.ir_version = from.info.ir_version;
  model.info.opsets = from.info.opsets;
  model.info.source_files = from.info.source_files;
  return ExportModel(model, path, {.target = ExportTarget::kOrt}).status();
}

/// Inputs and outputs of the cut, as golden computes them of the first sample.
Status WriteTestSet(const BisectRequest& r, const Graph& part, const Backend& backend,
                    const std::string& folder) {
  std::vector<std::string> taps;
  for (const auto* values : {&part.inputs(), &part.outputs()})
    for (const Value* v : *values)
      if (!r.golden.graph.FindValue(v->name())->is_input()) taps.push_back(v->name());
  CompileOptions compile;
  compile.level = r.options.runs.level;
  compile.threads = r.device.threads;
  INFER_ASSIGN(const TappedProgram t, CompileWithTaps(r.golden.graph, taps, backend, compile));
  INFER_ASSIGN(const auto inputs, r.samples.get(0));
  INFER_TRY(RunInputs(*t.context, inputs, r.options.runs.stop));
  const auto value = [&](const std::string& name) -> const Datum& {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (r.golden.graph.inputs()[i]->name() == name) return inputs[i];
    const auto at = std::find(taps.begin(), taps.end(), name);
    return t.context->output(t.num_outputs + static_cast<size_t>(at - taps.begin()));
  };
  const auto write = [&](const std::vector<Value*>& values, std::string_view kind) -> Status {
    for (size_t i = 0; i < values.size(); ++i)
      INFER_TRY(WriteTensorPb(value(values[i]->name()).tensor(),
                              Cat(folder, "/", kind, "_", i, ".pb"), values[i]->name()));
    return {};
  };
  INFER_TRY(write(part.inputs(), "input"));
  return write(part.outputs(), "output");
}

Status WriteCut(Context& context, const BisectRequest& r, const LayerMap& map,
                const std::vector<size_t>& layers, const Backend& backend) {
  const std::string data = r.cut + "/test_data_set_0";
  std::error_code error;
  fs::create_directories(data, error);
  if (error) return IoError(Cat(data, ": ", error.message()));
  INFER_ASSIGN(Graph candidate, map.Cut(layers, Side::kCandidate));
  INFER_ASSIGN(Graph golden, map.Cut(layers, Side::kGolden));
  INFER_TRY(WriteTestSet(r, candidate, backend, data));
  const size_t nodes = candidate.num_nodes();
  INFER_TRY(Write(r.candidate, std::move(candidate), r.cut + "/model.onnx"));
  INFER_TRY(Write(r.golden, std::move(golden), r.cut + "/golden.onnx"));
  context.PrintLine(Cat("cut out: ", r.cut, "/model.onnx, ", nodes,
                        " nodes, with golden.onnx and the inputs in test_data_set_0 (try: ",
                        "infer-opt compare ", r.cut, "/model.onnx --reference ", r.cut, ")"));
  return {};
}

/// The candidate is right node by node: what does the backend get wrong at the level it runs at?
Status BisectRuntime(Context& context, const BisectRequest& r, const Backend& backend, Json& j) {
  const Graph& graph = r.candidate.graph;
  const int level = r.device.level;
  INFER_ASSIGN(const LayerMap map, LayerMap::Of(graph, graph));
  INFER_ASSIGN(const RuntimeFault found,
               FindRuntimeFault(map, graph, backend, r.samples, level, r.options));
  j["runtime"] = {{"level", level}, {"breaks", found.breaks}};
  if (!found.breaks) {
    context.PrintLine(Cat("bisect: on ", std::min(r.options.runs.samples, r.samples.count),
                          " samples the candidate keeps the limits, node by node and at level ",
                          level, "; --layer-samples takes more"));
    return {};
  }
  const MinimalSet& set = found.set;
  context.PrintLine(Cat("bisect: node by node the candidate keeps the limits; what level ", level,
                        " of the runtime makes of it does not. Of ", map.layers().size(),
                        " nodes these ", set.members.size(),
                        " break them when only they run at that level",
                        set.minimal ? ", and without any of them the rest does not"
                                    : "; fewer may, the judgements ran out",
                        " (", set.tried, " programs tried):"));
  j["runtime"]["minimal"] = set.minimal;
  j["runtime"]["tried"] = set.tried;
  j["runtime"]["steps"] = found.steps;
  j["runtime"]["set"] = Json::array();
  for (const size_t i : set.members) {
    const std::string op = map.OpsOf(i, Side::kCandidate);
    context.PrintLine(Cat("  ", Printable(map.layers()[i].name()), " (", op, ")"));
    j["runtime"]["set"].push_back({{"layer", map.layers()[i].name()}, {"op", op}});
  }
  for (const std::string& step : found.steps) context.PrintLine("  runs as " + step);
  if (r.cut.empty()) return {};
  j["cut"] = r.cut;
  const BisectRequest alone{r.candidate, r.candidate, r.samples, r.device, r.options, r.cut};
  return WriteCut(context, alone, map, set.members, backend);
}

}  // namespace

Status BisectLayers(Context& context, const BisectRequest& r, Json& report) {
  INFER_ASSIGN(const LayerMap map, LayerMap::Of(r.golden.graph, r.candidate.graph));
  SetLaneBudget(r.device.threads > 0 ? r.device.threads : AvailableCores());
  INFER_ASSIGN(const auto backend, MakeBackend(r.device.device));
  INFER_ASSIGN(const BreakReport found, FindBreakingLayers(map, *backend, r.samples, r.options));
  Json& j = report["bisect"];
  j = {
      {"breaks", found.breaks}, {"layers", map.layers().size()}, {"changed", map.Changed().size()}};
  if (!found.breaks && r.device.level > 0) return BisectRuntime(context, r, *backend, j);
  if (!found.breaks) {
    context.PrintLine(map.Changed().empty() ? "bisect: both graphs are the same"
                                            : Cat("bisect: the candidate keeps the limits on ",
                                                  std::min(r.options.runs.samples, r.samples.count),
                                                  " samples; --layer-samples takes more"));
    return {};
  }
  if (found.first) {
    context.PrintLine(Cat("first beyond the limit: ", TextOf(map, *found.first), ", SQNR ",
                          Fixed(found.first_metrics.sqnr_db, 1), " dB, max|d|/max|ref| ",
                          Rounded(found.first_metrics.max_error_ratio, 3)));
    j["first"] = {{"layer", map.layers()[*found.first].name()},
                  {"sqnr_db", JsonNumber(found.first_metrics.sqnr_db)},
                  {"max_error_ratio", JsonNumber(found.first_metrics.max_error_ratio)}};
  }
  j["set"] = Json::array();
  j["minimal"] = found.set.minimal;
  j["tried"] = found.set.tried;
  context.PrintLine(Cat(found.set.members.size(), " of ", map.Changed().size(),
                        " layers alone break the limits",
                        found.set.minimal ? ", and without any of them the rest does not"
                                          : "; fewer may, the judgements ran out",
                        " (", found.set.tried, " models tried):"));
  for (const size_t i : found.set.members) {
    context.PrintLine("  " + TextOf(map, i));
    j["set"].push_back({{"layer", map.layers()[i].name()},
                        {"golden_op", map.OpsOf(i, Side::kGolden)},
                        {"candidate_op", map.OpsOf(i, Side::kCandidate)}});
  }
  if (r.cut.empty()) return {};
  j["cut"] = r.cut;
  return WriteCut(context, r, map, found.set.members, *backend);
}

}  // namespace infer
