#include "quant/prune/channel_space.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"
#include "quant/prune/goal.h"
#include "quant/prune/layer_timer.h"
#include "quant/prune/shrink.h"
#include "quant/scheme/quantize.h"

namespace infer {
namespace {

/// Gives each reader of a vector (a scale, a shift, a bias) a constant of its own. Exporters and
/// simplification keep equal ones once, and channels of layers that share nothing else would be one
/// group. Weights of products that several nodes read stay shared: these nodes are tied.
void SeparateVectors(Graph& g) {
  GraphEditor e(g);
  std::map<const Value*, const Node*> first;  // the reader that keeps the constant
  for (const auto& node : g.nodes()) {
    std::map<const Value*, Value*> own;
    for (size_t i = 0; i < node->inputs().size(); ++i) {
      const Value* const v = node->input(i);
      if (!v || !v->is_constant()) continue;
      const Dims& dims = v->constant()->dims();
      const int64_t elements = v->constant()->num_elements();
      if (elements < 2 || std::find(dims.begin(), dims.end(), elements) == dims.end()) continue;
      if (first.emplace(v, node.get()).first->second == node.get()) continue;
      Value*& copy = own[v];
      if (!copy) copy = e.AddConstant(*v->constant(), v->name());
      e.SetOperand(*node, i, copy);
    }
  }
}

/// A group cut alone, to half.
struct TrialCut {
  Graph graph;
  double kept = 1;  // share of the units that stay
};

/// What no fact about an operator says shows here: the reason, where the group cannot be cut.
Result<TrialCut> TryOut(const ChannelSpace& space, const ChannelGroup& group,
                        const std::vector<int64_t>& levels) {
  const int64_t half = levels[levels.size() / 2];
  const AxisCuts cuts = CutsOf(group, FirstUnits(group, half));
  INFER_TRY(Shrink(space.work, cuts).status());
  INFER_ASSIGN(Graph cut, Shrink(space.counted, cuts));
  const auto units = static_cast<double>(group.units.size());
  return TrialCut{std::move(cut), (units - static_cast<double>(half)) / units};
}

/// A level saves time where its layers take at most so much of what every wider one takes.
constexpr double kFaster = 0.99;

/// Layers with weights among `cuts`, by the name of what they make.
std::vector<std::string> LayersIn(const Graph& g, const AxisCuts& cuts) {
  std::set<std::string> names;
  for (const auto& [axis, indices] : cuts) {
    const Value* v = g.FindValue(axis.first);
    if (!v || !v->is_constant()) continue;
    for (const Use& use : v->uses())
      if (use.operand > 0 && WeightLayoutOf(*use.user) && use.user->output(0))
        names.insert(use.user->output(0)->name());
  }
  return {names.begin(), names.end()};
}

/// nullopt: one of them cannot be timed alone.
Result<std::optional<double>> TimeOf(LayerTimer& timer, const Graph& g,
                                     const std::vector<std::string>& layers) {
  double us = 0;
  for (const std::string& name : layers) {
    const Node& node = *g.FindValue(name)->producer();
    for (const Value* v : node.inputs())
      if (v && (!IsF32(v) || !v->shape().is_static())) return std::optional<double>();
    INFER_ASSIGN(Graph alone, LayerTimer::Alone(node, g.ops()));
    INFER_ASSIGN(const double one, timer.Of(std::move(alone)));
    us += one;
  }
  return std::optional<double>(us);
}

}  // namespace

Result<ChannelSpace> ChannelSpace::Make(const Graph& original, const Samples& samples,
                                        const Backend& backend, const ChannelOptions& options) {
  ChannelSpace s(original);
  s.by_bytes = options.goal.kind == ChannelGoal::Kind::kBytes;
  if (Status p = PrepareForQuantization(s.work); !p.ok())
    return std::move(p).In("preparing the model");
  SeparateVectors(s.work);
  INFER_TRY(InferTypes(s.work));
  INFER_TRY(s.Count(samples, options));
  if (samples.count > 0) INFER_TRY(s.GiveBiases(original, options));
  INFER_TRY(s.FindUsable(original, options));
  INFER_TRY(s.TimeLevels(backend, options));
  return s;
}

namespace {

/// A batch of 1 for inputs of which the first extent alone is open: what share of the work stays
/// does not depend on it.
std::map<std::string, Dims> BatchesOfOne(const Graph& g) {
  std::map<std::string, Dims> extents;
  for (const Value* v : g.inputs()) {
    if (!v->type().is_tensor() || !v->shape().has_rank() || v->shape().is_static()) continue;
    Dims dims;
    for (const Dim& d : v->shape().dims())
      if (d.is_static() || dims.empty()) dims.push_back(d.is_static() ? d.value() : 1);
    if (std::ssize(dims) == v->shape().rank()) extents.emplace(v->name(), std::move(dims));
  }
  return extents;
}

}  // namespace

Status ChannelSpace::Count(const Samples& samples, const ChannelOptions& options) {
  counted = work.Clone();
  constants = ConstantsOf(work);
  if (!IsStatic(counted)) {
    INFER_ASSIGN(auto extents, ExtentsOfFirst(counted, samples));
    extents.insert(options.extents.begin(), options.extents.end());
    INFER_TRY(SpecializeInputs(counted, extents));
    if (!IsStatic(counted)) INFER_TRY(SpecializeInputs(counted, BatchesOfOne(counted)));
  }
  if (IsStatic(counted)) flops = FlopsOf(counted);
  if (by_bytes || flops > 0) return {};
  for (const Value* v : counted.inputs())
    if (!v->type().is_tensor() || !v->tensor_type().is_static())
      return InvalidArgument(Cat("the FLOPs of the model are not known: input '", v->name(),
                                 "' is ", v->shape().ToString(),
                                 "; give its extents (--set, --shape), or data to run on"));
  return Unsupported("the model has no FLOPs to save");
}

Status ChannelSpace::GiveBiases(const Graph& original, const ChannelOptions& options) {
  INFER_ASSIGN(const auto found, FindPrunable(work, original, options.scope));
  for (Graph* g : {&work, &counted})
    for (const PrunableWeights& w : found) {
      if (!w.reason.empty() || !w.bias) continue;
      const Node& node = *g->FindValue(w.bias->output)->producer();
      if (!WeightLayoutOf(node)->has_bias || node.input(2)) continue;
      const std::vector<double> zeros(static_cast<size_t>(w.place.plane.all_rows()), 0.0);
      INFER_TRY(AddToBias(*g, *w.bias, zeros).status());
    }
  return {};
}

Status ChannelSpace::FindUsable(const Graph& original, const ChannelOptions& options) {
  INFER_ASSIGN(layers, FindPrunable(work, original, options.scope));
  std::vector<Graph> cut;
  std::vector<double> kept;
  for (ChannelGroup& g : FindGroups(work, layers)) {
    PrunedGroup p;
    p.units = static_cast<int64_t>(g.units.size());
    p.width_after = g.width;
    p.group = std::move(g);
    if (p.group.reason.empty()) {
      std::vector<int64_t> may =
          LevelsOf(p.units, p.group.unit_width(), p.group.width, options.multiple);
      const auto most = static_cast<int64_t>(FirstUnits(p.group, p.units).size());
      std::erase_if(may, [&](int64_t gone) { return gone > most; });
      if (may.empty()) {
        p.group.reason = Cat("its ", p.group.width, " channels are too few to leave some out");
      } else if (auto trial = TryOut(*this, p.group, may); !trial.ok()) {
        p.group.reason = trial.status().message();
      } else {
        usable.push_back(groups.size());
        levels.push_back(std::move(may));
        cut.push_back(std::move(trial->graph));
        kept.push_back(trial->kept);
      }
    }
    if (!p.group.reason.empty()) {
      p.units = 0;
      p.group.units.clear();
    }
    groups.push_back(std::move(p));
  }
  for (const auto& l : levels) saves_time.emplace_back(l.size(), true);
  items = WorkItemsOf(counted, cut, kept, by_bytes);
  if (!usable.empty()) return {};
  if (groups.empty())
    return Unsupported("no channels to remove: no layer has constant weights that make channels");
  constexpr size_t kMostTold = 20;
  std::string why = "no channels to remove:";
  for (size_t i = 0; i < std::min(groups.size(), kMostTold); ++i)
    why += Cat("\n  ", groups[i].group.name, ": ", groups[i].group.reason);
  if (groups.size() > kMostTold) why += Cat("\n  and ", groups.size() - kMostTold, " more groups");
  return Unsupported(why);
}

Status ChannelSpace::TimeLevels(const Backend& backend, const ChannelOptions& options) {
  if (options.goal.kind != ChannelGoal::Kind::kSpeedup || !IsStatic(counted)) return {};
  LayerTimer timer(backend, {options.costs, options.threads, options.stop});
  for (size_t k = 0; k < usable.size(); ++k) {
    if (options.progress)
      options.progress("time widths", static_cast<int64_t>(k) + 1,
                       static_cast<int64_t>(usable.size()));
    const ChannelGroup& group = groups[usable[k]].group;
    const auto layers_cut = LayersIn(counted, CutsOf(group, FirstUnits(group, levels[k].front())));
    INFER_ASSIGN(std::optional<double> least, TimeOf(timer, counted, layers_cut));
    for (size_t l = 0; l < levels[k].size() && least; ++l) {
      if (options.stop.stop_requested()) return Cancelled("pruning was stopped");
      INFER_ASSIGN(const Graph cut,
                   Shrink(counted, CutsOf(group, FirstUnits(group, levels[k][l]))));
      INFER_ASSIGN(const auto us, TimeOf(timer, cut, layers_cut));
      if (!us) break;
      saves_time[k][l] = *us <= kFaster * *least;
      least = std::min(*least, *us);
    }
  }
  return {};
}

bool ChannelSpace::AllSaveTime() const {
  return std::all_of(saves_time.begin(), saves_time.end(), [](const std::vector<bool>& group) {
    return std::find(group.begin(), group.end(), false) == group.end();
  });
}

}  // namespace infer
