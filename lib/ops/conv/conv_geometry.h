#pragma once
/// Geometry of sliding windows: convolutions, their transposes and pooling, for any number of
/// spatial axes. What the ONNX attributes mean in numbers; shared by inference, kernels, backends
/// and passes. No values here.
///
/// Source: ONNX operator specifications of Conv, ConvTranspose and MaxPool.
/// Letters: i input extent, o output extent, k kernel, s stride, d dilation, p pads.
#include <optional>
#include <string_view>
#include <vector>

#include "lib/ops/op_def.h"

namespace infer {

enum class AutoPad : uint8_t { kNotSet, kSameUpper, kSameLower, kValid };

/// The window of one spatial axis.
struct WindowAxis {
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t pad_begin = 0, pad_end = 0;        ///< meaningless until resolved when auto_pad is set
  int64_t output_padding = 0;                ///< ConvTranspose only
  std::optional<int64_t> output_shape = {};  ///< ConvTranspose only: the asked output extent
  int64_t extent() const { return (kernel - 1) * dilation + 1; }  ///< of the dilated kernel
};

/// The windows of all spatial axes, as the attributes say.
struct Window {
  std::vector<WindowAxis> axes;
  AutoPad auto_pad = AutoPad::kNotSet;
  bool ceil_mode = false;
  int rank() const { return static_cast<int>(axes.size()); }
};

/// Reads kernel_shape, strides, dilations, pads, auto_pad, ceil_mode, output_padding and
/// output_shape as far as `def` has them. `kernel`: extents from the weight, -1 for unknown, empty
/// where the attribute must say. InvalidModel when lengths or values make no sense.
Result<Window> ReadWindow(const OpDef& def, const AttrMap& attrs, int spatial_rank,
                          const Dims& kernel = {});

/// Output extent of a convolution or pooling along `axis`; unknown where the input is or the
/// kernel is (-1). InvalidModel when the window does not fit.
Result<Dim> WindowOutput(const Window& w, int axis, const Dim& input);
/// The same for a transposed convolution.
Result<Dim> TransposedOutput(const Window& w, int axis, const Dim& input);

/// Explicit pads for static input extents: the result has auto_pad == kNotSet and every pad_begin
/// and pad_end >= 0 set. With `transposed`, output_shape is resolved too.
/// Pre: the outputs were found with WindowOutput or TransposedOutput without error.
Window ResolvePads(Window w, const Dims& input, bool transposed = false);

/// One axis of one window of a pooling: which input coordinates it reads, and how many positions it
/// has with padding counted (positions beyond the end padding, as ceil_mode makes them, are not).
struct WindowSpan {
  int64_t first, step, count, padded_count;
  /// Of window `o` along an extent of `input`. Pre: pads are resolved.
  static WindowSpan Of(const WindowAxis& a, int64_t input, int64_t o);
};

/// Everything static about one convolution, layouts X [N, C, i...], W [M, C/G, k...] (transposed:
/// [C, M/G, k...]), Y [N, M, o...].
struct ConvGeometry {
  int64_t batch = 0, groups = 1, in_channels = 0, out_channels = 0;
  bool transposed = false;
  Window window;                ///< resolved
  Dims input, output;           ///< spatial extents
  int64_t kernel_size() const;  ///< product of the kernel extents
  /// Multiply-adds of the plain algorithm, padding counted as data.
  int64_t macs() const;
  Dims output_dims() const;  ///< [N, M, o...]
};

/// Geometry of a (transposed) convolution whose attributes are `attrs` of `def`, which has
/// attribute `group`. InvalidModel when shapes and attributes disagree.
Result<ConvGeometry> ReadConvGeometry(const OpDef& def, const AttrMap& attrs, const Dims& x,
                                      const Dims& w, bool transposed = false);
/// Shape of Y from the (perhaps symbolic) shapes of X and W.
Result<Shape> ConvOutputShape(const OpDef& def, const AttrMap& attrs, const Shape& x,
                              const Shape& w, bool transposed = false);

}  // namespace infer
