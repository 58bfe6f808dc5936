#include "runtime/cpu/compile/compile.h"

#include <algorithm>

#include "lib/ir/loop_states.h"
#include "lib/support/strings.h"
#include "runtime/cpu/compile/bf16_values.h"
#include "runtime/cpu/compile/blocked_weights.h"
#include "runtime/cpu/compile/expand.h"
#include "runtime/cpu/compile/qoperators.h"
#include "runtime/cpu/compile/quant_spellings.h"
#include "runtime/cpu/compile/scattered_rows.h"
#include "runtime/cpu/compile/text_labels.h"
#include "runtime/cpu/compile/widen.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/elementwise/chain.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/plan_ir/bodies.h"
#include "runtime/plan_ir/groups/attention_group.h"
#include "runtime/plan_ir/groups/chains.h"
#include "runtime/plan_ir/groups/epilogues.h"
#include "runtime/plan_ir/groups/gate.h"
#include "runtime/plan_ir/groups/gathered_updates.h"
#include "runtime/plan_ir/groups/parts.h"
#include "runtime/plan_ir/groups/quant_group.h"
#include "runtime/plan_ir/plan_view.h"

namespace infer {
namespace {

/// Candidates of one step, best first; the refusals of the others go to `info`.
StepKernels Choose(const StepCall& call, const KernelList& kernels, StepInfo& info) {
  StepKernels chosen;
  const bool may_be_integer = call.step.borrowed > 0 || ReadsDequantized(call.main());
  for (const KernelDef& k : kernels) {
    if (!k.Takes(call.main().def())) continue;
    // What an integer kernel misses in a float model is no news.
    if (!may_be_integer && k.name.starts_with("int8:")) continue;
    if (k.name == kBf16Kernel && call.options.compute != Compute::kBF16) continue;
    if ((k.name == kSparseKernel || k.name == kInt8SparseKernel) && !HasManyZeros(call)) continue;
    if (std::string reason = k.refuse(call); !reason.empty()) {
      const bool is_no_chain = k.name == kChainKernel && call.step.nodes.size() == 1;
      if (chosen.kernels.empty() && !is_no_chain)
        info.refusals.push_back(Cat(k.name, ": ", reason));
      continue;
    }
    chosen.kernels.push_back(k.make(call));
    chosen.names.emplace_back(k.name);
  }
  info.kernel = chosen.names.empty() ? "reference" : chosen.names[0];
  // All others take one operator only, which is no news.
  if (info.kernel == kChainKernel) info.refusals.clear();
  info.precision = PrecisionOf(call);
  for (const PlanStep& part : call.step.parts) {
    StepInfo unused;
    chosen.parts.push_back(Choose({call.plan, part, call.options}, kernels, unused));
  }
  return chosen;
}

Status Widen(CompileState& s) { return WidenHalves(*s.graph, s.kernels, s.options.level >= 2); }

Status CaptureStates(CompileState& s) { return CaptureUnchangedStates(*s.graph).status(); }

Status Expand(CompileState& s) {
  INFER_ASSIGN(const int gone, ExpandNodes(*s.graph, s.kernels, s.options));
  return gone > 0 ? Widen(s) : Status();
}

Status ReadConstants(CompileState& s) { return ReadQuantConstants(*s.graph).status(); }

Status TakeWeights(CompileState& s) { return TakeBlockedWeights(*s.graph).status(); }

Status TakeCodes(CompileState& s) { return TakeQOperators(*s.graph, s.options.level).status(); }

Status UnifySpellings(CompileState& s) { return UnifyQuantSpellings(*s.graph).status(); }

Status TakeRows(CompileState& s) { return ScatterRows(*s.graph).status(); }

Status TakeLabels(CompileState& s) { return TakeTextLabels(*s.graph).status(); }

Status Partition(CompileState& s) {
  s.plan.emplace(PartitionByNode(*std::move(s.graph)));
  s.graph.reset();
  return {};
}

KernelsAccept AnyKernel(const CompileState& s) { return AnyKernel(*s.plan, s.kernels, s.options); }

Status GroupAttentions(CompileState& s) {
  GroupAttention(*s.plan, s.options, AnyKernel(s));
  return {};
}

void GroupIntegersFor(Plan& plan, const KernelList& kernels, AcceptsStep accepts) {
  const auto has_integer_kernel = [&](const Node& n) {
    return n.output(0) && std::any_of(kernels.begin(), kernels.end(), [&](const KernelDef& k) {
             return k.Takes(n.def()) && k.name.starts_with("int8");
           });
  };
  const auto is_activation = [](const Node& n) { return onednn::EltwiseOf(n).has_value(); };
  GroupQuantized(plan, has_integer_kernel, is_activation, accepts);
}

/// Chains that a kernel of the device takes, and the CPU's where the device refuses their extents.
void ChainForDevice(Plan& plan, const KernelList& kernels, const CompileOptions& options) {
  FoldChains(plan, [&](const PlanStep& step) {
    const StepCall call{plan, step, options};
    if (!DecodeChain(call).ok()) return false;
    // One step alone is no chain yet; what it joins is asked for.
    return step.nodes.size() == 1 ||
           std::any_of(kernels.begin(), kernels.end(), [&](const KernelDef& k) {
             return k.name == kDeviceChainKernel && k.Takes(step.main->def()) &&
                    k.refuse(call).empty();
           });
  });
}

Status GroupIntegers(CompileState& s) {
  GroupIntegersFor(*s.plan, s.kernels, AnyKernel(s));
  return {};
}

Status FoldWeights(CompileState& s) { return FoldConstants(*s.plan, "DequantizeLinear"); }

Status AddGates(CompileState& s) {
  FoldGates(*s.plan, AnyKernel(s));
  return {};
}

Status AddGatheredUpdates(CompileState& s) {
  FoldGatheredUpdates(*s.plan, AnyKernel(s));
  return {};
}

Status AddEpilogues(CompileState& s) {
  FoldEpilogues(*s.plan, AnyKernel(s));
  return {};
}

Status AddChains(CompileState& s) {
  FoldChains(*s.plan, [&s](const PlanStep& step) {
    return DecodeChain({*s.plan, step, s.options}).ok();
  });
  return {};
}

Status ChooseBf16(CompileState& s) {
  ChooseBf16Values(*s.plan, s.kernels, s.options);
  return {};
}

/// Chains have parts, too: some refuse by the extents of a run.
Status AddGroupParts(CompileState& s) {
  AddParts(*s.plan, KernelsAccept{*s.plan, s.kernels, s.options});
  return {};
}

Status AddBodies(CompileState& s) {
  INFER_ASSIGN(s.bodies, CompileBodies(*s.plan, s.compile, !s.options.allow_reference));
  return {};
}

Status ChooseKernels(CompileState& s) {
  const Plan& plan = *s.plan;
  s.infos = DescribeSteps(plan);
  std::vector<std::string> without;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    StepInfo& info = s.infos[i];
    s.chosen.push_back(Choose({plan, plan.steps[i], s.options}, s.kernels, info));
    if (RunsBodies(plan.steps[i]))
      info.kernel = "bodies";
    else if (s.chosen.back().kernels.empty())
      without.push_back(Cat(Describe(*plan.steps[i].main), " (",
                            info.refusals.empty() ? "no fast kernel" : Join(info.refusals, "; "),
                            ")"));
  }
  if (!s.options.allow_reference && !without.empty())
    return Unsupported(Cat("no fast kernel for: ", Join(without, ", ")));
  return {};
}

constexpr CompileStep kSteps[] = {
    {"widen", "f16 and bf16 on f32 kernels: casts around their nodes", 0, Widen},
    {"loop-states", "values that a Loop carries and never changes are captured by its body", 1,
     CaptureStates},
    {"expand", "operators made of others, where no kernel takes them whole", 1, Expand},
    {"quant-constants", "weights and parameters of codes that are computed from constants", 1,
     ReadConstants},
    {"blocked-weights", "weights of few bits as DequantizeLinear: MatMulNBits", 2, TakeWeights},
    {"q-operators", "QLinearConv and the like as DQ -> operator -> Q", 1, TakeCodes},
    {"quant-spellings", "DQ and Q as other tools write them, next to the operators they belong to",
     1, UnifySpellings},
    {"scattered-rows", "ScatterElements by repeated indices as ScatterND of rows", 1, TakeRows},
    {"text-labels", "classes by their numbers, and their labels of text by a Gather", 1,
     TakeLabels},
    {"partition", "one step per node", 0, Partition},
    {"attention", "product, mask, Softmax, product and what moves their operands", 2,
     GroupAttentions},
    {"quant-groups", "DQ -> operator -> Q as one step on integers", 1, GroupIntegers},
    {"fold-constants", "dequantised weights that no group took", 0, FoldWeights},
    {"gates", "the Mul of squeeze-and-excitation into the convolution after it", 1, AddGates},
    {"gathered-updates", "the rows that a Gather picks for ScatterND", 1, AddGatheredUpdates},
    {"epilogues", "activations and residuals into the step before them", 1, AddEpilogues},
    {"chains", "element-wise operators, norms of rows and what quantizes them, block by block", 1,
     AddChains},
    {"bf16-values", "values between products in bf16 that lie in bf16", 1, ChooseBf16},
    {"parts", "what groups may be taken apart into, where no kernel takes them whole", 1,
     AddGroupParts},
    {"bodies", "programs for the subgraphs of control flow", 0, AddBodies},
    {"kernels", "which kernels accept each step, best first", 0, ChooseKernels},
};

void Show(const CompileState& s, std::string_view name, double ms) {
  PlanView view = s.plan ? ViewOf(*s.plan) : ViewOf(PartitionByNode(s.graph->Clone()));
  view.name = name;
  view.ms = ms;
  if (!s.chosen.empty()) AddKernels(view, s.chosen, s.infos);
  s.options.observe(view);
}

}  // namespace

