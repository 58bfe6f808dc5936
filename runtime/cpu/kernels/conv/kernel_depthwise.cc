/// Depthwise Conv and ConvTranspose on channels last, of one to three spatial dimensions, any
/// stride, dilation and number of results per channel. For what oneDNN 2.6 has no own kernel: it
/// lowers depthwise convolutions of one dimension, those with several results per channel and
/// dilated windows that reach far over the borders to matrix products (3 to 18 times slower than
/// ONNX Runtime), and transposed ones to a gradient (50 times);
/// docs/adr/0010-what-the-real-models-asked-for.md.
#include <algorithm>
#include <array>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/packed.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/depthwise.h"

namespace infer {
namespace {

/// Results along an axis that read the same taps of the kernel: result i reads operand
/// `from + i * from_step + at[t]` by taps[t].
struct Span {
  int64_t first = 0, count = 0;  ///< results
  int64_t from = 0;              ///< operand of taps[0] for the first of them
  std::vector<int64_t> taps, at;
};

/// One axis: results, the operands they read, how results and operands step along a span.
struct WindowAxis {
  int64_t result_step = 1, operand_step = 1;
  std::vector<Span> spans;

  /// `longest`: results in a span at most.
  static WindowAxis Of(bool transposed, int64_t kernel, int64_t stride, int64_t dilation,
                       int64_t pad, int64_t in, int64_t out, int64_t longest) {
    WindowAxis a;
    (transposed ? a.result_step : a.operand_step) = stride;
    for (int64_t phase = 0; phase < a.result_step; ++phase) {
      bool open = false;
      for (int64_t o = phase; o < out; o += a.result_step) {
        Span s{o, 1, 0, {}, {}};
        for (int64_t k = 0; k < kernel; ++k) {
          int64_t i = transposed ? o + pad - k * dilation : o * stride - pad + k * dilation;
          if (transposed && (i < 0 || i % stride != 0)) continue;
          if (transposed) i /= stride;
          if (i < 0 || i >= in) continue;
          if (s.taps.empty()) s.from = i;
          s.taps.push_back(k);
          s.at.push_back(i - s.from);
        }
        if (open && a.spans.back().taps == s.taps && a.spans.back().count < longest)
          ++a.spans.back().count;
        else
          a.spans.push_back(std::move(s));
        open = true;
      }
    }
    return a;
  }
};

/// Everything that a run reads. An axis that is not there has one point.
struct DepthwisePlan {
  const simd::Depthwise* loop = nullptr;
  Appended appended;
  int64_t images = 1, channels = 1, repeat = 1;  ///< results per channel of the operand
  std::array<int64_t, 3> in = {1, 1, 1}, out = {1, 1, 1}, kernel = {1, 1, 1};
  std::array<WindowAxis, 3> axes;  ///< planes, rows, columns
  struct Taps {
    std::vector<int64_t> x_at, w_at;
  };
  std::vector<Taps> taps;  ///< by span of planes, then of rows, then of columns

  void Combine() {
    for (const Span& p : axes[0].spans)
      for (const Span& r : axes[1].spans)
        for (const Span& c : axes[2].spans) {
          Taps& t = taps.emplace_back();
          for (size_t k = 0; k < p.taps.size(); ++k)
            for (size_t i = 0; i < r.taps.size(); ++i)
              for (size_t j = 0; j < c.taps.size(); ++j) {
                const int64_t x_row = p.at[k] * in[1] + r.at[i];
                const int64_t w_row = p.taps[k] * kernel[1] + r.taps[i];
                t.x_at.push_back((x_row * in[2] + c.at[j]) * channels);
                t.w_at.push_back((w_row * kernel[2] + c.taps[j]) * channels);
              }
        }
  }
  int64_t points() const { return images * in[0] * in[1] * in[2]; }
  int64_t scratch_bytes() const { return repeat > 1 ? points() * channels * 4 : 0; }

  void Run(const float* x, const float* w, const float* bias, float* y, float* scratch) const {
    if (repeat > 1) {
      Repeat(x, scratch);
      x = scratch;
    }
    // A row of results for each member of each span of planes and rows.
    const auto spans = static_cast<int64_t>(axes[2].spans.size());
    const int64_t work = out[2] * channels * kernel[2] / spans + 1;
    size_t taps_at = 0;
    for (const Span& plane : axes[0].spans)
      for (const Span& row : axes[1].spans) {
        const Taps* const of_row = &taps[taps_at];
        taps_at += axes[2].spans.size();
        ForRange(
            images * plane.count * row.count * spans, std::max<int64_t>(1, 32768 / work),
            [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i)
                One(x, w, bias, y, {plane, row, of_row}, i / spans, static_cast<size_t>(i % spans));
            });
      }
  }

