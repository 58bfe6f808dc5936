#include "lib/ops/other/regions.h"

#include <cmath>

#include "lib/ops/common.h"

namespace infer {
namespace {

/// More samples than a region could need would run for hours: a hostile sampling_ratio, or a region
/// far larger than its plane. `planes`: how many times the bins are sampled.
Status CheckSamples(const RoiBins& r, int64_t bins, int64_t planes) {
  constexpr double kMostPerBin = 1 << 20, kMost = 1e10;
  const double per_bin = static_cast<double>(r.samples_y) * static_cast<double>(r.samples_x);
  const double all = per_bin * static_cast<double>(bins) * static_cast<double>(planes);
  if (per_bin <= kMostPerBin && all <= kMost) return {};
  return InvalidModel(Cat(bins, " bins of ", r.samples_y, " x ", r.samples_x,
                          " samples are more than a region can need"));
}

}  // namespace

Bilinear::Bilinear(double y, double x, int64_t height, int64_t width) {
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width)))
    return;
  y = std::clamp(y, 0.0, static_cast<double>(height - 1));
  x = std::clamp(x, 0.0, static_cast<double>(width - 1));
  const auto y0 = static_cast<int64_t>(y), x0 = static_cast<int64_t>(x);
  const int64_t y1 = std::min(y0 + 1, height - 1), x1 = std::min(x0 + 1, width - 1);
  const double v = y - static_cast<double>(y0), u = x - static_cast<double>(x0);
  const int64_t positions[4] = {y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1};
  const double weights[4] = {(1 - v) * (1 - u), (1 - v) * u, v * (1 - u), v * u};
  std::copy_n(positions, 4, at);
  std::copy_n(weights, 4, weight);
}

Bilinear RoiBins::Sample(int64_t by, int64_t bx, int64_t i, int64_t height, int64_t width) const {
  const auto place = [](double start, int64_t bin, int64_t sample, int64_t samples, double size) {
    return start + (static_cast<double>(bin) +
                    (static_cast<double>(sample) + 0.5) / static_cast<double>(samples)) *
                       size;
  };
  return {place(y, by, i / samples_x, samples_y, bin_height),
          place(x, bx, i % samples_x, samples_x, bin_width), height, width};
}

Result<RoiAlignForm> RoiAlignForm::Of(const OpCall& call, const Dims& x, const Dims& rois,
                                      int64_t batches) {
  RoiAlignForm f;
  const std::string& mode = call.Str("mode");
  f.out_h = call.Int("output_height");
  f.out_w = call.Int("output_width");
  f.ratio = call.Int("sampling_ratio");
  if (mode != "avg" && mode != "max") return InvalidModel(Cat("no mode '", mode, "'"));
  if (x.size() != 4 || rois.size() != 2 || rois[1] != 4 || batches != rois[0] || f.out_h < 1 ||
      f.out_w < 1 || f.ratio < 0)
    return InvalidModel(Cat("rois ", ToString(rois), " do not fit ", ToString(x)));
  if (x[2] == 0 || x[3] == 0) return InvalidModel("X is empty");
  f.max = mode == "max";
  f.half_pixel = call.Str("coordinate_transformation_mode") == "half_pixel";
  f.scale = call.Float("spatial_scale");
  f.images = x[0];
  f.channels = x[1];
  f.regions = rois[0];
  return f;
}

Result<RoiBins> RoiAlignForm::BinsOf(const double (&corners)[4], int64_t image) const {
  if (image < 0 || image >= images) return InvalidModel(Cat("no batch entry ", image));
  const double offset = half_pixel ? 0.5 : 0;
  double corner[4];
  for (int k = 0; k < 4; ++k) corner[k] = corners[k] * scale - offset;
  double roi_w = corner[2] - corner[0], roi_h = corner[3] - corner[1];
  if (!half_pixel) {  // regions of the older form are at least one pixel
    roi_w = std::max(roi_w, 1.0);
    roi_h = std::max(roi_h, 1.0);
  }
  if (!std::isfinite(roi_w) || !std::isfinite(roi_h)) return InvalidModel("a roi is not finite");
  if (std::abs(roi_w) >= 1e6 || std::abs(roi_h) >= 1e6)
    return Unsupported("a roi of 1e6 pixels or more");
  RoiBins r{corner[1],
            corner[0],
            roi_h / static_cast<double>(out_h),
            roi_w / static_cast<double>(out_w),
            ratio,
            ratio,
            image};
  if (ratio == 0) {
    r.samples_y = static_cast<int64_t>(std::max(std::ceil(r.bin_height), 0.0));
    r.samples_x = static_cast<int64_t>(std::max(std::ceil(r.bin_width), 0.0));
  }
  INFER_TRY(CheckSamples(r, bins(), regions * channels));
  return r;
}

}  // namespace infer
