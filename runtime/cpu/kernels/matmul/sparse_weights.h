#pragma once
/// Weights most of which are zero, packed as lists of the others for simd::Sparse.
#include <vector>

#include "lib/tensor/tensor.h"
#include "runtime/cpu/simd/sparse.h"

namespace infer {

/// w[k][n] at from[k * k_stride + n * n_stride].
struct WeightMatrix {
  const float* from = nullptr;
  int64_t depth = 0, k_stride = 0, columns = 0, n_stride = 0;
  float at(int64_t k, int64_t n) const { return from[k * k_stride + n * n_stride]; }
};

/// Neighbouring outputs of one term that are stored together. kPanels reads rows as they lie and
/// fills vectors with outputs; the others fill them with rows, which are turned first.
enum class SparseForm : uint8_t { kPanels, kStrips, kSingles };
constexpr SparseForm kSparseForms[] = {SparseForm::kPanels, SparseForm::kStrips,
                                       SparseForm::kSingles};
constexpr int64_t BlockOf(SparseForm form) {
  return form == SparseForm::kPanels ? simd::kSparsePanel : form == SparseForm::kStrips ? 4 : 1;
}

/// Blocks of each form with a weight other than zero.
struct SparseCounts {
  int64_t weights = 0, stored[3] = {};
  int64_t of(SparseForm form) const { return stored[static_cast<int>(form)]; }
  double zero_share() const {
    return weights > 0
               ? 1 - static_cast<double>(of(SparseForm::kSingles)) / static_cast<double>(weights)
               : 0;
  }
};
SparseCounts CountStored(const WeightMatrix& w);

/// Lists of blocks: [group of outputs][chunk of terms][list][block].
struct SparseWeights {
  SparseForm form = SparseForm::kSingles;
  int64_t depth = 0, columns = 0;
  int64_t group = 0;  ///< outputs of a group
  int64_t lists = 0;  ///< of a group
  int64_t terms = 0;  ///< of a chunk
  int64_t groups = 0, chunks = 0;
  std::vector<uint32_t> starts;  ///< [groups * chunks * lists + 1]: blocks before each list
  std::vector<uint8_t> place;    ///< of a list in its group: its first output; kPanels: in order
  std::vector<uint16_t> at;      ///< by block, where a packed chunk of rows has its term
  std::shared_ptr<Buffer> w;     ///< [block][outputs]

  /// Lists of other forms than kPanels are padded with blocks of zeros, which read a term of zeros
  /// behind those of the chunk.
  static SparseWeights Pack(const WeightMatrix& w, SparseForm form, const simd::Sparse& loops);
  const uint32_t* StartsOf(int64_t g, int64_t chunk) const {
    return starts.data() + (g * chunks + chunk) * lists;
  }
  const uint8_t* PlacesOf(int64_t g, int64_t chunk) const {
    return place.data() + (g * chunks + chunk) * lists;
  }
  /// The term of the chunk that stands at `at`; `terms` for padding.
  int64_t TermAt(uint16_t at, const simd::Sparse& loops) const;
  int64_t TermsOf(int64_t chunk) const;
  int64_t bytes() const;
};

}  // namespace infer
