#include "quant/prune/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lib/ir/editor.h"
#include "lib/support/strings.h"
#include "quant/prune/goal.h"

namespace infer {
namespace {

constexpr int64_t kStatisticsSamples = 256;  // evenly spaced
constexpr size_t kMean = 3, kVariance = 4;   // inputs of the operator

/// Of one channel; `off` is taken from each number first, so that sums of squares keep their
/// digits.
struct ChannelSums {
  double off = 0, count = 0, sum = 0, squares = 0;
  double Mean() const { return count > 0 ? off + sum / count : 0; }
  double Variance() const {
    const double mean = count > 0 ? sum / count : 0;
    return count > 0 ? std::max(0.0, squares / count - mean * mean) : 0;
  }
};
using NodeSums = std::vector<ChannelSums>;

bool IsOwnConstant(const Value* v) {
  return v && v->is_constant() && v->constant()->dtype() == DType::kF32 && v->uses().size() == 1;
}

/// x: f32[N,C,...].
Status AddNumbers(const Tensor& x, NodeSums& sums) {
  const auto channels = static_cast<int64_t>(sums.size());
  if (x.dtype() != DType::kF32 || x.rank() < 2 || x.dim(1) != channels)
    return Internal("a normalization reads other channels than it has statistics of");
  const int64_t rows = x.dim(0), inner = x.num_elements() / std::max<int64_t>(rows * channels, 1);
  const float* at = x.data<float>().data();
  for (int64_t row = 0; row < rows; ++row)
    for (ChannelSums& s : sums) {
      for (int64_t i = 0; i < inner; ++i) {
        const double d = static_cast<double>(*at++) - s.off;
        s.sum += d;
        s.squares += d * d;
      }
      s.count += static_cast<double>(inner);
    }
  return {};
}

NodeSums SumsOf(const Tensor& mean) {
  NodeSums sums(static_cast<size_t>(mean.num_elements()));
  for (size_t c = 0; c < sums.size(); ++c) sums[c].off = mean.At(static_cast<int64_t>(c));
  return sums;
}

/// Sums of what the nodes read, in one of the two models.
class Summing {
 public:
  static Result<Summing> Make(const Graph& g, std::span<const std::string> names,
                              const Backend& backend, int threads) {
    Summing s;
    std::vector<std::string> taps;
    for (const std::string& name : names) {
      const Node& node = *g.FindValue(name)->producer();
      const Value* x = node.input(0);
      s.sums_.push_back(SumsOf(*node.input(kMean)->constant()));
      if (x->is_input()) {
        const auto& in = g.inputs();
        s.at_.push_back(
            {true, static_cast<size_t>(std::find(in.begin(), in.end(), x) - in.begin())});
        continue;
      }
      const auto known = std::find(taps.begin(), taps.end(), x->name());
      s.at_.push_back({false, g.outputs().size() + static_cast<size_t>(known - taps.begin())});
      if (known == taps.end()) taps.push_back(x->name());
    }
    CompileOptions compile;
    compile.level = 1;
    compile.threads = threads;
    INFER_ASSIGN(s.program_, CompileWithTaps(g, taps, backend, compile));
    return s;
  }
  Status Add(const std::vector<Datum>& inputs, const std::stop_token& stop) {
    INFER_TRY(RunInputs(*program_.context, inputs, stop));
    for (size_t k = 0; k < sums_.size(); ++k) {
      const auto& [is_input, at] = at_[k];
      INFER_TRY(AddNumbers(is_input ? inputs[at].tensor() : program_.context->output(at).tensor(),
                           sums_[k]));
    }
    return {};
  }
  const NodeSums& Of(size_t k) const { return sums_[k]; }

 private:
  Summing() = default;
  std::vector<std::pair<bool, size_t>> at_;
  std::vector<NodeSums> sums_;
  TappedProgram program_;
};

void WriteStatistics(Graph& pruned, const std::string& name, const NodeSums& was,
                     const NodeSums& is) {
  const Node& node = *pruned.FindValue(name)->producer();
  Tensor mean = node.input(kMean)->constant()->Clone();
  Tensor variance = node.input(kVariance)->constant()->Clone();
  for (size_t c = 0; c < was.size(); ++c) {
    const auto i = static_cast<int64_t>(c);
    const double moved = mean.At(i) + (is[c].Mean() - was[c].Mean());
    const double before = was[c].Variance(), after = is[c].Variance();
    const double spread = before > 0 ? variance.At(i) * (after / before) : variance.At(i);
    if (!std::isfinite(moved) || !std::isfinite(spread)) continue;
    mean.Set(i, moved);
    variance.Set(i, spread);
  }
  GraphEditor editor(pruned);
  editor.SetConstant(node.input(kMean), std::move(mean));
  editor.SetConstant(node.input(kVariance), std::move(variance));
}

Status EstimateTogether(const Graph& dense, Graph& pruned, std::span<const std::string> names,
                        const Samples& samples, const Backend& backend,
                        const StatisticsOptions& options) {
  INFER_ASSIGN(Summing was, Summing::Make(dense, names, backend, options.threads));
  INFER_ASSIGN(Summing is, Summing::Make(pruned, names, backend, options.threads));
  for (int64_t k = 0; k < samples.count; ++k) {
    if (options.stop.stop_requested()) return Cancelled("estimating statistics was stopped");
    INFER_ASSIGN(const std::vector<Datum> inputs, samples.get(k));
    INFER_TRY(was.Add(inputs, options.stop));
    INFER_TRY(is.Add(inputs, options.stop));
  }
  for (size_t k = 0; k < names.size(); ++k) WriteStatistics(pruned, names[k], was.Of(k), is.Of(k));
  return {};
}

/// For each name how many of the others lie on the longest way to it.
std::vector<size_t> DepthsOf(const Graph& g, std::span<const std::string> names) {
  std::map<const Value*, size_t> below;  // normalizations on the longest way to a value
  std::vector<size_t> depths(names.size());
  for (const auto& n : g.nodes()) {
    size_t most = 0;
    for (const Value* v : n->inputs())
      if (const auto it = below.find(v); v && it != below.end()) most = std::max(most, it->second);
    const auto at = n->outputs().empty() || !n->output(0)
                        ? names.end()
                        : std::find(names.begin(), names.end(), n->output(0)->name());
    if (at != names.end()) depths[static_cast<size_t>(at - names.begin())] = most++;
    for (const Value* v : n->outputs())
      if (v && most > 0) below[v] = most;
  }
  return depths;
}

}  // namespace

std::vector<std::string> EstimatedStatistics(const Graph& g) {
  std::vector<std::string> names;
  for (const auto& n : g.nodes())
    if (n->Is("BatchNormalization") && n->AttrOr<int64_t>("training_mode", 0) == 0 &&
        n->inputs().size() > kVariance && IsOwnConstant(n->input(kMean)) &&
        IsOwnConstant(n->input(kVariance)))
      names.push_back(n->output(0)->name());
  return names;
}

Status EstimateStatistics(const Graph& dense, Graph& pruned, std::span<const std::string> names,
                          const Samples& samples, const Backend& backend,
                          const StatisticsOptions& options) {
  const Samples some = EvenlySpaced(samples, kStatisticsSamples);
  const std::vector<size_t> depths = DepthsOf(pruned, names);
  const std::set<size_t> levels(depths.begin(), depths.end());
  for (const size_t level : levels) {
    std::vector<std::string> together;
    for (size_t k = 0; k < names.size(); ++k)
      if (depths[k] == level) together.push_back(names[k]);
    INFER_TRY(EstimateTogether(dense, pruned, together, some, backend, options));
  }
  return {};
}

}  // namespace infer
