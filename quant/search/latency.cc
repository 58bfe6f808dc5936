#include "quant/search/latency.h"

#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "quant/calibrate/calibrate.h"

namespace infer {
namespace {

constexpr int kWarmUps = 2, kLeastRuns = 7, kMostRuns = 101;
constexpr double kEnoughMs = 1000;
constexpr std::string_view kTag = "layer:";

std::vector<size_t> LayersOf(const StepInfo& step, size_t layers) {
  std::vector<size_t> found;
  for (const std::string& name : step.fused_from) {
    if (name.rfind(kTag, 0) != 0) continue;
    const auto i = ParseInt(std::string_view(name).substr(kTag.size()));
    if (i && static_cast<size_t>(*i) < layers) found.push_back(static_cast<size_t>(*i));
  }
  return found;
}

struct Timed {
  TappedProgram program;
  std::vector<std::vector<double>> steps;  // samples by step
};

}  // namespace

Result<std::vector<LayerTimes>> TimeLayers(const std::vector<const Graph*>& graphs, size_t layers,
                                           const std::vector<Datum>& inputs, const Backend& backend,
                                           int threads, const std::stop_token& stop) {
  CompileOptions compile;
  compile.threads = threads;
  std::vector<Timed> timed(graphs.size());
  for (size_t g = 0; g < graphs.size(); ++g) {
    INFER_ASSIGN(timed[g].program, CompileWithTaps(*graphs[g], {}, backend, compile));
    timed[g].steps.resize(timed[g].program.program->steps().size());
    for (int i = 0; i < kWarmUps; ++i)
      INFER_TRY(RunInputs(*timed[g].program.context, inputs, stop));
  }
  const auto start = std::chrono::steady_clock::now();
  const double enough = kEnoughMs * static_cast<double>(graphs.size());
  for (int run = 0; run < kMostRuns; ++run) {
    if (run >= kLeastRuns && MsSince(start) > enough) break;
    for (Timed& t : timed) {
      INFER_TRY(t.program.context->Run({.profile = true, .stop = stop}));
      std::vector<double> ms(t.steps.size(), 0);
      for (const StepTiming& s : t.program.context->profile())
        if (s.step < ms.size()) ms[s.step] += s.duration_ms;
      for (size_t i = 0; i < ms.size(); ++i) t.steps[i].push_back(ms[i]);
    }
  }
  std::vector<LayerTimes> out;
  for (const Timed& t : timed) {
    LayerTimes times{std::vector<double>(layers, 0), 0};
    for (size_t i = 0; i < t.steps.size(); ++i) {
      const double ms = Quantile(t.steps[i], 0.5);
      const std::vector<size_t> of = LayersOf(t.program.program->steps()[i], layers);
      if (of.empty()) times.other_ms += ms;
      for (const size_t l : of) times.ms[l] += ms / static_cast<double>(of.size());
    }
    out.push_back(std::move(times));
  }
  return out;
}

}  // namespace infer
