#pragma once
/// Where GridSample reads: the taps of one coordinate along one axis. Shared by the reference
/// kernel and those of backends, so that all agree on every mode and padding. Source: GridSample-22
/// of ONNX; cubic: Keys 1981, a = -0.75.
#include <string>

#include "lib/support/status.h"

namespace infer {

class GridSampler {
 public:
  /// One tap: a position along an axis, -1 for a zero outside.
  struct Tap {
    int64_t at = -1;
    double weight = 0;
  };

  enum class Padding { kZeros, kBorder, kReflection };

  /// InvalidModel for a mode or padding that does not exist.
  static Result<GridSampler> Of(const std::string& mode, const std::string& padding,
                                bool align_corners);

  /// Taps along an axis: 1 nearest, 2 linear, 4 cubic.
  int points() const { return points_; }
  Padding padding() const { return padding_; }
  bool align_corners() const { return align_corners_; }
  /// Taps of normalised coordinate g (-1 ... 1) along an axis of n > 0, to taps[0 .. points).
  void TapsOf(double g, int64_t n, Tap* taps) const;

 private:
  Tap At(int64_t i, double weight, int64_t n, double lo, double hi) const;
  double Weight(double distance) const;

  Padding padding_ = Padding::kZeros;
  bool align_corners_ = false;
  int points_ = 2;
};

}  // namespace infer
