#include "quant/accuracy/runtime_fault.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// A program of some layers, and the names of what it reads and makes.
struct Piece {
  std::vector<std::string> reads, makes;
  OutputSource run;
};

/// Layers by program, in the order of running. A layer comes as early as what it reads allows;
/// even programs run as written, odd ones rewritten.
std::vector<std::vector<size_t>> Schedule(const LayerMap& map, const std::vector<bool>& rewritten) {
  std::vector<size_t> at(map.layers().size());
  std::vector<std::vector<size_t>> programs;
  for (size_t i = 0; i < at.size(); ++i) {
    at[i] = rewritten[i] ? 1 : 0;
    for (const size_t r : map.layers()[i].of(Side::kCandidate).reads)
      at[i] = std::max(at[i], rewritten[r] == rewritten[i] ? at[r] : at[r] + 1);
    programs.resize(std::max(programs.size(), at[i] + 1));
    programs[at[i]].push_back(i);
  }
  return programs;
}

class FaultFinder {
 public:
  FaultFinder(const LayerMap& map, const Graph& graph, const Backend& backend,
              const Samples& samples, int level, const BreakOptions& options)
      : map_(map), graph_(graph), backend_(backend), level_(level), options_(options) {
    std::vector<int64_t> first(static_cast<size_t>(std::min(options.runs.samples, samples.count)));
    std::iota(first.begin(), first.end(), int64_t{0});
    samples_ = Subset(samples, first);
    compare_.next_token = options.next_token;
    compare_.threads = options.runs.threads;
    compare_.stop = options.runs.stop;
  }

  Status RunGolden() {
    INFER_ASSIGN(const OutputSource run,
                 RunsOf(graph_, backend_, 0, compare_.threads, compare_.stop));
    INFER_ASSIGN(golden_, Kept(run, samples_));
    return {};
  }

  /// The model as the backend runs it, in one program.
  Result<bool> WholeBreaks() const {
    INFER_ASSIGN(const OutputSource run,
                 RunsOf(graph_, backend_, level_, compare_.threads, compare_.stop));
    return Breaks(run);
  }

  /// With these layers rewritten together and all others as written.
  Result<bool> Breaks(const std::vector<size_t>& layers) const {
    INFER_ASSIGN(const OutputSource run, Mixed(layers));
    return Breaks(run);
  }

 private:
  Result<bool> Breaks(const OutputSource& run) const {
    INFER_ASSIGN(const auto report, CompareSources(golden_, run, graph_, samples_, compare_));
    return !Keeps(report, options_);
  }

  Result<OutputSource> Mixed(const std::vector<size_t>& layers) const {
    std::vector<bool> rewritten(map_.layers().size(), false);
    for (const size_t i : layers) rewritten[i] = true;
    auto pieces = std::make_shared<std::vector<Piece>>();
    const auto programs = Schedule(map_, rewritten);
    for (size_t p = 0; p < programs.size(); ++p) {
      if (programs[p].empty()) continue;
      INFER_ASSIGN(const Graph part, map_.Cut(programs[p], Side::kCandidate));
      if (part.outputs().empty()) continue;  // nobody reads what it makes
      Piece piece;
      for (const Value* v : part.inputs()) piece.reads.push_back(v->name());
      for (const Value* v : part.outputs()) piece.makes.push_back(v->name());
      INFER_ASSIGN(piece.run, RunsOf(part, backend_, p % 2 == 1 ? level_ : 0, compare_.threads,
                                     compare_.stop));
      pieces->push_back(std::move(piece));
    }
    return OutputSource([this, pieces](int64_t run, const std::vector<Datum>& inputs) {
      return Run(*pieces, run, inputs);
    });
  }

  Result<std::vector<Datum>> Run(const std::vector<Piece>& pieces, int64_t run,
                                 const std::vector<Datum>& inputs) const {
    std::map<std::string, Datum> values;
    for (size_t i = 0; i < inputs.size(); ++i) values[graph_.inputs()[i]->name()] = inputs[i];
    for (const Piece& piece : pieces) {
      std::vector<Datum> operands;
      for (const std::string& name : piece.reads) operands.push_back(values.at(name));
      INFER_ASSIGN(std::vector<Datum> made, piece.run(run, operands));
      for (size_t i = 0; i < made.size(); ++i) values[piece.makes[i]] = std::move(made[i]);
    }
    std::vector<Datum> outputs;
    for (const Value* v : graph_.outputs()) {
      if (v->is_constant()) values[v->name()] = Datum(*v->constant());
      const auto at = values.find(v->name());
      if (at == values.end())
        return Unsupported(Cat("output '", v->name(), "' is no tensor: nodes cannot run apart"));
      outputs.push_back(at->second);
    }
    return outputs;
  }

  const LayerMap& map_;
  const Graph& graph_;
  const Backend& backend_;
  int level_;
  const BreakOptions& options_;
  Samples samples_;
  CompareOptions compare_;
  OutputSource golden_;
};

Result<std::vector<std::string>> StepsOf(const LayerMap& map, const std::vector<size_t>& layers,
                                         const Backend& backend, int level, int threads) {
  INFER_ASSIGN(const Graph part, map.Cut(layers, Side::kCandidate));
  CompileOptions compile;
  compile.level = level;
  compile.threads = threads;
  INFER_ASSIGN(const auto program, backend.Compile(part, compile));
  std::vector<std::string> steps;
  for (const StepInfo& s : program->steps()) steps.push_back(Cat(s.op, ": ", s.kernel));
  return steps;
}

}  // namespace

Result<RuntimeFault> FindRuntimeFault(const LayerMap& map, const Graph& graph,
                                      const Backend& backend, const Samples& samples, int level,
                                      const BreakOptions& options) {
  FaultFinder finder(map, graph, backend, samples, level, options);
  RuntimeFault found;
  INFER_TRY(finder.RunGolden());
  INFER_ASSIGN(found.breaks, finder.WholeBreaks());
  if (!found.breaks) return found;
  std::vector<size_t> all(map.layers().size());
  std::iota(all.begin(), all.end(), size_t{0});
  INFER_ASSIGN(found.set,
               FindMinimalSet(
                   all, [&](const auto& s) { return finder.Breaks(s); }, options.max_tries));
  INFER_ASSIGN(found.steps, StepsOf(map, found.set.members, backend, level, options.runs.threads));
  return found;
}

}  // namespace infer
