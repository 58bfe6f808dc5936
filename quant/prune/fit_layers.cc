#include "quant/prune/fit_layers.h"

#include <algorithm>
#include <utility>

#include "lib/support/hash.h"
#include "lib/support/strings.h"
#include "quant/prune/goal.h"
#include "quant/prune/statistics.h"
#include "quant/recipe/held_out.h"

namespace infer {
namespace {

constexpr int64_t kNearerSamples = 32;  // that tell old from new statistics

/// For each normalization how many of the layers stand before it.
std::vector<size_t> LayersBefore(const Graph& g, std::span<const std::string> normalizations,
                                 std::span<const SelectedLayer> layers) {
  std::map<const Node*, size_t> place;
  for (const auto& n : g.nodes()) place.emplace(n.get(), place.size());
  std::vector<size_t> first;  // place of each layer; of several that share weights the first
  for (const SelectedLayer& l : layers) {
    size_t at = place.size();
    for (const Use& use : g.FindValue(l.weights.weights)->uses())
      at = std::min(at, place.at(use.user));
    first.push_back(at);
  }
  std::vector<size_t> before;
  for (const std::string& name : normalizations) {
    const size_t at = place.at(g.FindValue(name)->producer());
    before.push_back(static_cast<size_t>(
        std::count_if(first.begin(), first.end(), [&](size_t f) { return f < at; })));
  }
  return before;
}

class ChannelFitter {
 public:
  ChannelFitter(const Graph& work, const std::vector<PrunableWeights>& layers,
                const AxisCuts& readers, const Samples& samples, const Backend& backend,
                const ChannelOptions& options)
      : work_(work),
        layers_(layers),
        readers_(readers),
        samples_(samples),
        backend_(backend),
        options_(options) {}

  /// Layers behind a normalization make up for its old statistics as well as they can, so new ones
  /// do not always help: the outputs decide.
  Result<FittedChannels> Run() const {
    const std::vector<SelectedLayer> selected = Masked();
    INFER_ASSIGN(FittedChannels fitted, Fitted(selected, {}));
    const std::vector<std::string> names = EstimatedStatistics(work_);
    if (samples_.count == 0 || names.empty()) return fitted;
    INFER_ASSIGN(FittedChannels anew, Fitted(selected, names));
    INFER_ASSIGN(const bool nearer, IsNearer(anew.graph, fitted.graph));
    return nearer ? std::move(anew) : std::move(fitted);
  }

 private:
  /// Weights that a mask of removed units leaves, by constant.
  std::vector<SelectedLayer> Masked() const {
    std::vector<SelectedLayer> selected;
    for (const PrunableWeights& layer : layers_) {
      if (!layer.reason.empty()) continue;
      SelectedLayer s{layer, layer.size(), 0, {}};
      const Tensor& t = *work_.FindValue(layer.weights)->constant();
      for (int axis = 0; axis < t.rank(); ++axis) {
        const auto it = readers_.find({layer.weights, axis});
        if (it == readers_.end()) continue;
        if (s.keep.empty()) s.keep.assign(static_cast<size_t>(layer.size()), 1);
        int64_t inner = 1;
        for (int a = axis + 1; a < t.rank(); ++a) inner *= t.dim(a);
        size_t at = 0;
        layer.place.ForEach([&](int64_t element) {
          const int64_t i = element / inner % t.dim(axis);
          if (std::binary_search(it->second.begin(), it->second.end(), i)) s.keep[at] = 0;
          ++at;
        });
      }
      if (!s.keep.empty() || samples_.count > 0) selected.push_back(std::move(s));
    }
    return selected;
  }

  /// Layers in order of the graph, and `normalizations` (in order, too) between them.
  Result<FittedChannels> Fitted(std::span<const SelectedLayer> selected,
                                std::span<const std::string> normalizations) const {
    FittedChannels fitted{work_.Clone(), {}, std::ssize(normalizations)};
    InOrderOptions in_order;
    in_order.max_bytes = options_.max_bytes;
    in_order.threads = options_.threads;
    in_order.progress = options_.progress;
    in_order.stop = options_.stop;
    in_order.store = options_.store;
    in_order.record = Cat("fit ", CutsKey(), " ", samples_.count, " ", normalizations.size(), " ");
    const std::vector<size_t> before = LayersBefore(work_, normalizations, selected);
    size_t estimated = 0;
    if (!normalizations.empty())
      in_order.between = [&](size_t next, Graph& g) -> Status {
        const size_t begin = estimated;
        while (estimated < before.size() && before[estimated] <= next) ++estimated;
        return EstimateStatistics(work_, g, normalizations.subspan(begin, estimated - begin),
                                  samples_, backend_, {options_.threads, options_.stop});
      };
    INFER_TRY(PruneLayersInOrder(
        work_, fitted.graph, selected, samples_, backend_, in_order,
        [&](size_t i, const LayerResult& r) {
          const PrunableWeights& l = selected[i].weights;
          fitted.layers.push_back({l.layer, l.op, r.method, r.note, r.error, r.dense_error});
        }));
    return fitted;
  }

  /// Of the units that go.
  uint64_t CutsKey() const {
    Hasher h;
    for (const auto& [axis, indices] : readers_) {
      h.Add(axis.first).Add(static_cast<uint64_t>(axis.second));
      for (const int64_t i : indices) h.Add(static_cast<uint64_t>(i));
    }
    return h.value();
  }

  Result<bool> IsNearer(const Graph& a, const Graph& b) const {
    HeldOut::Options o;
    o.threads = options_.threads;
    o.stop = options_.stop;
    const Samples judges = samples_.count < kHoldOutSamplesFrom ? samples_ : JudgePart(samples_);
    INFER_ASSIGN(const HeldOut judge,
                 HeldOut::Make(work_, EvenlySpaced(judges, kNearerSamples), backend_, o));
    INFER_ASSIGN(const HeldOutError of_a, judge.Measure(a));
    INFER_ASSIGN(const HeldOutError of_b, judge.Measure(b));
    return of_a.noise < of_b.noise;
  }

  const Graph& work_;
  const std::vector<PrunableWeights>& layers_;
  const AxisCuts& readers_;
  const Samples& samples_;
  const Backend& backend_;
  const ChannelOptions& options_;
};

}  // namespace

Result<FittedChannels> FitLayers(const Graph& work, const std::vector<PrunableWeights>& layers,
                                 const AxisCuts& readers, const Samples& samples,
                                 const Backend& backend, const ChannelOptions& options) {
  return ChannelFitter(work, layers, readers, samples, backend, options).Run();
}

}  // namespace infer
