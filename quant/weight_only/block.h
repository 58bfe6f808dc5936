#pragma once
/// Numbers of weight-only quantization: weights of few bits with a scale, and where the grid is
/// asymmetric a zero point, per block of neighbours along the depth. No graph and no format here.
///
/// Weights are [rows, depth], a row per output: a [K, N] matrix of MatMul transposed, a table of
/// embeddings as it is, convolution weights with all axes but the first flattened. One layout
/// serves a table that a Gather and a product share.
///
/// real = scale * (code - zero_point), codes 0 ... 2^bits - 1. A symmetric grid has zero point
/// 2^(bits-1) and uses the lowest code too: the element of largest magnitude, of either sign, is
/// scale * -2^(bits-1), so scales may be negative (as ONNX Runtime's MLAS rounds). Where only
/// positive scales are allowed, the scale is the least that covers both signs. An asymmetric grid
/// covers [min(block, 0), max(block, 0)]. Zero is exact in all.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/support/status.h"

namespace infer {

struct BlockGrid {
  int bits = 4;           ///< 2, 4 or 8
  int64_t block = 64;     ///< 16, 32, 64, 128 or 256 neighbours; 0: the whole depth
  bool symmetric = true;  ///< no zero points
  bool positive = false;  ///< scales above 0 only, as ONNX's DequantizeLinear has them
  bool operator==(const BlockGrid&) const = default;
  int max_code() const { return (1 << bits) - 1; }
  int middle() const { return 1 << (bits - 1); }  ///< zero point of symmetric grids
  int64_t BlocksOf(int64_t depth) const { return block == 0 ? 1 : (depth + block - 1) / block; }
  int64_t BlockSize(int64_t depth) const { return block == 0 ? depth : block; }
};
/// InvalidArgument for bits or a block size that no format stores.
Status CheckGrid(const BlockGrid& grid);
std::string ToString(const BlockGrid& grid);  ///< "int4, blocks of 64, symmetric"

/// A view of f32 weights, one row per output.
struct BlockWeights {
  std::span<const float> values;  ///< [rows, depth]
  int64_t rows = 0, depth = 0;
  std::span<const float> row(int64_t r) const {
    return values.subspan(static_cast<size_t>(r * depth), static_cast<size_t>(depth));
  }
};

struct BlockQuantized {
  BlockGrid grid;
  int64_t rows = 0, depth = 0;
  std::vector<uint8_t> codes;        ///< [rows, depth], one code per byte whatever the width
  std::vector<float> scales;         ///< [rows, blocks]; finite, not 0
  std::vector<uint8_t> zero_points;  ///< [rows, blocks]; middle() throughout where symmetric
  int64_t blocks() const { return grid.BlocksOf(depth); }
};

/// Scale and zero point of one block.
struct BlockParams {
  float scale = 1;
  int zero_point = 0;
};
/// Parameters that cover `block`. A block of zeros gets scale 1. Pre: finite.
BlockParams ChooseBlockParams(std::span<const float> block, const BlockGrid& grid);

/// saturate(round_half_even(x / scale) + zero_point).
uint8_t EncodeWeight(float x, const BlockParams& p, const BlockGrid& grid);
inline float DecodeWeight(uint8_t code, const BlockParams& p) {
  return p.scale * static_cast<float>(static_cast<int>(code) - p.zero_point);
}

/// Everything sized, every code and zero point the middle, every scale 1: for rounders to fill.
BlockQuantized EmptyBlocks(int64_t rows, int64_t depth, const BlockGrid& grid);
/// Round to nearest with ChooseBlockParams per block. Pre: weights finite, grid checked.
BlockQuantized QuantizeNearest(const BlockWeights& w, const BlockGrid& grid);
/// [rows, depth] in f32.
std::vector<float> DequantizeBlocks(const BlockQuantized& q);

/// Sum of importance[k] * (w - q)^2; `importance` [depth], empty: 1.
double SquaredError(const BlockWeights& w, const BlockQuantized& q,
                    std::span<const float> importance = {});
/// sqrt(SquaredError / sum of importance[k] * w^2); 0 for weights of zeros.
double RelativeError(const BlockWeights& w, const BlockQuantized& q,
                     std::span<const float> importance = {});

/// What a way of rounding is asked for.
struct RoundRequest {
  std::string_view weights;  ///< name of the constant
  /// Names of the operands that the weights are multiplied with, one per product that shares them;
  /// empty for a table that is only looked up. What a rounder learned from data is kept by these.
  std::span<const std::string> operands;
  BlockWeights w;
  BlockGrid grid;
  bool looked_up = false;  ///< a table of embeddings, too
  /// Of a layer whose codes alone are chosen: the scale of each row. Operands are not told then.
  std::span<const float> scales = {};
};

struct RoundedWeights {
  BlockQuantized q;
  std::string method;        ///< that was kept: "nearest" where nothing was better
  double nearest_error = 0;  ///< of round to nearest, in the rounder's own measure
  double error = 0;          ///< of `q` in that measure; never above nearest_error
  bool of_outputs = false;   ///< the measure is the error of outputs over data, else of weights
  std::string note;          ///< why a method fell back; "" where it did not
};

/// A way of rounding: never worse than nearest in its own measure. Pre: weights finite.
using BlockRounder = std::function<Result<RoundedWeights>(const RoundRequest&)>;

}  // namespace infer
