/// The gradient of a convolution's weights through oneDNN. Its sum over the samples is cut into
/// parts by the number of samples alone, each part runs on one lane, and the parts are added in
/// order: the bits do not depend on the lanes, which oneDNN's own way of cutting the sum does not
/// hold.
#include <algorithm>
#include <atomic>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer {
namespace {

using onednn::Arg;

constexpr int64_t kMostParts = 8, kMostPartBytes = int64_t{32} << 20, kLine = 64;
constexpr int64_t kSumGrain = 16384;

int64_t WholeLines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// Of so many samples and bytes of weights.
int64_t PartsOf(int64_t samples, int64_t bytes) {
  const int64_t most =
      std::clamp<int64_t>(kMostPartBytes / std::max<int64_t>(bytes, 1), 2, kMostParts);
  for (int64_t parts = std::min(most, samples); parts > 1; --parts)
    if (samples % parts == 0) return parts;
  return 1;
}

class GradientLaunch final : public Launch {
 public:
  struct State final : LaunchState {
    std::vector<std::unique_ptr<LaunchState>> parts;
    std::unique_ptr<LaunchState> reorder;
  };
  std::shared_ptr<const Launch> part, reorder;
  int64_t parts = 1, x_bytes = 0, g_bytes = 0;  ///< of a part's operands
  int64_t w_bytes = 0, scratch_bytes = 0;       ///< of a part, in whole lines
  int x = 0, g = 0, y = 0;

  std::unique_ptr<LaunchState> NewState() const override {
    auto state = std::make_unique<State>();
    for (int64_t p = 0; p < parts; ++p) state->parts.push_back(part->NewState());
    state->reorder = reorder->NewState();
    return state;
  }

  Status Run(std::byte* const* args, LaunchState* base) const override {
    auto& state = static_cast<State&>(*base);
    std::byte* const sums = args[y + 1];
    std::byte* const scratch = sums + parts * w_bytes;
    std::atomic<bool> failed = false;
    ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        std::byte* const inner[] = {args[x] + p * x_bytes, args[g] + p * g_bytes,
                                    sums + p * w_bytes, scratch + p * scratch_bytes};
        if (!part->Run(inner, state.parts[static_cast<size_t>(p)].get()).ok()) failed = true;
      }
    });
    if (failed) return Internal("oneDNN failed in the gradient of weights");
    const int64_t floats = w_bytes / static_cast<int64_t>(sizeof(float));
    ForRange(floats, kSumGrain, [&](int64_t begin, int64_t end) {
      auto* const total = As<float>(sums);
      for (int64_t p = 1; p < parts; ++p) {
        const auto* const more = total + p * floats;
        for (int64_t i = begin; i < end; ++i) total[i] += more[i];
      }
    });
    std::byte* const last[] = {sums, args[y], scratch};
    return reorder->Run(last, state.reorder.get());
  }
};

std::string RefuseWeightGradient(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  return n.input(0) == n.input(1) ? "operand and gradient are one value" : "";
}

/// `layout` of part of the samples, for all of them.
Result<Layout> OfAll(const Layout& layout, const Dims& part, const Dims& all) {
  const auto block = onednn::ChannelBlockOf(DType::kF32, part, layout);
  if (!block) return Unsupported("oneDNN wants a layout of its own");
  if (*block == 0) return Layout();
  if (*block == part[1]) return onednn::ChannelsLast(DType::kF32, all);
  return onednn::ChannelBlocked(all, static_cast<int>(*block));
}

int64_t BytesOf(const Layout& layout, const Dims& dims) {
  return layout.plain() ? PackedBytes(DType::kF32, NumElements(dims)) : layout.bytes;
}

class WeightGradientKernel final : public Kernel {
 public:
  explicit WeightGradientKernel(const StepCall& call)
      : node_(call.main()), x_(call.operand(node_.input(0))), g_(call.operand(node_.input(1))) {}

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    const Dims &x = in[static_cast<size_t>(x_)].dims, &g = in[static_cast<size_t>(g_)].dims;
    const Dims& w = out[0].dims;
    if (x.size() > 5) return Unsupported("only 1 to 3 spatial dimensions");
    const int64_t parts = PartsOf(x[0], out[0].plain_bytes());
    Dims x_part = x, g_part = g;
    x_part[0] = g_part[0] = x[0] / parts;
    onednn::ConvSpec s;
    s.src = {DType::kF32, x_part, {}, {}, true};
    s.dst = {DType::kF32, g_part, {}, {}, true};
    INFER_ASSIGN(const Spatial spatial,
                 SpatialOf(node_, Dims(w.begin() + 2, w.end()), x, g, false));
    s.strides = spatial.strides;
    s.dilations = spatial.dilations;
    s.pads_begin = spatial.pads_begin;
    s.pads_end = spatial.pads_end;
    const int64_t groups = node_.Attr<int64_t>("group");
    Dims weights = w;
    if (groups > 1) {
      weights[0] /= groups;
      weights.insert(weights.begin(), groups);
    }
    s.weights = {DType::kF32, weights, {}, {}, true};
    INFER_ASSIGN(const onednn::Made made, onednn::MakeWeightGradient(s));
    INFER_ASSIGN(const Prepared reorder,
                 onednn::MakeReorder(DType::kF32, weights, made.weights, Layout()));

    auto launch = std::make_shared<GradientLaunch>();
    launch->part = onednn::MakeLaunch(
        made, {{Arg::kSrc, 0}, {Arg::kDstGradient, 1}, {Arg::kWeightGradient, 2}}, 3);
    launch->reorder = reorder.launch;
    launch->parts = parts;
    launch->x_bytes = BytesOf(made.src, x_part);
    launch->g_bytes = BytesOf(made.dst, g_part);
    launch->w_bytes = WholeLines(BytesOf(made.weights, weights));
    launch->scratch_bytes = WholeLines(made.scratch_bytes);
    launch->x = x_;
    launch->g = g_;
    launch->y = static_cast<int>(in.size());
    Prepared p;
    p.name = made.name;
    p.in_layouts.resize(in.size());
    INFER_ASSIGN(p.in_layouts[static_cast<size_t>(x_)], OfAll(made.src, x_part, x));
    INFER_ASSIGN(p.in_layouts[static_cast<size_t>(g_)], OfAll(made.dst, g_part, g));
    p.scratch_bytes =
        parts * (launch->w_bytes + launch->scratch_bytes) + WholeLines(reorder.scratch_bytes);
    p.launch = std::move(launch);
    return p;
  }

 private:
  const Node& node_;
  int x_, g_;
};

std::unique_ptr<Kernel> MakeWeightGradient(const StepCall& call) {
  return std::make_unique<WeightGradientKernel>(call);
}

}  // namespace

KernelList WeightGradientKernels() {
  return {{"ConvWeightGradient", "infer", "onednn", RefuseWeightGradient, MakeWeightGradient}};
}

}  // namespace infer
