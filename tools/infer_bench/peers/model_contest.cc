#include "tools/infer_bench/peers/model_contest.h"

#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "lib/ir/eval.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/pinning.h"
#include "tools/engines/wire.h"
#include "tools/infer_bench/peers/machine.h"

namespace infer::peers {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLeastStarts = 2;  // that an interval takes

struct OpenDim {
  size_t input;
  int axis;
  std::string symbol;
};

std::vector<OpenDim> SymbolsOf(const Graph& g) {
  std::vector<OpenDim> out;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const Value& v = *g.inputs()[i];
    if (!v.type().is_tensor() || !v.shape().has_rank()) continue;
    for (int axis = 0; axis < v.shape().rank(); ++axis)
      if (std::string s = v.shape()[axis].symbol(); !s.empty())
        out.push_back({i, axis, std::move(s)});
  }
  return out;
}

/// Without symbols that would need two extents.
std::map<std::string, int64_t> ExtentsOf(const std::vector<OpenDim>& dims,
                                         const std::vector<Datum>& values) {
  std::map<std::string, int64_t> extents;
  std::set<std::string> ambiguous;
  for (const OpenDim& d : dims) {
    const int64_t extent = values[d.input].tensor().dim(d.axis);
    if (extents.try_emplace(d.symbol, extent).first->second != extent) ambiguous.insert(d.symbol);
  }
  for (const std::string& s : ambiguous) extents.erase(s);
  return extents;
}

Result<Json> LoadRequest(const PreparedModel& m, const std::string& path, int threads,
                         const ModelContestOptions& options) {
  const Graph& g = m.model.graph;
  Json inputs = Json::array();
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    INFER_ASSIGN(Json described, WriteTensor(m.inputs.values[i].tensor(), g.inputs()[i]->name(),
                                             Cat(options.folder, "/input_", i, ".raw")));
    inputs.push_back(std::move(described));
  }
  Json outputs = Json::array();
  for (const Value* v : g.outputs()) outputs.push_back(v->name());
  std::error_code no_folder;
  const fs::path whole = fs::absolute(path, no_folder);
  if (no_folder) return IoError(Cat(path, ": ", no_folder.message()));
  return Json{{"op", "load"},
              {"model", whole.string()},
              {"threads", threads},
              {"inputs", std::move(inputs)},
              {"outputs", std::move(outputs)},
              {"symbols", m.symbols},
              {"external_root", options.external_root},
              {"lenient", options.lenient},
              {"infer", options.infer}};
}

/// The outputs of a contender, in order; empty where it was dropped.
Result<std::vector<Tensor>> OutputsOf(Contender& c, size_t count, const std::string& folder,
                                      const ContestOptions& options) {
  std::vector<Tensor> out;
  if (!c.takes_part()) return out;
  std::error_code error;
  fs::create_directory(folder, error);
  if (error) return IoError(Cat(folder, ": ", error.message()));
  INFER_ASSIGN(const Json answer, c.Ask({{"op", "outputs"}, {"folder", folder}}, options));
  if (answer.is_null()) return out;
  for (const Json& described : answer.value("outputs", Json::array())) {
    auto t = ReadTensor(described);
    if (!t.ok()) {
      c.Drop(t.status().message());
      return std::vector<Tensor>();
    }
    out.push_back(*std::move(t));
  }
  if (out.size() != count) {
    c.Drop(Cat(out.size(), " outputs came, not ", count));
    out.clear();
  }
  return out;
}

/// Compares the outputs; where they differ the peer is timed no further.
void CheckOutputs(const Graph& g, const AgreementRule& rule, const std::vector<Tensor>& ours,
                  const std::vector<Tensor>& peers, Contender& peer, Comparison& comparison) {
  if (ours.empty() || peers.empty()) return;
  std::vector<std::string> wrong;
  for (size_t i = 0; i < ours.size(); ++i) {
    OutputDifference d = CompareOutput(g.outputs()[i]->name(), peers[i], ours[i], rule);
    if (!d.agrees) wrong.push_back(Cat("output '", d.name, "': ", d.why));
    comparison.outputs.push_back(std::move(d));
  }
  if (wrong.empty()) return;
  comparison.disagrees = true;
  comparison.reason = Cat("outputs disagree: ", Join(wrong, "; "));
  peer.Drop(comparison.reason);
}

Status CheckAllOutputs(const Graph& g, const ModelContestOptions& options, ModelOutcome& outcome) {
  std::vector<Tensor> ours;
  for (size_t k = 0; k < outcome.contenders.size(); ++k) {
    Contender& c = outcome.contenders[k];
    INFER_ASSIGN(auto outputs, OutputsOf(c, g.outputs().size(), Cat(options.folder, "/outputs_", k),
                                         options.contest));
    if (k == 0)
      ours = std::move(outputs);
    else
      CheckOutputs(g, outcome.rule, ours, outputs, c, outcome.comparisons[k - 1]);
  }
  return {};
}

