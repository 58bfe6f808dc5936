#pragma once
/// The regions of RoiAlign: bins, and the pixels that their samples lie between.
#include <algorithm>

#include "lib/ops/op_def.h"

namespace infer {

/// Up to four weighted pixels around a point of one [H, W] plane; none outside.
struct Bilinear {
  int64_t at[4] = {0, 0, 0, 0};
  double weight[4] = {0, 0, 0, 0};
  Bilinear(double y, double x, int64_t height, int64_t width);
};

struct RoiBins {
  double y, x, bin_height, bin_width;  ///< of the region's corner and of one bin, in pixels
  int64_t samples_y, samples_x;        ///< per bin
  int64_t batch;

  int64_t samples() const { return samples_y * samples_x; }
  /// Sample i of bin (by, bx).
  Bilinear Sample(int64_t by, int64_t bx, int64_t i, int64_t height, int64_t width) const;
};

/// The attributes of a RoiAlign, and how many regions of how many images it pools.
struct RoiAlignForm {
  int64_t out_h = 1, out_w = 1, ratio = 0;
  double scale = 1;
  bool half_pixel = true, max = false;
  int64_t images = 0, channels = 0, regions = 0;

  int64_t bins() const { return out_h * out_w; }
  /// InvalidModel unless the operands fit and the mode is known.
  static Result<RoiAlignForm> Of(const OpCall& call, const Dims& x, const Dims& rois,
                                 int64_t batches);
  /// The bins of a region with corners x1, y1, x2, y2. InvalidModel where the image is not there,
  /// the region is not finite, or its samples are more than it could need.
  Result<RoiBins> BinsOf(const double (&corners)[4], int64_t image) const;
};

}  // namespace infer
