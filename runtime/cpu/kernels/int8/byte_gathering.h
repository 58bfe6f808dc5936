#pragma once
/// Rows of bytes for a product, gathered from the windows of a convolution over images with
/// channels last.
#include "lib/tensor/tensor.h"

namespace infer {

/// Rows of bytes that the taps of an image's windows see, one row per pixel of the result.
struct ByteGathering {
  int64_t images = 1, channels = 0, row_bytes = 0;  ///< row_bytes: whole quads
  Dims image = {1, 1, 1}, result = {1, 1, 1}, window = {1, 1, 1};
  Dims strides = {1, 1, 1}, dilations = {1, 1, 1}, pads = {0, 0, 0};
  uint8_t flip = 0;

  int64_t rows() const { return images * NumElements(result); }
  /// The rows are the image.
  bool direct() const {
    return flip == 0 && row_bytes == channels && image == result && NumElements(window) == 1;
  }

  /// x: the images; zero: what padding holds. to [rows, row_bytes]: k = tap * channels + channel,
  /// zeros behind.
  void Run(const uint8_t* x, uint8_t zero, uint8_t* to) const;

 private:
  void Row(const uint8_t* x, int64_t line, int64_t i, uint8_t zero, uint8_t* to) const;
  /// The taps of one line of the window, from column `w` on.
  void Line(const uint8_t* from, int64_t w, uint8_t zero, uint8_t* at) const;
};

}  // namespace infer
