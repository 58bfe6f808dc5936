#include "quant/search/latency.h"

#include "lib/support/measure.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr double kBlockMs = 3;
constexpr int kLeastBlocks = 3, kMostBlocks = 60, kMostRuns = 200;
constexpr double kQuantile = 0.15;
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

}  // namespace

Result<LatencyProbe> LatencyProbe::Make(const Graph& base, const std::vector<Datum>& inputs,
                                        const Backend& backend, int threads, double enough_ms,
                                        std::stop_token stop) {
  LatencyProbe probe(inputs, backend, threads, enough_ms, std::move(stop));
  INFER_ASSIGN(probe.base_, probe.Compiled(base.Clone()));
  std::vector<double> ms;
  for (int block = 0; block < kLeastBlocks; ++block)
    INFER_TRY(probe.Block(probe.base_, &ms, nullptr));
  probe.base_ms_ = Quantile(ms, kQuantile);
  return probe;
}

Result<TappedProgram> LatencyProbe::Compiled(Graph g) const {
  CompileOptions compile;
  compile.threads = threads_;
  INFER_ASSIGN(TappedProgram t, CompileOwnedWithTaps(std::move(g), {}, *backend_, compile));
  // Binds the inputs, and is what a first run costs more.
  INFER_TRY(RunInputs(*t.context, *inputs_, stop_));
  return t;
}

Status LatencyProbe::Block(const TappedProgram& t, std::vector<double>* whole,
                           std::vector<std::vector<double>>* steps) const {
  INFER_TRY(t.context->Run({.stop = stop_}));
  const auto start = std::chrono::steady_clock::now();
  for (int run = 0;
       run < kMostRuns && (run == 0 || MsSince(start) < std::min(kBlockMs, enough_ms_)); ++run) {
    const auto one = std::chrono::steady_clock::now();
    INFER_TRY(t.context->Run({.profile = steps != nullptr, .stop = stop_}));
    if (whole) whole->push_back(MsSince(one));
    if (!steps) continue;
    std::vector<double> ms(steps->size(), 0);
    for (const StepTiming& s : t.context->profile())
      if (s.step < ms.size()) ms[s.step] += s.duration_ms;
    for (size_t i = 0; i < ms.size(); ++i) (*steps)[i].push_back(ms[i]);
  }
  return {};
}

Result<double> LatencyProbe::Ratio(Graph g, double times) {
  INFER_ASSIGN(const LayerTimes t, Layers(std::move(g), 0, times));
  return t.whole;
}

Result<LayerTimes> LatencyProbe::Layers(Graph g, size_t layers, double times) {
  INFER_ASSIGN(const TappedProgram t, Compiled(std::move(g)));
  const auto& infos = t.program->steps();
  std::vector<double> base, whole;
  std::vector<std::vector<double>> steps(infos.size());
  const auto start = std::chrono::steady_clock::now();
  for (int block = 0; block < kMostBlocks; ++block) {
    if (block >= kLeastBlocks && MsSince(start) > times * enough_ms_) break;
    INFER_TRY(Block(base_, &base, nullptr));
    INFER_TRY(Block(t, &whole, nullptr));
    if (layers > 0) INFER_TRY(Block(t, nullptr, &steps));
  }
  LayerTimes out;
  out.whole = Quantile(whole, kQuantile) / Quantile(base, kQuantile);
  if (layers == 0) return out;
  out.layers.resize(layers);
  double sum = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const double ms = Quantile(steps[i], kQuantile);
    sum += ms;
    const std::vector<size_t> of = LayersOf(infos[i], layers);
    if (of.empty()) out.other += ms;
    for (const size_t l : of) out.layers[l] += ms / static_cast<double>(of.size());
  }
  // Profiling costs by itself: the parts make up the whole.
  const double scale = sum > 0 ? out.whole / sum : 0;
  out.other *= scale;
  for (double& ms : out.layers) ms *= scale;
  return out;
}

}  // namespace infer
