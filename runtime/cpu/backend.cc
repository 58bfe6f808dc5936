#include "runtime/cpu/backend.h"

#include <algorithm>
#include <new>

#include "lib/support/exceptions.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/cpu/compile/compile.h"
#include "runtime/cpu/exec/small_steps.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/move/move_plan.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/onednn/openmp.h"
#include "runtime/cpu/tune/cpu_tuner.h"

namespace infer {
namespace {

/// 512x768x768: 226 GFLOP/s against f32's 115 on AMD's Zen 4, 107 against 172 on Intel's Sapphire
/// Rapids (oneDNN 2.6.3, one thread).
bool IsSlowAvx512Bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

constexpr int64_t kTurnedByLanes = 1 << 18;

/// Between plain and channels last, by tiles of what stays in L2. oneDNN's reorder of 2048 channels
/// of 14x14x14 points takes 40 ms where this takes 5, of 384 channels of 3000 points 2 where this
/// takes 0.9 (single Convs between plain values, layer_map.py and operator_map.py); of few channels
/// or points it is the faster one.
std::optional<Prepared> TurnChannels(DType dtype, const Dims& dims, const Layout& from,
                                     const Layout& to) {
  if (dims.size() < 3 || dims.size() > 5 || dtype != DType::kF32 || NumElements(dims) == 0)
    return std::nullopt;
  const Layout last = onednn::ChannelsLast(dtype, dims);
  const int64_t images = dims[0], channels = dims[1],
                points = NumElements(dims) / (images * channels);
  if (channels < 16 || points < 16) return std::nullopt;
  // Ours gives a small one to one lane.
  if (CurrentLanes() > 1 && NumElements(dims) < kTurnedByLanes) return std::nullopt;
  MovePlan plan;
  if (from.plain() && to == last)
    plan = MovePlan::View(0, 0, {images, points, channels}, {channels * points, 1, points}, 4);
  else if (from == last && to.plain())
    plan = MovePlan::View(0, 0, {images, channels, points}, {channels * points, 1, channels}, 4);
  else
    return std::nullopt;
  Prepared p;
  p.name = "own:turn";
  p.launch =
      LaunchOf([plan = std::move(plan)](std::byte* const* args) { plan.Run(args, args[1]); });
  return p;
}

class Host final : public PlanBackend {
 public:
  std::string_view name() const override { return "cpu"; }
  const KernelList& kernels() const override { return kernels_; }
  Result<Prepared> Reorder(DType dtype, const Dims& dims, const Layout& from,
                           const Layout& to) const override {
    if (auto own = TurnChannels(dtype, dims, from, to)) return *std::move(own);
    return onednn::MakeReorder(dtype, dims, from, to);
  }
  std::string NameOf(const Layout& layout) const override { return onednn::NameOf(layout); }
  std::optional<int64_t> ChannelBlock(DType dtype, const Dims& dims,
                                      const Layout& layout) const override {
    return onednn::ChannelBlockOf(dtype, dims, layout);
  }
  int UseThreads(int lanes) const override { return onednn::UseThreads(lanes); }
  AloneFn ChooseLanes(int lanes) const override {
    return [steps = std::make_shared<StepLanes>(lanes)](const Cost& cost, bool on_reference) {
      return steps->Begin(cost, on_reference);
    };
  }
  Status RewriteGraph(Graph& graph, const KernelList& kernels,
                      const CompileOptions& options) const override {
    return RewriteForKernels(graph, kernels, options);
  }
  Status GroupSteps(Plan& plan, const KernelList& kernels,
                    const CompileOptions& options) const override {
    return GroupForKernels(plan, kernels, options);
  }
  double StepMicroseconds(const Cost& cost) const override {
    return EstimateMicroseconds(cost, false);
  }

 private:
  KernelList kernels_ = CpuKernels();
};

class CpuBackend final : public Backend {
 public:
  CpuBackend() : kernels_(CpuKernels()), isa_(onednn::CapIsa()) {}
  std::string_view name() const override { return "cpu"; }
  std::string Unavailable() const override { return isa_.message(); }
  bool HasKernelFor(const OpDef& def) const override {
    return std::any_of(kernels_.begin(), kernels_.end(), [&](const KernelDef& k) {
      // A table of codes, which any unary operator has, is no kernel for its numbers.
      return k.Takes(def) && !(k.op.empty() && k.name.starts_with("int8:"));
    });
  }

