/// RoiAlign of f32 over images that lie channels last, or are brought there: each sample is four
/// pixels whose channels lie side by side. The places and weights are the reference kernel's
/// (lib/ops/other/regions.h), the sums are in f32.
#include <algorithm>
#include <limits>

#include "lib/ops/common.h"
#include "lib/ops/other/regions.h"
#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/move/move_plan.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"
#include "runtime/cpu/simd/folds.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

std::string RefuseRoiAlign(const StepCall& call) {
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  for (size_t i = 0; i < 2; ++i)
    if (ElementTypeOf(n.input(i)) != DType::kF32) return "not f32";
  return ElementTypeOf(n.input(2)) == DType::kI64 ? "" : "the images are not i64";
}

class RoiAlignLaunch final : public Launch {
 public:
  /// Regions are pooled in so many parts, each with sums of its own.
  static constexpr int64_t kMostParts = 16;

  RoiAlignForm form;
  int64_t height = 1, width = 1, parts = 1;
  int x = 0, rois = 0, images = 0, y = 0, scratch = 0;
  MovePlan to_last;      ///< of X
  bool is_last = false;  ///< it lies so already

  int64_t ImageFloats() const { return is_last ? 0 : form.images * form.channels * height * width; }

  Status Run(std::byte* const* args, LaunchState*) const override {
    for (int64_t n = 0; n < form.regions; ++n) INFER_TRY(BinsOf(args, n).status());
    const float* image = As<float>(args[x]);
    float* const sums = As<float>(args[scratch]) + ImageFloats();
    if (!is_last) {
      to_last.Run(args, args[scratch]);
      image = As<float>(args[scratch]);
    }
    ForRange(parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p)
        for (int64_t n = form.regions * p / parts; n < form.regions * (p + 1) / parts; ++n)
          Pool(image, *BinsOf(args, n), sums + p * form.channels,
               As<float>(args[y]) + n * form.channels * form.bins());
    });
    return {};
  }

 private:
  Result<RoiBins> BinsOf(std::byte* const* args, int64_t n) const {
    double corners[4];
    for (int k = 0; k < 4; ++k) corners[k] = static_cast<double>(As<float>(args[rois])[n * 4 + k]);
    return form.BinsOf(corners, As<int64_t>(args[images])[n]);
  }

  void Pool(const float* image, const RoiBins& r, float* sums, float* to) const {
    constexpr int64_t kSamples = 64;  // whose pixels are found at once
    const simd::Folds& folds = simd::TheFolds();
    const auto meet = form.max ? folds.largest_tap : folds.add_taps;
    const int64_t channels = form.channels, bins = form.bins(), samples = r.samples();
    const float* const from = image + r.batch * height * width * channels;
    int64_t at[4 * kSamples];
    float weight[4 * kSamples];
    for (int64_t bin = 0; bin < bins; ++bin) {
      std::fill_n(sums, channels,
                  form.max && samples > 0 ? -std::numeric_limits<float>::infinity() : 0.0f);
      for (int64_t first = 0; first < samples; first += kSamples) {
        const int64_t count = std::min(kSamples, samples - first);
        for (int64_t i = 0; i < count; ++i) {
          const Bilinear b = r.Sample(bin / form.out_w, bin % form.out_w, first + i, height, width);
          for (int k = 0; k < 4; ++k) {
            at[4 * i + k] = b.at[k] * channels;
            weight[4 * i + k] = static_cast<float>(b.weight[k]);
          }
        }
        meet(from, at, weight, 4 * count, channels, sums);
      }
      const auto divisor = form.max ? 1.0f : static_cast<float>(std::max<int64_t>(samples, 1));
      for (int64_t c = 0; c < channels; ++c) to[c * bins + bin] = sums[c] / divisor;
    }
  }
};

std::unique_ptr<Kernel> MakeRoiAlign(const StepCall& call) {
  const Node& node = call.main();
  const int x = call.operand(node.input(0)), rois = call.operand(node.input(1)),
            images = call.operand(node.input(2));
  return KernelOf([&node, x, rois, images](std::span<const Operand> in,
                                           std::span<const Operand>) -> Result<Prepared> {
    const Operand& image = in[static_cast<size_t>(x)];
    const Dims& dims = image.dims;
    auto launch = std::make_shared<RoiAlignLaunch>();
    RoiAlignLaunch& l = *launch;
    INFER_ASSIGN(l.form, RoiAlignForm::Of(CallOf(node), dims, in[static_cast<size_t>(rois)].dims,
                                          NumElements(in[static_cast<size_t>(images)].dims)));
    l.height = dims[2];
    l.width = dims[3];
    l.is_last = !image.layout.plain() && image.layout == onednn::ChannelsLast(DType::kF32, dims);
    // Few regions of a large image: bringing it there would take longer than they do.
    constexpr int64_t kPixelsOfBin = 16;
    if (!l.is_last && l.form.regions * l.form.bins() * kPixelsOfBin < dims[0] * dims[2] * dims[3])
      return Unsupported("few regions of a large image");
    l.x = x;
    l.rois = rois;
    l.images = images;
    l.y = static_cast<int>(in.size());
    l.scratch = l.y + 1;
    l.parts = std::min(l.form.regions, RoiAlignLaunch::kMostParts);
    const int64_t points = dims[2] * dims[3];
    l.to_last = MovePlan::View(x, 0, {dims[0], points, dims[1]}, {points * dims[1], 1, points}, 4);
    Prepared p;
    p.name = Cat("own:regions:", simd::TheLoops().isa);
    p.in_layouts.resize(in.size());
    if (l.is_last) p.in_layouts[static_cast<size_t>(x)] = image.layout;
    p.scratch_bytes = (l.ImageFloats() + l.parts * l.form.channels) * 4;
    p.launch = std::move(launch);
    return p;
  });
}

}  // namespace

KernelList RoiAlignKernels() { return {{"RoiAlign", "", "own", RefuseRoiAlign, MakeRoiAlign}}; }

}  // namespace infer
