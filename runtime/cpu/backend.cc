#include "runtime/cpu/backend.h"

#include <algorithm>
#include <new>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/bodies.h"
#include "runtime/cpu/epilogue.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/program.h"
#include "runtime/cpu/quant_group.h"
#include "runtime/cpu/widen.h"

namespace infer {
namespace {

bool ReadsDequantized(const Node& n) {
  return std::any_of(n.inputs().begin(), n.inputs().end(), [](const Value* v) {
    return v && v->producer() && v->producer()->Is("DequantizeLinear");
  });
}

/// Candidates of one step, best first; the refusals of the others go to `info`.
StepKernels Choose(const StepCall& call, const KernelList& kernels, StepInfo& info) {
  StepKernels chosen;
  const bool may_be_integer = call.step.borrowed > 0 || ReadsDequantized(call.main());
  for (const KernelDef& k : kernels) {
    if (!call.main().Is(k.op, k.domain)) continue;
    // What an integer kernel misses in a float model is no news.
    if (!may_be_integer && k.name.starts_with("int8:")) continue;
    if (std::string reason = k.refuse(call); !reason.empty()) {
      if (chosen.kernels.empty()) info.refusals.push_back(Cat(k.name, ": ", reason));
      continue;
    }
    chosen.kernels.push_back(k.make(call));
    chosen.names.emplace_back(k.name);
  }
  info.kernel = chosen.names.empty() ? "reference" : chosen.names[0];
  info.precision = PrecisionOf(call);
  return chosen;
}

class CpuBackend final : public Backend {
 public:
  CpuBackend() : kernels_(CpuKernels()), isa_(onednn::CapIsa()) {}
  std::string_view name() const override { return "cpu"; }
  std::string Unavailable() const override { return isa_.message(); }
  bool HasKernelFor(std::string_view domain, std::string_view op) const override {
    return std::any_of(kernels_.begin(), kernels_.end(),
                       [&](const KernelDef& k) { return k.domain == domain && k.op == op; });
  }

  Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                 const CompileOptions& options) const override {
    try {
      INFER_ASSIGN(std::shared_ptr<const Program> program, CompileSteps(graph, options));
      return program;
    } catch (const std::bad_alloc&) {
      return ResourceExhausted("out of memory while compiling");
    }
  }

 private:
  Result<std::shared_ptr<const CpuProgram>> CompileSteps(const Graph& graph,
                                                         const CompileOptions& options) const {
    INFER_TRY(isa_);
    Graph wide = graph.Clone();
    INFER_TRY(WidenHalves(wide, kernels_));
    Plan plan = PartitionByNode(wide);
    if (options.level >= 1) GroupQuantized(plan, kernels_, options);
    INFER_TRY(FoldConstants(plan, "DequantizeLinear"));
    if (options.level >= 1) FoldEpilogues(plan, kernels_, options);
    // The lists and the options by value: a program may outlive its backend.
    const CompileFn compile = [backend = *this, options](const Graph& g) {
      return backend.CompileSteps(g, options);
    };
    INFER_ASSIGN(CpuBodies bodies, CompileBodies(plan, compile, !options.allow_reference));
    std::vector<StepInfo> infos = DescribeSteps(plan);
    std::vector<StepKernels> chosen;
    std::vector<std::string> without;
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      chosen.push_back(Choose({plan, plan.steps[s], options}, kernels_, infos[s]));
      if (RunsBodies(plan.steps[s]))
        infos[s].kernel = "bodies";
      else if (chosen.back().kernels.empty())
        without.push_back(Cat(Describe(*plan.steps[s].main),
                              infos[s].refusals.empty() ? " (no fast kernel)" : " (",
                              infos[s].refusals.empty() ? "" : Join(infos[s].refusals, "; "),
                              infos[s].refusals.empty() ? "" : ")"));
    }
    if (!options.allow_reference && !without.empty())
      return Unsupported(Cat("no fast kernel for: ", Join(without, ", ")));
    const int lanes = options.threads > 0 ? options.threads : LaneBudget();
    auto program = std::make_shared<CpuProgram>(
        std::move(plan), std::move(chosen), std::move(infos), std::move(bodies), compile, lanes);
    INFER_TRY(program->Prepare());
    return std::shared_ptr<const CpuProgram>(std::move(program));
  }

  KernelList kernels_;
  Status isa_;
};

}  // namespace

KernelList CpuKernels() {
  KernelList all;
  using Family = KernelList (*)();
  const Family families[] = {
      Int8ProductKernels, Int8ElementwiseKernels,
      WinogradKernels,    ConvProductKernels,
      DepthwiseKernels,   ConvTransposeKernels,
      ConvKernels,        MatMulKernels,
      WeightOnlyKernels,  GroupAttentionKernels,
      PoolKernels,        ChannelNormKernels,
      NormKernels,        RowKernels,
      RecurrentKernels,   ConcatKernels,
      MoveKernels,        ViewKernels,
      ElementwiseKernels, PowKernels,
      ElementKernels,     IndexKernels,
      ResizeKernels,      QuantizeKernels,
  };
  for (const Family family : families) {
    KernelList list = family();
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

std::string RefuseUnlessF32(const StepCall& call) {
  for (const Node* n : call.step.nodes) {
    for (const Value* v : n->inputs())
      if (v && (!v->type().is_tensor() || v->dtype() != DType::kF32))
        return Cat("operand '", v->name(), "' is ", ToString(v->type()));
    for (const Value* v : n->outputs())
      if (v && (!v->type().is_tensor() || v->dtype() != DType::kF32))
        return Cat("result '", v->name(), "' is ", ToString(v->type()));
  }
  return "";
}

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace infer