 private:
  struct RowSpan {
    const Span &plane, &row;
    const Taps* taps;  ///< by span of columns
  };
  void One(const float* x, const float* w, const float* bias, float* y, const RowSpan& at,
           int64_t i, size_t column_span) const {
    const Span& column = axes[2].spans[column_span];
    const Taps& t = at.taps[column_span];
    const int64_t r = i % at.row.count, p = i / at.row.count % at.plane.count;
    const int64_t image = i / at.row.count / at.plane.count;
    const int64_t x_plane = image * in[0] + at.plane.from + p * axes[0].operand_step;
    const int64_t y_plane = image * out[0] + at.plane.first + p * axes[0].result_step;
    const int64_t x_row = x_plane * in[1] + at.row.from + r * axes[1].operand_step;
    const int64_t y_row = y_plane * out[1] + at.row.first + r * axes[1].result_step;
    simd::DepthwiseCall d;
    d.x = x + (x_row * in[2] + column.from) * channels;
    d.x_step = axes[2].operand_step * channels;
    d.y = y + (y_row * out[2] + column.first) * channels;
    d.y_step = axes[2].result_step * channels;
    d.pixels = column.count;
    d.channels = channels;
    d.w = w;
    d.x_at = t.x_at.data();
    d.w_at = t.w_at.data();
    d.taps = static_cast<int64_t>(t.x_at.size());
    d.bias = bias;
    d.add = appended.residual >= 0;
    loop->run(d);
    if (!appended.function) return;
    if (axes[2].result_step == 1) return appended.Apply(d.y, d.pixels * channels);
    for (int64_t k = 0; k < d.pixels; ++k) appended.Apply(d.y + k * d.y_step, channels);
  }
  void Repeat(const float* x, float* to) const {
    const int64_t n = channels / repeat;
    ForRange(points(), std::max<int64_t>(1, 16384 / channels),
             [=, this](int64_t begin, int64_t end) {
               for (int64_t p = begin; p < end; ++p)
                 for (int64_t c = 0; c < n; ++c)
                   std::fill_n(to + (p * n + c) * repeat, repeat, x[p * n + c]);
             });
  }
};

/// oneDNN's kernel for one result per channel of images covers at most so many points at the
/// borders (as many as it computes at a time), and no image that is smaller than a dilated window;
/// the others become matrix products there.
constexpr int64_t kWidestBorder = 3;

bool IsPlain(const Node& n, const Tensor& w) {
  return n.Is("Conv") && w.rank() == 4 && w.dim(0) == n.Attr<int64_t>("group");
}

/// `extents` of the image; nullptr: not known, which may leave it open.
bool OneDnnHasKernel(const Node& n, const Tensor& w, const Dims* extents) {
  const auto ints = [&](const char* name) {
    return n.attrs().contains(name) ? n.Attr<std::vector<int64_t>>(name) : std::vector<int64_t>();
  };
  const auto dilations = ints("dilations"), pads = ints("pads");
  for (size_t i = 0; i < 2; ++i) {
    const int64_t dilation = i < dilations.size() ? dilations[i] : 1;
    const int64_t beyond = (w.dims()[i + 2] - 1) * dilation;
    if (beyond > 2 * kWidestBorder) return false;
    if (dilation > 1 && (!extents || (*extents)[i + 2] <= beyond)) return false;
  }
  return std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p <= kWidestBorder; });
}

std::string RefuseDepthwise(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  const bool transposed = n.Is("ConvTranspose");
  const Tensor* w = call.constant(n.input(1));
  if (!w) return "the weights are not constant";
  const int64_t groups = n.Attr<int64_t>("group");
  if (groups == 1) return "one group";
  if (transposed ? w->dims()[0] != groups : w->dims()[1] != 1) return "several channels per group";
  if (w->rank() < 3 || w->rank() > 5) return "only 1 to 3 spatial dimensions";
  if (IsPlain(n, *w) && OneDnnHasKernel(n, *w, nullptr)) return "oneDNN has a kernel";
  // Volumes would be brought into our layout and back for one multiplication per element.
  if (w->rank() == 5 && w->num_elements() == w->dim(0) * w->dim(1)) return "a window of one point";
  if (n.input(2) && !call.constant(n.input(2))) return "the bias is not constant";
  const auto epilogue = DecodeEpilogue(call, false);
  if (!epilogue.ok()) return epilogue.status().message();
  const auto appended = Appended::Of(call, *epilogue);
  if (!appended.ok()) return appended.status().message();
  return appended->residual_last ? "the residual follows the activation" : "";
}

class DepthwiseKernel final : public Kernel {
 public:
  explicit DepthwiseKernel(const StepCall& call)
      : node_(call.main()),
        x_(call.operand(node_.input(0))),
        w_(call.operand(node_.input(1))),
        b_(call.operand(node_.input(2))),
        appended_(*Appended::Of(call, *DecodeEpilogue(call, false))),
        weights_(*call.constant(node_.input(1))) {
    if (b_ >= 0) bias_ = *call.constant(node_.input(2));
  }