std::span<const CompileStep> CompileSteps() { return kSteps; }

Status RewriteForKernels(Graph& graph, const KernelList& kernels, const CompileOptions& options) {
  const bool stay_wide = options.level >= 2;
  INFER_TRY(WidenHalves(graph, kernels, stay_wide));
  if (options.level < 1) return {};
  INFER_ASSIGN(const int gone, ExpandNodes(graph, kernels, options));
  if (gone > 0) INFER_TRY(WidenHalves(graph, kernels, stay_wide));
  INFER_TRY(ReadQuantConstants(graph).status());
  INFER_TRY(TakeQOperators(graph, options.level).status());
  return UnifyQuantSpellings(graph).status();
}

Status GroupForKernels(Plan& plan, const KernelList& kernels, const CompileOptions& options) {
  const KernelsAccept accepts{plan, kernels, options, kDeviceChainKernel};
  if (options.level >= 2) GroupAttention(plan, options, accepts);
  if (options.level >= 1) GroupIntegersFor(plan, kernels, accepts);
  INFER_TRY(FoldConstants(plan, "DequantizeLinear"));
  if (options.level < 1) return {};
  FoldEpilogues(plan, accepts);
  ChainForDevice(plan, kernels, options);
  return {};
}

Status RunCompileSteps(CompileState& state) {
  for (const CompileStep& step : kSteps) {
    if (state.options.level < step.level) continue;
    const double begin = NowMs();
    INFER_TRY(step.run(state));
    if (state.options.observe) Show(state, step.name, NowMs() - begin);
  }
  return {};
}

}  // namespace infer
