#pragma once
/// y = epilogue(a w + bias) for weights of 4 or 8 bits that are scaled per block of k: packed once
/// into panels (simd/weight_only.h), read once per run. Few rows are bound by what memory gives, so
/// scales, zero points and codes are one stream; many rows unpack a vector of weights for twelve of
/// them at once. Figures: docs/adr/0008-weight-only-products.md.
#include <span>

#include "runtime/cpu/kernels/common/appended.h"
#include "runtime/cpu/simd/weight_only.h"
#include "runtime/plan_ir/packed_memory.h"

namespace infer {

/// Weights as MatMulNBits stores them: [columns][blocks][block * bits / 8] codes, the lowest bits
/// first.
struct PackedCodes {
  int64_t columns = 0, depth = 0, block = 0;
  int bits = 4;
  std::span<const uint8_t> codes;
  std::span<const float> scales;        ///< [columns][blocks]
  std::span<const uint8_t> byte_zeros;  ///< [columns][blocks] as codes; rows of whole bytes
  std::span<const float> float_zeros;   ///< [columns][blocks]; at most one of both
};

struct WeightOnlyProduct {
  const simd::WeightOnly* table = nullptr;
  Appended appended = {};
  simd::WeightPanel shape = {};  ///< without data
  int64_t rows = 0, depth = 0, columns = 0;
  bool integers = false;  ///< rows of a are quantized per block as they come

  int64_t scratch_bytes() const;
  /// `w` from PackWeights(); `bias` [columns] or nullptr. a [rows, depth], y [rows, columns]. The
  /// same bits for any number of threads: an element is summed along k in order.
  void Run(const float* a, const std::byte* w, const float* bias, float* y,
           std::byte* scratch) const;

 private:
  struct Rows;
  bool spreads() const { return !integers && shape.bits == 4 && table->spread; }
  Rows Layout(std::byte* scratch) const;
  void Prepare(const float* a, const Rows& rows) const;
  void Panel(const Rows& from, int64_t top, int64_t count, const std::byte* w, const float* bias,
             float* y, int64_t panel) const;
  void Tile(simd::WeightRows call, int tile_rows, int64_t tile_columns) const;
};

/// Panels of 16 columns, zeros in the padding.
std::shared_ptr<const Buffer> PackWeights(const PackedCodes& from, const simd::WeightPanel& shape,
                                          PackedMemory& memory);

/// Where UnpackWeights writes; spans as those of PackedCodes, or empty for what is not wanted.
struct UnpackedCodes {
  std::span<uint8_t> codes;
  std::span<float> scales;
  std::span<uint8_t> byte_zeros;  ///< zeroed before
  std::span<float> float_zeros;
};
/// The numbers that PackWeights made `panels` of; bits of byte_zeros behind the last block are 0.
void UnpackWeights(const std::byte* panels, const simd::WeightPanel& shape, int64_t columns,
                   const UnpackedCodes& to);

}  // namespace infer
