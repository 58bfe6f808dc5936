#include "quant/algorithm/static_rounding.h"

#include <algorithm>
#include <set>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "quant/algorithm/gptq.h"
#include "quant/algorithm/layers.h"

namespace infer {
namespace {

/// Codes lie around grid.middle(), without the lowest, which static weights leave out.
constexpr int kLeastCode = 1;

/// A layer's weights as rows of what each output is a product with, and their way back.
struct LayerRows {
  std::string output;  ///< of the node
  Tensor weights;
  std::vector<float> turned;  // [rows, depth] where the constant lies the other way
  bool rows_first = true;
  int64_t rows = 0, depth = 0;
  QuantParams params;
  RowSource source;  // in the quantized graph
  BlockWeights view() const {
    return {rows_first ? weights.data<float>() : std::span<const float>(turned), rows, depth};
  }
};

/// What stands for `name` as integer layers read it: the dequantized value.
std::string RoundedName(const Graph& quantized, const std::string& name) {
  for (const std::string& n : {name, name + "_dequantized"}) {
    if (DequantizeBefore(quantized.FindValue(n))) return n;
  }
  return "";
}

/// nullopt: the layer keeps its codes.
std::optional<LayerRows> RowsOf(const Node& node, const Graph& quantized, const QuantScheme& s) {
  auto source = SourceOf(node);
  if (!source.ok() || !node.input(1)->is_constant() || !node.input(1)->has_one_use())
    return std::nullopt;
  if (WeightLayoutOf(node)->alpha != 1.0f) return std::nullopt;
  LayerRows l;
  l.output = node.output(0)->name();
  l.source = *std::move(source);
  l.source.value = RoundedName(quantized, l.source.value);
  if (l.source.value.empty()) return std::nullopt;
  l.weights = *node.input(1)->constant();
  const int axis = WeightAxis(node, 1);
  if (axis < 0) return std::nullopt;
  l.params = ChooseWeightParams(l.weights, s.per_channel ? axis : -1, s.weights);
  l.rows = l.weights.dim(axis);
  l.depth = l.source.depth;
  l.rows_first = axis == 0;
  if (l.rows_first) return l;
  l.turned.resize(static_cast<size_t>(l.rows * l.depth));
  const auto w = l.weights.data<float>();
  for (int64_t k = 0; k < l.depth; ++k)
    for (int64_t r = 0; r < l.rows; ++r)
      l.turned[static_cast<size_t>(r * l.depth + k)] = w[static_cast<size_t>(k * l.rows + r)];
  return l;
}

BlockQuantized Nearest(const LayerRows& l, const BlockWeights& w, int64_t first_row,
                       const QuantGrid& grid) {
  BlockQuantized q =
      EmptyBlocks(w.rows, w.depth, {grid.reduce_range ? 7 : 8, 0, /*symmetric=*/true, true});
  for (int64_t r = 0; r < w.rows; ++r) {
    const size_t channel = l.params.axis < 0 ? 0 : static_cast<size_t>(first_row + r);
    const BlockParams p{l.params.scale[channel], q.grid.middle()};
    q.scales[static_cast<size_t>(r)] = p.scale;
    for (int64_t k = 0; k < w.depth; ++k)
      q.codes[static_cast<size_t>(r * w.depth + k)] =
          std::max<uint8_t>(EncodeWeight(w.row(r)[static_cast<size_t>(k)], p, q.grid), kLeastCode);
  }
  return q;
}

/// Rounds what one model has of layers, chunk by chunk.
class Rounder {
 public:
  Rounder(StaticModel& model, const StaticRoundingOptions& options)
      : model_(model), options_(options) {}

