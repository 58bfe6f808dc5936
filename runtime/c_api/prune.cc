/// infer_model_prune: what `infer-opt prune` calls, with the options that it would have.
#include "quant/prune/prune.h"

#include <utility>

#include "quant/prune/group_costs.h"
#include "quant/prune/low_rank.h"
#include "quant/prune/structured.h"
#include "runtime/c_api/judge.h"
#include "runtime/c_api/samples.h"
#include "runtime/devices/devices.h"

namespace infer::c_api {
namespace {

struct PruneCall {
  const infer_prune_options& options;
  Graph& graph;
  const Samples& samples;
  const Backend& backend;
  Told& told;
  infer_prune_report report = {};
  std::vector<std::string> warnings = {};
};

Result<SparsityPattern> PatternOf(const infer_prune_options& o) {
  SparsityPattern p;
  if (o.nm) {
    if (o.sparsity != 0 || o.blocks)
      return InvalidArgument("nm says how many weights become zero: no sparsity, no blocks");
    return ParseNm(o.nm);
  }
  if (o.blocks) {
    INFER_ASSIGN(p, ParseBlocks(o.blocks));
  } else if (o.sparsity == 0) {
    return InvalidArgument(
        "infer_prune_options: one of sparsity, nm, blocks, flops, rank and "
        "low_rank is missing");
  }
  if (o.sparsity != 0) p.share = o.sparsity;
  if (Status s = CheckShare(p.share); !s.ok()) return std::move(s).In("sparsity");
  return p;
}

Status ZeroWeights(PruneCall& c) {
  const infer_prune_options& o = c.options;
  PruneOptions p;
  INFER_ASSIGN(p.pattern, PatternOf(o));
  const auto method = PruneMethodNamed(Or(o.method, "auto"));
  if (!method)
    return InvalidArgument(Cat("method '", o.method, "': auto, magnitude, wanda or sparsegpt"));
  p.method = *method;
  p.allocation = PruneAllocationNamed(Or(o.allocation, "auto"));
  if (o.allocation && !p.allocation && std::string_view(o.allocation) != "auto")
    return InvalidArgument(
        Cat("allocation '", o.allocation, "': auto, measured, uniform, global or lamp"));
  p.scope = {PatternsOf(o.include), PatternsOf(o.exclude)};
  p.threads = o.threads;
  p.progress = c.told.OfSteps();
  p.stop = c.told.stop();
  INFER_ASSIGN(const PruneReport done, PruneModel(c.graph, c.samples, c.backend, p));
  c.report.calibration_samples = done.calibration_samples;
  c.report.weights = done.weights;
  c.report.zeros = done.zeros;
  c.warnings = done.warnings;
  return {};
}

Status CheckNoSingleWeights(const infer_prune_options& o, std::string_view instead) {
  if (o.sparsity != 0 || o.nm || o.blocks || o.method || o.allocation)
    return InvalidArgument(
        Cat(instead, "; sparsity, nm, blocks, method and allocation choose single weights"));
  return {};
}

/// Figures that reports of whole channels and of split products share.
template <typename Report>
void TellSizes(const Report& done, infer_prune_report& report) {
  report.calibration_samples = done.calibration_samples;
  report.parameters_before = done.parameters;
  report.parameters_after = done.parameters_after;
  report.flops_before = done.flops;
  report.flops_after = done.flops_after;
}

Status RemoveChannels(PruneCall& c) {
  const infer_prune_options& o = c.options;
  INFER_TRY(CheckNoSingleWeights(o, "flops removes channels"));
  ChannelOptions p;
  p.goal = {ChannelGoal::Kind::kFlops, o.flops};
  p.scope = {PatternsOf(o.include), PatternsOf(o.exclude)};
  for (const Value* v : c.graph.inputs())
    if (v->type().is_tensor() && v->tensor_type().is_static())
      p.extents[v->name()] = v->shape().static_dims();
  p.threads = o.threads;
  p.progress = c.told.OfSteps();
  p.stop = c.told.stop();
  INFER_ASSIGN(const ChannelReport done, PruneChannels(c.graph, c.samples, c.backend, p));
  TellSizes(done, c.report);
  for (const PrunedGroup& g : done.groups)
    if (g.removed > 0) c.report.channels_removed += g.group.width - g.width_after;
  return {};
}

Result<LowRankGoal> RankGoalOf(const infer_prune_options& o, const Graph& graph) {
  using Kind = LowRankGoal::Kind;
  if (o.flops != 0 || (o.rank != 0 && o.low_rank != 0))
    return InvalidArgument("flops, rank and low_rank each say how much goes: one of them");
  if (o.rank != 0) return LowRankGoal{Kind::kRank, o.rank};
  if (!(o.low_rank > 0 && o.low_rank < 1))
    return InvalidArgument("low_rank is a share of the constants' bytes above 0 and below 1");
  return LowRankGoal{Kind::kBytes, o.low_rank * static_cast<double>(ConstantsOf(graph).bytes)};
}

Status SplitInTwo(PruneCall& c) {
  const infer_prune_options& o = c.options;
  INFER_TRY(CheckNoSingleWeights(o, "rank and low_rank split products"));
  LowRankOptions p;
  INFER_ASSIGN(p.goal, RankGoalOf(o, c.graph));
  p.scope = {PatternsOf(o.include), PatternsOf(o.exclude)};
  p.threads = o.threads;
  p.progress = c.told.OfSteps();
  p.stop = c.told.stop();
  INFER_ASSIGN(const LowRankReport done, SplitProducts(c.graph, c.samples, c.backend, p));
  TellSizes(done, c.report);
  for (const SplitProduct& l : done.layers) c.report.products_split += l.rank > 0 ? 1 : 0;
  return {};
}

Status PruneAsAsked(PruneCall& c) {
  if (c.options.rank != 0 || c.options.low_rank != 0) return SplitInTwo(c);
  return c.options.flops != 0 ? RemoveChannels(c) : ZeroWeights(c);
}

/// `refused`: the result did not keep the gate.
Status PruneHandle(infer_model& model, const infer_prune_options* given, infer_prune_report* report,
                   bool& refused) {
  constexpr size_t kLeast = offsetof(infer_prune_options, sparsity) + sizeof(given->sparsity);
  INFER_ASSIGN(const auto o, OptionsOf(given, kLeast, "infer_prune_options"));
  INFER_TRY(CheckReport(report, "infer_prune_report"));
  if (o.threads < 0) return InvalidArgument("threads are not negative");
  INFER_ASSIGN(const Samples samples, SamplesOf(o.calibration, model.model.graph));
  INFER_ASSIGN(const auto backend, MakeBackend(Or(o.device, "cpu")));
  Told told(o.progress, o.user);
  Judge judge(o.evaluate, o.user, o.max_drop, o.device, o.threads);
  INFER_TRY(judge.Begin(model.model.graph));
  Graph graph = model.model.graph.Clone();
  PruneCall call{o, graph, samples, *backend, told};
  INFER_TRY(PruneAsAsked(call));
  INFER_TRY(told.Check());
  INFER_ASSIGN(const bool taken, judge.Takes("pruned", graph));
  refused = !taken;
  if (refused) return judge.Refusal();
  call.report.golden_metric = judge.golden();
  call.report.candidate_metric = judge.candidate();
  model.Take(std::move(graph), call.warnings);
  WriteReport(call.report, report);
  return {};
}

}  // namespace
}  // namespace infer::c_api

infer_code infer_model_prune(infer_model* model, const infer_prune_options* options,
                             infer_prune_report* report) {
  return infer::c_api::GuardedByGate([&](bool& refused) {
    return model ? infer::c_api::PruneHandle(*model, options, report, refused)
                 : infer::InvalidArgument("model is NULL");
  });
}
