#pragma once
/// How the columns of Col2Im lie in its image, for the reference kernel and those of backends.
#include "lib/ops/op_def.h"

namespace infer {

/// Entry i of a block of column c is pixel c[k] * strides[k] + i[k] * dilations[k] - pads[k] along
/// axis k; those outside of the image do not count. Columns are [N, C * entries, count], the image
/// [N, C, image...].
struct ImageColumns {
  Dims image, block, blocks;  ///< extents of the image and of a block; number of blocks
  std::vector<int64_t> strides, dilations, pads;
  int64_t entries = 1;  ///< of a block

  /// Where entry `entry` of block `column` lies, both counted in order; -1: outside of the image.
  int64_t PixelOf(int64_t entry, int64_t column) const;

  /// InvalidModel where the attributes of `call`, the columns' extents and the operands
  /// `image_shape` and `block_shape` do not fit each other.
  static Result<ImageColumns> Of(const OpCall& call, const Dims& columns, const Dims& image,
                                 const Dims& block);
};

}  // namespace infer