  void Round(const LayerRows& l, const HessianPair& h) {
    const int64_t groups = h.fit.groups, rows = l.rows / groups;
    if (h.fit.rows < l.depth || !h.fit.finite() || !h.held_out.finite()) return;
    std::vector<uint8_t> codes(static_cast<size_t>(l.rows * l.depth));
    Tally all;
    for (int64_t g = 0; g < groups; ++g) {
      const auto begin = static_cast<size_t>(g * rows * l.depth);
      const BlockWeights part{l.view().values.subspan(begin, static_cast<size_t>(rows * l.depth)),
                              rows, l.depth};
      const BlockQuantized q = Best(part, Nearest(l, part, g * rows, model_.scheme.weights),
                                    h.fit.group(g), h.fit.rows, h.held_out.group(g), all);
      std::copy(q.codes.begin(), q.codes.end(), codes.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    ++result_.layers;
    if (all.energy > 0) {
      result_.nearest_noise += all.nearest / all.energy;
      result_.noise += all.error / all.energy;
    }
    const CodeRounder* most = nullptr;
    for (const CodeRounder* r : options_.rounders)
      if (const int groups_of = all.by[r]; groups_of > (most ? all.by[most] : 0)) most = r;
    if (!most) return;
    ++result_.by[most->name];
    Keep(l, codes);
  }
  const StaticRoundingResult& result() const { return result_; }

 private:
  /// Over the groups of a layer.
  struct Tally {
    double nearest = 0, error = 0, energy = 0;
    std::map<const CodeRounder*, int> by;
  };

  BlockQuantized Best(const BlockWeights& w, BlockQuantized q, std::span<const float> h,
                      int64_t rows, std::span<const float> judge, Tally& all) {
    const BlockQuantized nearest = q;
    double least = OutputError(w, q, judge);
    all.nearest += least;
    all.energy += OutputEnergy(w, judge);
    const CodeRounder* chosen = nullptr;
    for (const CodeRounder* rounder : options_.rounders) {
      if (rounder->operations) {
        double& done = operations_[rounder];
        done += rounder->operations(w.rows, w.depth);
        if (done > options_.max_operations) continue;
      }
      BlockQuantized candidate = nearest;
      if (!rounder->round(w, h, rows, kLeastCode, candidate).ok()) continue;
      const double error = OutputError(w, candidate, judge);
      if (!(error < least)) continue;
      least = error;
      q = std::move(candidate);
      chosen = rounder;
    }
    all.error += least;
    if (chosen) ++all.by[chosen];
    return q;
  }

  void Keep(const LayerRows& l, const std::vector<uint8_t>& codes) {
    RoundedCodes r{Tensor(l.params.dtype, l.weights.dims()), l.params};
    const int middle = model_.scheme.weights.reduce_range ? 64 : 128;
    for (int64_t row = 0; row < l.rows; ++row)
      for (int64_t k = 0; k < l.depth; ++k)
        r.codes.SetInt(
            l.rows_first ? row * l.depth + k : k * l.rows + row,
            codes[static_cast<size_t>(row * l.depth + k)] - middle + l.params.zero_point[0]);
    model_.scheme.rounded.insert_or_assign(l.output, std::move(r));
  }

  StaticModel& model_;
  const StaticRoundingOptions& options_;
  StaticRoundingResult result_;
  std::map<const CodeRounder*, double> operations_;
};

}  // namespace

Result<StaticRoundingResult> RoundStaticWeights(StaticModel& model, const Graph& original,
                                                const Samples& samples, const ChannelRun& run,
                                                const StaticRoundingOptions& options) {
  INFER_ASSIGN(const StaticResult quantized, RewriteStatic(model, original, samples.count));
  std::vector<LayerRows> layers;
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(model.graph, original, model.scheme));
    for (const AlgorithmLayer& a : IntegerLayers(plan))
      if (auto l =
              RowsOf(*model.graph.FindValue(a.output)->producer(), quantized.graph, model.scheme);
          l && l->depth <= options.max_depth)
        layers.push_back(*std::move(l));
  }
  HessianOptions hessian;
  hessian.conv_windows = options.conv_windows;
  hessian.threads = run.threads;
  hessian.level = 1;
  hessian.stop = run.stop;
  Samples some = samples;
  some.count = std::min(samples.count, options.samples);
  Rounder rounder(model, options);
  for (size_t begin = 0, end = 0; begin < layers.size(); begin = end) {
    if (options.out_of_time && options.out_of_time()) break;
    std::vector<RowSource> sources;
    std::set<std::string> keys;
    int64_t bytes = 0;
    for (; end < layers.size(); ++end) {
      const RowSource& s = layers[end].source;
      if (keys.contains(s.Key())) continue;
      bytes += HessianBytes(s);
      if (end > begin && bytes > options.max_bytes) break;
      keys.insert(s.Key());
      sources.push_back(s);
    }
    INFER_ASSIGN(const auto moments,
                 SumHessians(quantized.graph, sources, some, *run.backend, hessian));
    for (size_t k = begin; k < end; ++k) {
      if (options.out_of_time && options.out_of_time()) break;
      rounder.Round(layers[k], moments.at(layers[k].source.Key()));
    }
  }
  return rounder.result();
}

}  // namespace infer
