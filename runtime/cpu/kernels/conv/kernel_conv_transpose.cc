/// ConvTranspose as a convolution of stride 1: with stride s, result s q + r along an axis is a sum
/// over the taps r, r + s, ... of the kernel at operands q, q - 1, ..., so all s phases r are the
/// channels of one convolution whose window is ceil(k / s), and the phases are interleaved after
/// it. oneDNN 2.6 runs its transposed convolution as the gradient of a convolution, which for few
/// channels is 5 to 120 times slower (docs/adr/0010-what-the-real-models-asked-for.md).
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/epilogue.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/kernels/conv/conv_spec.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer {
namespace {

using onednn::Arg;
using onednn::Binding;

std::string RefuseTransposed(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  const Tensor* w = call.constant(n.input(1));
  if (!w) return "the weights are not constant";
  if (w->rank() < 3 || w->rank() > 5) return "only 1 to 3 spatial dimensions";
  if (n.Attr<int64_t>("group") != 1) return "more than one group";
  if (n.input(2) && !call.constant(n.input(2))) return "the bias is not constant";
  const auto e = DecodeEpilogue(call, false);
  if (!e.ok()) return e.status().message();
  return e->residual >= 0 ? "a residual follows" : "";
}

/// Phases of one axis that have equally many taps.
struct Phases {
  int64_t first = 0, count = 1, taps = 1;
};

/// One axis: result o is phase (o + pad) % stride of point (o + pad) / stride - first.
struct Axis {
  int64_t kernel = 1, stride = 1, pad = 0, in = 1, out = 1;
  std::vector<Phases> groups = {Phases()};
  int64_t first() const { return pad / stride; }
  int64_t points() const { return (pad + out - 1) / stride - first() + 1; }
  /// Of a convolution with so many taps.
  int64_t pad_begin(int64_t taps) const { return taps - 1 - first(); }
  int64_t pad_end(int64_t taps) const { return points() + taps - 1 - in - pad_begin(taps); }
  size_t group_of(int64_t phase) const { return phase < groups[0].count ? 0 : 1; }

  /// One group for all phases, in which some have a tap of zeros, or two groups without.
  void Group(bool split) {
    const int64_t most = (kernel + stride - 1) / stride, longer = kernel % stride;
    groups = {{0, stride, most}};
    if (split && longer != 0 && most > 1)
      groups = {{0, longer, most}, {longer, stride - longer, most - 1}};
  }
  bool Fits() const {
    return std::all_of(groups.begin(), groups.end(), [&](const Phases& g) {
      return pad_begin(g.taps) >= 0 && pad_end(g.taps) >= 0;
    });
  }
};

/// Three axes; those that are not there have one point.
struct Axes {
  std::array<Axis, 3> of;
  size_t parts() const { return of[0].groups.size() * of[1].groups.size() * of[2].groups.size(); }
  size_t part(size_t a, size_t b, size_t c) const {
    return (a * of[1].groups.size() + b) * of[2].groups.size() + c;
  }
  std::array<Phases, 3> groups(size_t part) const {
    const size_t nc = of[2].groups.size(), nb = of[1].groups.size();
    return {of[0].groups[part / nc / nb], of[1].groups[part / nc % nb], of[2].groups[part % nc]};
  }
  static int64_t Count(const std::array<Phases, 3>& g) {
    return g[0].count * g[1].count * g[2].count;
  }
  int64_t points() const { return of[0].points() * of[1].points() * of[2].points(); }
};

/// Phases beside channels to phases between points: per part [images, points.., phases.., channels]
/// to [images, out.., channels], cropped.
struct Interleave {
  Axes axes;
  int64_t images = 1, channels = 1;
  std::vector<int64_t> part_at;  ///< floats from the first part

  void Run(const float* x, float* y) const {
    const Axis &a = axes.of[0], &b = axes.of[1], &c = axes.of[2];
    const int64_t row = c.out * channels;
    ForRange(images * a.out * b.out, std::max<int64_t>(1, 16384 / row),
             [&](int64_t begin, int64_t end) {
               for (int64_t r = begin; r < end; ++r)
                 for (size_t g = 0; g < c.groups.size(); ++g) Row(x, y + r * row, r, g);
             });
  }

 private:
  /// What group g of the last axis gives to row r of the result.
  void Row(const float* x, float* y, int64_t r, size_t g) const {
    const Axis &a = axes.of[0], &b = axes.of[1], &c = axes.of[2];
    const int64_t u = r / b.out % a.out + a.pad, v = r % b.out + b.pad;
    const size_t ga = a.group_of(u % a.stride), gb = b.group_of(v % b.stride);
    const Phases &pa = a.groups[ga], &pb = b.groups[gb], &pc = c.groups[g];
    const int64_t run = pc.count * channels, pixel = pa.count * pb.count * run;
    const int64_t image = r / (a.out * b.out);
    const int64_t p = u / a.stride - a.first(), q = v / b.stride - b.first();
    const int64_t phase = (u % a.stride - pa.first) * pb.count + v % b.stride - pb.first;
    const float* from = x + part_at[axes.part(ga, gb, g)] +
                        ((image * a.points() + p) * b.points() + q) * c.points() * pixel +
                        phase * run;
    // The first and the last run may be cropped.
    int64_t to = (c.first() * c.stride + pc.first - c.pad) * channels;
    const int64_t step = c.stride * channels, width = c.out * channels;
    if (run == 1) {
      for (; to < 0; to += step) from += pixel;
      for (; to < width; to += step, from += pixel) y[to] = *from;
      return;
    }
    for (; to < width; to += step, from += pixel) {
      const int64_t low = std::max<int64_t>(0, -to), high = std::min(run, width - to);
      if (high > low)
        std::memcpy(y + to + low, from + low, static_cast<size_t>(high - low) * sizeof(float));
    }
  }
};

/// The convolutions of all parts, then the interleaving of their results.
class PartsLaunch final : public Launch {
 public:
  struct State final : LaunchState {
    std::vector<std::unique_ptr<LaunchState>> parts;
  };
  std::vector<std::shared_ptr<const Launch>> convolutions;
  Interleave interleave;
  int x = 0, y = 0;
  int64_t wide_bytes = 0;  ///< of the results before the interleaving; 0: there is none

  std::unique_ptr<LaunchState> NewState() const override {
    auto state = std::make_unique<State>();
    for (const auto& c : convolutions) state->parts.push_back(c->NewState());
    return state;
  }
  Status Run(std::byte* const* args, LaunchState* state) const override {
    auto& states = static_cast<State*>(state)->parts;
    std::byte* const scratch = args[y + 1];
    for (size_t i = 0; i < convolutions.size(); ++i) {
      std::byte* const result = wide_bytes > 0 ? scratch + interleave.part_at[i] * 4 : args[y];
      std::byte* const inner[] = {args[x], result, scratch + wide_bytes};
      INFER_TRY(convolutions[i]->Run(inner, states[i].get()));
    }
    if (wide_bytes > 0)
      interleave.Run(As<float>(static_cast<const std::byte*>(scratch)), As<float>(args[y]));
    return {};
  }
};

class TransposedKernel final : public Kernel {
 public:
  explicit TransposedKernel(const StepCall& call)
      : node_(call.main()),
        x_(call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        b_(call.operand(node_.input(2))),
        epilogue_(*DecodeEpilogue(call, false)),
        weights_(*call.constant(node_.input(1))) {
    if (b_ >= 0) bias_ = *call.constant(node_.input(2));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    INFER_TRY(CheckConvOperands(in, out[0], {x_, w_, b_}));
    const Dims& src = in[static_cast<size_t>(x_)].dims;
    for (bool split : {true, false}) {
      INFER_ASSIGN(const Axes axes, AxesOf(src, out[0].dims, split));
      if (split && axes.parts() == 1) continue;
      auto prepared = PrepareParts(axes, in, out[0].dims);
      if (prepared.ok() || !split) return prepared;
    }
    return Unsupported("extents");
  }

 private:
  size_t spatial() const { return weights_.dims().size() - 2; }

  Result<Axes> AxesOf(const Dims& src, const Dims& dst, bool split) const {
    const Dims& w = weights_.dims();
    INFER_ASSIGN(const Spatial s, SpatialOf(node_, Dims(w.begin() + 2, w.end()), src, dst, true));
    Axes axes;
    for (size_t i = 0; i < s.kernel.size(); ++i) {
      if (s.dilations[i] != 1) return Unsupported("dilation");
      Axis& a = axes.of[3 - s.kernel.size() + i];
      a.kernel = s.kernel[i];
      a.stride = s.strides[i];
      a.pad = s.pads_begin[i];
      a.in = src[i + 2];
      a.out = dst[i + 2];
      a.Group(split);
      if (!a.Fits()) a.Group(false);
      if (!a.Fits()) return Unsupported("the padding exceeds the kernel");
    }
    return axes;
  }

  Result<Prepared> PrepareParts(const Axes& axes, std::span<const Operand> in,
                                const Dims& dst) const {
    const Dims& src = in[static_cast<size_t>(x_)].dims;
    auto launch = std::make_shared<PartsLaunch>();
    launch->interleave = {axes, dst[0], dst[1], {}};
    launch->x = x_;
    launch->y = static_cast<int>(in.size());
    Prepared p;
    Layout layout;
    int64_t wide = 0, scratch = 0;
    for (size_t part = 0; part < axes.parts(); ++part) {
      const auto groups = axes.groups(part);
      const onednn::ConvSpec spec =
          Convolution(axes, groups, src, dst[1], part > 0 ? &layout : nullptr);
      INFER_ASSIGN(const onednn::Made made, onednn::MakeConv(spec, {.post_ops = epilogue_.ops}));
      layout = made.src;
      if (part == 0) p.name = made.name;
      INFER_ASSIGN(auto weights, Weights(axes, groups, made.weights));
      p.weight_bytes += static_cast<int64_t>(weights->size());
      std::vector<Binding> bindings;
      bindings.push_back({Arg::kSrc, 0});
      bindings.push_back({Arg::kDst, 1});
      bindings.push_back({Arg::kWeights, -1, weights});
      if (b_ >= 0) bindings.push_back({Arg::kBias, -1, Biases(Axes::Count(groups))});
      launch->convolutions.push_back(onednn::MakeLaunch(made, std::move(bindings), 2));
      launch->interleave.part_at.push_back(wide);
      // Parts begin at whole lines.
      wide += (dst[0] * axes.points() * Axes::Count(groups) * dst[1] + 15) / 16 * 16;
      scratch = std::max(scratch, made.scratch_bytes);
    }
    const bool one_phase =
        axes.of[0].stride == 1 && axes.of[1].stride == 1 && axes.of[2].stride == 1;
    launch->wide_bytes = one_phase ? 0 : wide * 4;
    if (!one_phase) p.name += "+interleave";
    p.scratch_bytes = launch->wide_bytes + scratch;
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x_)] = false;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x_)] = layout;
    // One channel lies the same way in every layout.
    p.out_layouts = {dst[1] == 1 ? Layout() : onednn::ChannelsLast(DType::kF32, dst)};
    p.launch = std::move(launch);
    return p;
  }

  /// `layout`: of the operand; nullptr: what the convolution likes.
  onednn::ConvSpec Convolution(const Axes& axes, const std::array<Phases, 3>& groups,
                               const Dims& src, int64_t channels, const Layout* layout) const {
    onednn::ConvSpec s;
    s.src.dims = src;
    s.src.any = layout == nullptr;
    if (layout) s.src.layout = *layout;
    Dims dst = {src[0], channels * Axes::Count(groups)};
    s.weights.dims = {dst[1], src[1]};
    s.weights.any = true;
    for (size_t i = 3 - spatial(); i < 3; ++i) {
      dst.push_back(axes.of[i].points());
      s.weights.dims.push_back(groups[i].taps);
      s.strides.push_back(1);
      s.dilations.push_back(1);
      s.pads_begin.push_back(axes.of[i].pad_begin(groups[i].taps));
      s.pads_end.push_back(axes.of[i].pad_end(groups[i].taps));
    }
    if (b_ >= 0) s.bias.dims = {dst[1]};
    // Channels last, as strides: what interleaving reads.
    s.dst.dims = dst;
    s.dst.strides = Dims(dst.size(), 1);
    int64_t stride = dst[1];
    for (size_t i = dst.size() - 1; i >= 2; --i) {
      s.dst.strides[i] = stride;
      stride *= dst[i];
    }
    s.dst.strides[0] = stride;
    return s;
  }

  /// [IC, OC, k..] as [phases.. x OC, IC, taps..], the taps in reverse, zeros beyond the kernel;
  /// packed once.
  Result<std::shared_ptr<const Buffer>> Weights(const Axes& axes,
                                                const std::array<Phases, 3>& groups,
                                                const Layout& layout) const {
    const int64_t ic = weights_.dims()[0], oc = weights_.dims()[1];
    onednn::Spec plain;
    plain.dims = {oc * Axes::Count(groups), ic};
    std::string key = layout.code;
    for (size_t i = 0; i < 3; ++i) {
      if (i >= 3 - spatial()) plain.dims.push_back(groups[i].taps);
      key += Cat("/", groups[i].first, ",", groups[i].count);
    }
    std::lock_guard lock(mutex_);
    auto& kept = packed_[key];
    if (kept) return kept;
    Tensor t = Tensor::Zeros(DType::kF32, plain.dims);
    const auto from = weights_.data<float>();
    auto to = t.mutable_data<float>();
    for (size_t k = 0; k < from.size(); ++k) {
      int64_t rest = static_cast<int64_t>(k), at[3];
      for (int d = 2; d >= 0; --d) {
        at[d] = rest % axes.of[d].kernel;
        rest /= axes.of[d].kernel;
      }
      int64_t phase = 0, tap = 0, taps = 1;
      bool inside = true;
      for (size_t d = 0; d < 3; ++d) {
        const int64_t r = at[d] % axes.of[d].stride - groups[d].first;
        inside &= r >= 0 && r < groups[d].count;
        phase = phase * groups[d].count + r;
        tap = tap * groups[d].taps + groups[d].taps - 1 - at[d] / axes.of[d].stride;
        taps *= groups[d].taps;
      }
      if (!inside) continue;
      const int64_t i = rest / oc, o = rest % oc;
      to[static_cast<size_t>(((phase * oc + o) * ic + i) * taps + tap)] = from[k];
    }
    if (layout.plain()) return kept = t.buffer();
    INFER_ASSIGN(kept, onednn::Pack(plain, t.raw(), layout));
    return kept;
  }

  std::shared_ptr<const Buffer> Biases(int64_t phases) const {
    const int64_t n = bias_.num_elements();
    auto buffer = Buffer::Allocate(static_cast<size_t>(n * phases) * sizeof(float));
    for (int64_t p = 0; p < phases; ++p)
      std::copy_n(bias_.data<float>().data(), n, As<float>(buffer->mutable_data()) + p * n);
    return buffer;
  }

  const Node& node_;
  int x_, w_, b_;
  Epilogue epilogue_;
  Tensor weights_, bias_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const Buffer>> packed_;
};

std::unique_ptr<Kernel> MakeTransposed(const StepCall& call) {
  return std::make_unique<TransposedKernel>(call);
}

}  // namespace

KernelList ConvTransposeKernels() {
  return {{"ConvTranspose", "", "subpixel", RefuseTransposed, MakeTransposed}};
}

}  // namespace infer