  Result<Prepared> Prepare(std::span<const Operand> in,
                           std::span<const Operand> out) const override {
    if (!NoneEmpty(in, out)) return Unsupported("an operand is empty");
    if (x_ == w_ || x_ == b_) return Unsupported("operand and weights are one value");
    const Dims& src = in[static_cast<size_t>(x_)].dims;
    const Dims& dst = out[0].dims;
    const int residual = appended_.residual;
    if (residual >= 0 && in[static_cast<size_t>(residual)].dims != dst)
      return Unsupported("the residual is broadcast");
    if (IsPlain(node_, weights_) && OneDnnHasKernel(node_, weights_, &src))
      return Unsupported("oneDNN has a kernel");
    INFER_ASSIGN(DepthwisePlan made, PlanFor(src, dst));
    const auto plan = std::make_shared<const DepthwisePlan>(std::move(made));
    const auto weights = packed_.Get([&] { return Pack(); });
    Prepared p;
    p.name = Cat("own:depthwise:", plan->loop->isa);
    p.unused.assign(in.size(), true);
    p.unused[static_cast<size_t>(x_)] = false;
    p.in_layouts.resize(in.size());
    p.in_layouts[static_cast<size_t>(x_)] = onednn::ChannelsLast(DType::kF32, src);
    p.out_layouts = {onednn::ChannelsLast(DType::kF32, dst)};
    p.accumulate = residual;
    if (residual >= 0) {
      p.unused[static_cast<size_t>(residual)] = false;
      p.in_layouts[static_cast<size_t>(residual)] = p.out_layouts[0];
    }
    p.weight_bytes = static_cast<int64_t>(weights->size());
    p.scratch_bytes = plan->scratch_bytes();
    const int at = x_;
    const size_t y = in.size();
    p.launch = LaunchOf([=, bias = bias_](std::byte* const* args) {
      plan->Run(As<float>(static_cast<const std::byte*>(args[at])), As<float>(weights->data()),
                bias.defined() ? bias.data<float>().data() : nullptr, As<float>(args[y]),
                plan->repeat > 1 ? As<float>(args[y + 1]) : nullptr);
    });
    return p;
  }

 private:
  Result<DepthwisePlan> PlanFor(const Dims& src, const Dims& dst) const {
    const Dims& w = weights_.dims();
    const bool transposed = node_.Is("ConvTranspose");
    INFER_ASSIGN(const Spatial s,
                 SpatialOf(node_, Dims(w.begin() + 2, w.end()), src, dst, transposed));
    DepthwisePlan plan;
    plan.loop = &simd::TheDepthwise();
    plan.appended = appended_;
    plan.images = src[0];
    plan.channels = dst[1];
    plan.repeat = dst[1] / src[1];
    const size_t missing = 3 - s.kernel.size();
    for (size_t a = 0; a < 3; ++a) {
      if (a < missing) {
        plan.axes[a].spans = {{0, 1, 0, {0}, {0}}};
        continue;
      }
      const size_t i = a - missing;
      plan.in[a] = src[2 + i];
      plan.out[a] = dst[2 + i];
      plan.kernel[a] = s.kernel[i];
      // Long spans of columns are cut so that several lanes share one row of results.
      plan.axes[a] =
          WindowAxis::Of(transposed, s.kernel[i], s.strides[i], s.dilations[i], s.pads_begin[i],
                         plan.in[a], plan.out[a], a == 2 ? 64 : plan.out[a]);
    }
    plan.Combine();
    return plan;
  }

  /// [channels][taps] as [taps][channels].
  std::shared_ptr<const Buffer> Pack() const {
    const Dims& w = weights_.dims();
    const int64_t channels = w[0] * w[1], taps = weights_.num_elements() / channels;
    auto buffer = Buffer::Allocate(static_cast<size_t>(channels * taps) * sizeof(float));
    const auto from = weights_.data<float>();
    float* to = As<float>(buffer->mutable_data());
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t t = 0; t < taps; ++t)
        to[t * channels + c] = from[static_cast<size_t>(c * taps + t)];
    return buffer;
  }

  const Node& node_;
  int x_, w_, b_;
  Appended appended_;
  Tensor weights_, bias_;
  PackedOnce packed_;
};

std::unique_ptr<Kernel> MakeDepthwise(const StepCall& call) {
  return std::make_unique<DepthwiseKernel>(call);
}

}  // namespace

KernelList DepthwiseKernels() {
  return {{"Conv", "", "depthwise", RefuseDepthwise, MakeDepthwise},
          {"ConvTranspose", "", "depthwise", RefuseDepthwise, MakeDepthwise}};
}

}  // namespace infer