/// Of the first contender and the peer, by start.
StartRatios RatiosOf(const ContestResult& contest, size_t peer) {
  std::map<int, std::vector<double>> by_start;
  for (const Round& r : contest.rounds)
    if (const double ratio = r.median_ms[0] / r.median_ms[peer];
        r.quiet && std::isfinite(ratio) && ratio > 0)
      by_start[r.start].push_back(ratio);
  StartRatios ratios;
  for (auto& [start, rounds] : by_start) ratios.push_back(std::move(rounds));
  return ratios;
}

void Judge(const ModelOutcome& outcome, const ContestOptions& options, size_t peer,
           Comparison& comparison) {
  if (!comparison.reason.empty()) return;
  for (size_t k : {size_t{0}, peer})
    if (const Contender& c = outcome.contenders[k]; !c.failure.empty()) {
      comparison.reason = Cat(c.name, ": ", c.failure);
      return;
    }
  comparison.start_ratios = RatiosOf(outcome.contest, peer);
  size_t rounds = 0;
  for (const auto& of_start : comparison.start_ratios) rounds += of_start.size();
  if (static_cast<int>(rounds) < options.rounds || comparison.start_ratios.size() < kLeastStarts) {
    comparison.inconclusive = true;
    comparison.reason = Cat("other load ", Fixed(outcome.contest.other_load(), 2), " cores");
    return;
  }
  comparison.ratio = RatioOf(comparison.start_ratios);
}

}  // namespace

Result<PreparedModel> Prepare(Context& context, const std::string& path, const ModelOptions& model,
                              const InputOptions& options, const DataFlags& data) {
  INFER_ASSIGN(
      Model loaded,
      LoadModel(context, path, {.external_root = model.external_root, .lenient = model.lenient}));
  PreparedModel m{.model = std::move(loaded)};
  Graph& g = m.model.graph;
  const std::vector<OpenDim> symbols = SymbolsOf(g);
  INFER_TRY(ApplyShapes(g, model));
  for (const Value* v : g.outputs())
    if (!v->type().is_tensor())
      return Unsupported(Cat("output '", v->name(), "' is a ", ToString(v->type()),
                             ": engines are compared on tensors"));
  if (data.given()) {
    INFER_ASSIGN(const auto dataset, OpenData(data));
    INFER_ASSIGN(const Samples samples, MakeSamples(dataset, g, {0}));
    INFER_ASSIGN(m.inputs.values, samples.get(0));
  } else {
    INFER_ASSIGN(m.inputs, MakeInputs(g, options, [&](const std::vector<Datum>& values) {
                   return Evaluate(g, values);
                 }));
  }
  for (size_t i = 0; i < m.inputs.values.size(); ++i)
    if (!m.inputs.values[i].is_tensor())
      return Unsupported(Cat("input '", g.inputs()[i]->name(), "' is no tensor"));
  m.symbols = ExtentsOf(symbols, m.inputs.values);
  return m;
}

Result<ModelOutcome> RunModel(Context& context, const PreparedModel& model, const std::string& path,
                              const std::vector<EngineSpec>& engines, int threads,
                              const ModelContestOptions& options) {
  ModelOutcome outcome{.threads = threads, .rule = RuleFor(model.model.graph, options.rule)};
  INFER_ASSIGN(outcome.cpus, FirstCpus(threads));
  std::error_code error;
  fs::create_directories(options.folder, error);
  if (error) return IoError(Cat(options.folder, ": ", error.message()));
  INFER_ASSIGN(const Json load, LoadRequest(model, path, threads, options));

  const Graph& g = model.model.graph;
  for (const EngineSpec& engine : engines) outcome.contenders.push_back({.name = engine.name});
  for (size_t k = 1; k < engines.size(); ++k)
    outcome.comparisons.push_back({.peer = engines[k].name});
  Random random(options.contest.seed);
  for (int start = 0; start < options.contest.starts; ++start) {
    context.Step(Cat("load ", path));
    for (size_t k = 0; k < engines.size(); ++k)
      INFER_TRY(Enter(outcome.contenders[k], engines[k], load, outcome.cpus,
                      Cat(options.folder, "/", k, ".log"), options.contest));
    if (start == 0) INFER_TRY(CheckAllOutputs(g, options, outcome));
    context.Step(Cat("warm up ", path));
    for (Contender& c : outcome.contenders) INFER_TRY(WarmUp(c, outcome.cpus, options.contest));
    context.Step(Cat("measure ", path));
    INFER_TRY(
        Compete(outcome.contenders, options.contest, start, random, outcome.contest,
                [&](int64_t done, int64_t total) { context.Progress("rounds", done, total); }));
    for (Contender& c : outcome.contenders) c.worker.reset();
  }
  for (size_t k = 1; k < engines.size(); ++k)
    Judge(outcome, options.contest, k, outcome.comparisons[k - 1]);
  fs::remove_all(options.folder, error);
  return outcome;
}

}  // namespace infer::peers
