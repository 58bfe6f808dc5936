#include "quant/algorithm/bias_correction.h"

#include <algorithm>

namespace infer {

Result<int> CorrectBiasFast(StaticModel& model, const Graph& original, const Samples& samples,
                            const ChannelRun& run) {
  std::vector<AlgorithmLayer> layers;
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(model.graph, original, model.scheme));
    layers = IntegerLayers(plan);
  }
  std::vector<ChannelRequest> requests;
  for (const AlgorithmLayer& l : layers)
    if (HasInputChannels(*model.graph.FindValue(l.output)->producer()))
      requests.push_back({l.input, l.channel_axis});
  INFER_ASSIGN(const auto stats, ObserveChannels(model.graph, requests, samples, run));
  int changed = 0;
  for (const AlgorithmLayer& l : layers) {
    Node& node = *model.graph.FindValue(l.output)->producer();
    const auto it = stats.find(l.input);
    if (!HasInputChannels(node) || it == stats.end()) continue;
    const std::vector<double>& mean = it->second.mean;
    if (static_cast<int64_t>(mean.size()) != InputChannels(node)) continue;
    const Tensor rounded = FakeQuantizedWeights(node, model.scheme);
    const auto w = node.input(1)->constant()->data<float>(), r = rounded.data<float>();
    const double alpha = WeightLayoutOf(node)->alpha;
    std::vector<double> delta;
    ForEachWeight(node, [&](size_t i, int64_t in, int64_t out) {
      if (static_cast<int64_t>(delta.size()) <= out) delta.resize(static_cast<size_t>(out) + 1);
      delta[static_cast<size_t>(out)] += alpha *
                                         (static_cast<double>(w[i]) - static_cast<double>(r[i])) *
                                         mean[static_cast<size_t>(in)];
    });
    INFER_ASSIGN(const bool done, AddToBias(model.graph, l, delta));
    changed += done ? 1 : 0;
  }
  return changed;
}

Result<int> CorrectBiasSequential(StaticModel& model, const Graph& original, const Samples& samples,
                                  const ChannelRun& run, const SequentialOptions& options) {
  std::vector<AlgorithmLayer> layers;
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(model.graph, original, model.scheme));
    layers = IntegerLayers(plan);
  }
  std::vector<ChannelRequest> requests;
  for (const AlgorithmLayer& l : layers) requests.push_back({l.biased, l.channel_axis});
  INFER_ASSIGN(const auto golden, ObserveChannels(model.graph, requests, samples, run));
  const size_t rounds = std::min(layers.size(), static_cast<size_t>(options.max_rounds));
  ChannelRun quantized = run;
  quantized.level = 1;
  int changed = 0;
  for (size_t round = 0; round < rounds; ++round) {
    if (options.out_of_time && options.out_of_time()) break;
    const size_t first = round * layers.size() / rounds;
    const size_t last = (round + 1) * layers.size() / rounds;
    INFER_ASSIGN(StaticResult now, RewriteStatic(model, original, samples.count));
    std::vector<ChannelRequest> taps;
    for (size_t k = first; k < last; ++k)
      if (now.graph.FindValue(layers[k].biased)) taps.push_back(requests[k]);
    INFER_ASSIGN(const auto got, ObserveChannels(now.graph, taps, samples, quantized));
    for (size_t k = first; k < last; ++k) {
      const auto want = golden.find(layers[k].biased), is = got.find(layers[k].biased);
      if (want == golden.end() || is == got.end()) continue;
      const std::vector<double>&a = want->second.mean, &b = is->second.mean;
      if (a.size() != b.size()) continue;
      std::vector<double> delta(a.size());
      for (size_t c = 0; c < a.size(); ++c) delta[c] = a[c] - b[c];
      INFER_ASSIGN(const bool done, AddToBias(model.graph, layers[k], delta));
      changed += done ? 1 : 0;
    }
  }
  return changed;
}

}  // namespace infer
