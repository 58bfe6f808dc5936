#include "quant/algorithm/equalize.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "lib/ir/editor.h"
#include "lib/ir/roles.h"
#include "quant/algorithm/layers.h"

namespace infer {
namespace {

struct Pair {
  std::string first, second;  ///< result 0 of the layers
  std::string middle;         ///< what the second reads
  std::string before;         ///< what a Relu directly behind the first reads; "" for none
  std::string clipped;        ///< the result of a Clip at `limit` between them; "" for none
  double limit = 0;
};

/// A channel that came no nearer to the limit of a Clip than this is taken not to reach it.
constexpr double kClipMargin = 1.25;

bool IsHomogeneous(const Node& n) {
  if (!n.def().domain.empty()) return false;
  if (n.Is("PRelu")) {
    if (!n.input(1)->is_constant()) return false;
    const auto slope = n.input(1)->constant()->ToFloats();
    return std::all_of(slope.begin(), slope.end(), [](float s) { return std::isfinite(s); });
  }
  return n.Is(Trait::kHomogeneous) && n.IsAny(Trait::kUnary | Trait::kPooling) && !n.output(1);
}

/// The upper bound of a Clip or Relu whose lower one is 0 or none; infinity where it has no upper
/// one.
std::optional<double> LimitOf(const Node& n) {
  const auto clamp = ClampOf(n);
  if (!clamp || !IsF32(n.input(0)) || !(clamp->high > 0)) return std::nullopt;
  return clamp->low == 0 || std::isinf(clamp->low) ? std::optional(clamp->high) : std::nullopt;
}

bool HasOwnBias(const Node& n) { return !n.input(2) || n.input(2)->is_constant(); }

/// Layers whose result channels a factor can go into.
bool IsFirst(const Node& n) {
  if (!IsConvolution(n) || !HasInputChannels(n) || !HasOwnBias(n)) return false;
  return !n.input(2) || n.input(2)->constant()->rank() == 1;
}

std::optional<Pair> PairBefore(const Node& second) {
  if (!IsConvolution(second) || !HasInputChannels(second)) return std::nullopt;
  Pair p{"", second.output(0)->name(), second.input(0)->name(), "", "", 0};
  const Value* v = second.input(0);
  while (true) {
    if (!v->has_one_use() || !v->producer()) return std::nullopt;
    const Node& n = *v->producer();
    if (n.output(0) != v) return std::nullopt;
    if (IsFirst(n)) {
      p.first = v->name();
      return p;
    }
    if (const auto limit = LimitOf(n); limit && p.clipped.empty()) {
      p.clipped = std::isfinite(*limit) ? v->name() : "";
      p.limit = *limit;
    } else if (!IsHomogeneous(n)) {
      return std::nullopt;
    }
    p.before = IsRelu(n) ? n.input(0)->name() : "";
    v = n.input(0);
  }
}

/// By channel of the activation: max |w| of the weights that read it.
std::vector<double> ReadingRange(const Node& second) {
  std::vector<double> r(static_cast<size_t>(InputChannels(second)), 0.0);
  const auto w = second.input(1)->constant()->data<float>();
  ForEachWeight(second, [&](size_t i, int64_t in, int64_t) {
    double& m = r[static_cast<size_t>(in)];
    m = std::max(m, std::fabs(static_cast<double>(w[i])));
  });
  return r;
}

std::vector<double> FactorsOf(const std::vector<double>& activation,
                              const std::vector<double>& weights, double share, double most) {
  std::vector<double> s(activation.size(), 1.0);
  double log_sum = 0;
  int used = 0;
  for (size_t c = 0; c < s.size(); ++c) {
    if (!(activation[c] > 0 && weights[c] > 0)) continue;
    s[c] = std::pow(activation[c], share) / std::pow(weights[c], 1 - share);
    log_sum += std::log(s[c]);
    ++used;
  }
  const double mean = used > 0 ? std::exp(log_sum / used) : 1.0;
  for (size_t c = 0; c < s.size(); ++c)
    s[c] = activation[c] > 0 && weights[c] > 0 ? std::clamp(s[c] / mean, 1 / most, most) : 1.0;
  return s;
}

/// Factors for channels between which and their readers a Clip stands: those that reach its limit
/// keep 1, the others are scaled so that the furthest comes near to it, where no channel is cut
/// that was not. So the graph computes the same on all that the data showed.
void StayBelow(double limit, const ChannelStats& clipped, std::vector<double>& s) {
  double reach = 0;
  std::vector<bool> free(s.size());
  for (size_t c = 0; c < s.size(); ++c) {
    const double most = clipped.magnitude(c);
    free[c] = most > 0 && most * kClipMargin <= limit;
    if (free[c]) reach = std::max(reach, most / s[c]);
  }
  for (size_t c = 0; c < s.size(); ++c) s[c] = free[c] ? s[c] * reach * kClipMargin / limit : 1.0;
}

void ScaleFirst(Graph& g, Node& first, const std::vector<double>& s) {
  Tensor w = first.input(1)->constant()->Clone();
  const auto x = w.mutable_data<float>();
  const size_t per_channel = x.size() / s.size();
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<double>(x[i]) / s[i / per_channel]);
  ReplaceWeights(g, first, std::move(w));
  if (!first.input(2)) return;
  Tensor b = first.input(2)->constant()->Clone();
  for (size_t c = 0; c < s.size(); ++c)
    b.mutable_data<float>()[c] = static_cast<float>(static_cast<double>(b.data<float>()[c]) / s[c]);
  GraphEditor editor(g);
  editor.SetOperand(first, 2, editor.AddConstant(std::move(b), first.input(2)->name()));
}

void ScaleSecond(Graph& g, Node& second, const std::vector<double>& s) {
  Tensor w = second.input(1)->constant()->Clone();
  const auto x = w.mutable_data<float>();
  ForEachWeight(second, [&](size_t i, int64_t in, int64_t) {
    x[i] = static_cast<float>(static_cast<double>(x[i]) * s[static_cast<size_t>(in)]);
  });
  ReplaceWeights(g, second, std::move(w));
}

/// One scale per channel then takes up any factor.
bool IsDepthwise(const Node& second, const QuantScheme& scheme) {
  return scheme.per_channel && second.input(1)->constant()->dim(1) == 1;
}

bool ReadsOnlyInside(const Node& conv) {
  if (conv.Attr<std::string>("auto_pad") != "NOTSET" &&
      conv.Attr<std::string>("auto_pad") != "VALID")
    return false;
  const auto it = conv.attrs().find("pads");
  if (it == conv.attrs().end()) return true;
  const auto& pads = conv.Attr<std::vector<int64_t>>("pads");
  return std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; });
}