  Result<std::string> HowComputes(Compute compute) const override {
    INFER_TRY(isa_);
    if (compute != Compute::kBF16) return Backend::HowComputes(compute);
    switch (onednn::Bf16UnitHere()) {
      case onednn::Bf16Unit::kAmx: break;
      case onednn::Bf16Unit::kAvx512:
        if (IsSlowAvx512Bf16())
          return std::string(
              "bf16 without AMX: on Intel's processors AVX512_BF16 takes longer than f32");
        break;
      case onednn::Bf16Unit::kNone:
        return std::string(
            "no instructions for bf16 here: operands are rounded to it and multiplied in f32, "
            "which saves no time");
    }
    return std::string();
  }

  Result<std::shared_ptr<const Program>> Compile(const Graph& graph,
                                                 const CompileOptions& options) const override {
    return CompileOwned(graph.Clone(), options);
  }

  Result<std::shared_ptr<const Program>> CompileOwned(
      Graph graph, const CompileOptions& options) const override {
    if (options.compute == Compute::kF16) INFER_TRY(RefuseCompute(name(), options.compute));
    try {
      INFER_ASSIGN(std::shared_ptr<const Program> program,
                   CompileGraph(std::move(graph), options, false));
      return program;
    } catch (...) {
      return StatusOfException("while compiling");
    }
  }

 private:
  /// `is_part`: as Plan::is_part.
  Result<std::shared_ptr<const ExecutorProgram>> CompileGraph(Graph graph,
                                                              const CompileOptions& options,
                                                              bool is_part) const {
    INFER_TRY(isa_);
    // The lists and the options by value: a program may outlive its backend.
    CompileOptions inner = options;
    inner.observe = nullptr;
    inner.watched = 0;
    inner.tune = false;  // it may be compiled during a run; what the file knows is taken
    const CompileFn compile = [backend = *this, inner](const Graph& g) {
      return backend.CompileGraph(g.Clone(), inner, true);
    };
    CompileState state(std::move(graph), kernels_, options, compile);
    INFER_TRY(RunCompileSteps(state));
    state.plan->watched = options.watched;
    state.plan->is_part = is_part;
    ExecutorParts parts{.kernels = std::move(state.chosen),
                        .backends = {CpuHost()},
                        .bodies = std::move(state.bodies),
                        .compile = compile,
                        .lanes = options.threads > 0 ? options.threads : LaneBudget(),
                        .priority = options.priority};
    INFER_ASSIGN(parts.chooser, CpuTuner::For(options, parts.lanes));
    auto program = std::make_shared<ExecutorProgram>(*std::move(state.plan), std::move(state.infos),
                                                     std::move(parts));
    INFER_TRY(program->Prepare(options.observe));
    return std::shared_ptr<const ExecutorProgram>(std::move(program));
  }

  KernelList kernels_;
  Status isa_;
};

}  // namespace

KernelList CpuKernels() {
  KernelList all;
  using Family = KernelList (*)();
  const Family families[] = {
      SparseByteKernels,
      Int8ByteKernels,
      Int8ProductKernels,
      Int8PairKernels,
      Int8ElementwiseKernels,
      Bf16ConvKernels,
      Bf16MatMulKernels,
      SparseKernels,
      TransposedProductKernels,
      FewResultKernels,
      WinogradKernels,
      ConvProductKernels,
      DepthwiseKernels,
      ConvTransposeKernels,
      TileKernels,
      ConvKernels,
      SkinnyKernels,
      MatMulKernels,
      WeightOnlyKernels,
      GroupAttentionKernels,
      PoolKernels,
      ChannelNormKernels,
      NormKernels,
      AttentionKernels,
      RowKernels,
      RecurrentKernels,
      ConcatKernels,
      ViewKernels,
      MoveKernels,
      ElementwiseKernels,
      PowKernels,
      ElementKernels,
      IndexKernels,
      TopKKernels,
      ScatterKernels,
      ResizeKernels,
      ResizeTapKernels,
      GridSampleKernels,
      AffineGridKernels,
      RoiAlignKernels,
      Col2ImKernels,
      DeformConvKernels,
      DeformPlanesKernels,
      DftKernels,
      FillKernels,
      StftKernels,
      LrnKernels,
      QuantizeKernels,
      RotaryKernels,
      RmsKernels,
      ChainKernels,
      GatherBlockKernels,
      QLinearKernels,
      IntegerKernels,
      WeightGradientKernels,
      ArgKernels,
      LpNormKernels,
      IntegerReduceKernels,
      RunningKernels,
      FeatureKernels,
      ForestKernels,
      LabelKernels,
      LinearModelKernels,
      SvmKernels,
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

std::shared_ptr<const PlanBackend> CpuHost() {
  static const auto host = std::make_shared<const Host>();
  return host;
}

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace infer
