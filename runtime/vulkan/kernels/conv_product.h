#pragma once
/// A convolution as a product: tiles and dispatch of shaders/conv.comp and conv_subgroup.comp.
#include "lib/ops/conv/conv_geometry.h"
#include "runtime/vulkan/kernels/functions.h"

namespace infer::vulkan {

/// From here on sums are made of parts.
inline constexpr int64_t kLongSum = 1024;

/// Extents as the shaders have them. One axis stands as the width.
struct ConvProduct {
  int64_t m = 1, k = 1;  ///< output channels of a group; its input channels x window
  int64_t batch = 1, groups = 1;
  int64_t in_h = 1, in_w = 1, out_h = 1, out_w = 1;
  WindowAxis h = {}, w = {};
  int64_t in_channels = 1, out_channels = 1;  ///< of all groups
  int64_t first = 0;  ///< output channel of a group from which on `m` are made
  int64_t pixels() const { return out_h * out_w; }
  int64_t taps() const { return h.kernel * w.kernel; }
};

/// The shader, and how the product is cut.
struct ConvTiles {
  bool subgroup = false;
  Tiling tiling;
  std::string shader() const { return Name("conv"); }
  /// "conv64w" for "conv".
  std::string Name(std::string_view family) const;
};
/// Without `may_split` there is one part of the sums.
ConvTiles TilesOf(const DeviceFacts& facts, const ConvProduct& p, bool may_split);

/// X, W, bias, residual, and Y: the result, or scratch memory for the sums of `tiles`' parts.
using ConvArgs = std::vector<LaunchBuilder::Arg>;
void AddConvProduct(const ConvProduct& p, const ConvTiles& tiles, const Tail& tail, bool has_bias,
                    ConvArgs args, LaunchBuilder& b);

}  // namespace infer::vulkan