/// Where every number that a Relu saw was above c > 0, c moves from the bias before it into the
/// bias of the layer behind it. Half of the least number seen: data that calibration did not see
/// may lie lower. Padded readers see zeros beside the shifted numbers, so they are left out.
Result<bool> AbsorbBias(Graph& g, const Pair& p, const ChannelStats& before,
                        const std::vector<double>& s) {
  Node& first = *g.FindValue(p.first)->producer();
  Node& second = *g.FindValue(p.second)->producer();
  if (p.before != p.first || !first.input(2) || !ReadsOnlyInside(second)) return false;
  const Value* middle = g.FindValue(p.middle);
  if (!IsRelu(*middle->producer())) return false;
  std::vector<double> shift(s.size());
  bool any = false;
  for (size_t c = 0; c < s.size(); ++c) {
    shift[c] = std::max(0.0, before.lo[c] / 2) / s[c];
    any = any || shift[c] > 0;
  }
  if (!any) return false;
  std::vector<double> down(s.size()), up(static_cast<size_t>(second.input(1)->constant()->dim(0)));
  for (size_t c = 0; c < s.size(); ++c) down[c] = -shift[c];
  const auto w = second.input(1)->constant()->data<float>();
  ForEachWeight(second, [&](size_t i, int64_t in, int64_t out) {
    up[static_cast<size_t>(out)] += static_cast<double>(w[i]) * shift[static_cast<size_t>(in)];
  });
  INFER_ASSIGN(const bool lower, AddToBias(g, {p.first, p.first, "", 1}, down));
  if (!lower) return false;
  INFER_TRY(AddToBias(g, {p.second, p.second, "", 1}, up).status());
  return true;
}

}  // namespace

Result<int> EqualizeLayers(StaticModel& model, const Graph& original, const Samples& samples,
                           const ChannelRun& run, const EqualizeOptions& options) {
  std::vector<Pair> pairs;
  std::vector<ChannelRequest> requests;
  {
    INFER_ASSIGN(const QuantPlan plan, PlanQuantization(model.graph, original, model.scheme));
    for (const PlannedNode& p : plan.nodes) {
      if (!p.integer || p.op->role != QuantRole::kWeighted) continue;
      auto pair = PairBefore(*p.node);
      if (!pair || (options.depthwise_only && !IsDepthwise(*p.node, model.scheme))) continue;
      requests.push_back({pair->middle, 1});
      if (pair->before == pair->first) requests.push_back({pair->before, 1});
      if (!pair->clipped.empty() && pair->clipped != pair->middle)
        requests.push_back({pair->clipped, 1});
      pairs.push_back(*std::move(pair));
    }
  }
  if (pairs.empty()) return 0;
  INFER_ASSIGN(const auto stats, ObserveChannels(model.graph, requests, samples, run));
  int changed = 0;
  for (const Pair& p : pairs) {
    Node& first = *model.graph.FindValue(p.first)->producer();
    Node& second = *model.graph.FindValue(p.second)->producer();
    const auto it = stats.find(p.middle);
    if (it == stats.end()) continue;
    const auto channels = static_cast<size_t>(InputChannels(second));
    if (it->second.count.size() != channels ||
        first.input(1)->constant()->dim(0) != static_cast<int64_t>(channels))
      continue;
    const bool depthwise = IsDepthwise(second, model.scheme);
    std::vector<double> activation(channels);
    for (size_t c = 0; c < channels; ++c) activation[c] = it->second.magnitude(c);
    std::vector<double> s =
        FactorsOf(activation, ReadingRange(second), depthwise ? 1.0 : options.activation_share,
                  options.max_factor);
    if (!p.clipped.empty()) {
      const auto clipped = stats.find(p.clipped);
      if (clipped == stats.end() || clipped->second.count.size() != channels) continue;
      StayBelow(p.limit, clipped->second, s);
      if (std::all_of(s.begin(), s.end(), [](double x) { return x == 1; })) continue;
    }
    ScaleFirst(model.graph, first, s);
    ScaleSecond(model.graph, second, s);
    ++changed;
    if (!options.absorb_high_bias) continue;
    if (const auto before = stats.find(p.before); before != stats.end())
      INFER_TRY(AbsorbBias(model.graph, p, before->second, s).status());
  }
  GraphEditor(model.graph).Sweep();
  return changed;
}

}  // namespace infer
