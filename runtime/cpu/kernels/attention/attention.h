#pragma once
/// y = softmax(mask(scale q k')) v, head by head, without the matrix of scores in memory: some rows
/// of scores at a time lie in L1 or L2 between the two products. Operands and the result are read
/// and written by strides, 8-bit ones are dequantized on the way, so that transposes, slices and
/// the split into heads need no copies.
///
/// Error against exact arithmetic: 4e-6 of the largest result for heads of up to 128 and 1024 keys
/// of normal numbers (tests/suites/attention_suite.cc).
#include "runtime/cpu/simd/attention.h"
#include "runtime/plan_ir/groups/attention_plan.h"

namespace infer {

/// Row i of a lead, n elements, through `steps` to `to`, or to `bytes` where they end in those.
void LoadHeadRow(const HeadRows& h, const std::vector<ElementStep>& steps, const std::byte* base,
                 int64_t lead, int64_t i, int64_t n, float* to, uint8_t* bytes);

struct Attention : AttentionGeometry {
  Attention() = default;
  explicit Attention(AttentionGeometry geometry)
      : AttentionGeometry(std::move(geometry)), loops(simd::TheAttentionLoops()) {}
  const simd::AttentionLoops* loops = nullptr;
  int chunks = 1;  ///< leads and rows are cut into so many, at most

  /// What constant masks hide of the last keys is not computed. Call before Run.
  void FindSeen();
  int64_t scratch_bytes() const { return chunks * scratch_floats() * 4; }
  /// The same bits for any number of threads and chunks.
  void Run(std::byte* const* args, std::byte* scratch) const;

  /// How many keys those queries see at most.
  int64_t SeenBy(int64_t lead, int64_t first, int rows, std::byte* const* args) const;
  /// Scores of query i become exponentials, 0 where it sees no key; returns their sum.
  double Soften(int64_t lead, int64_t i, int64_t n, float* scores, std::byte* const* args) const;
  /// Scores of query i on their way through masks.
  simd::ScoreRow MaskedRow(int64_t lead, int64_t i, int64_t n, float* scores,
                           std::byte* const* args) const;
  /// Rows of the result, `stride` floats apart, which change on the way; `bytes` has room for them.
  void StoreResults(int64_t lead, int64_t first, int rows, float* tile, int64_t stride,
                    uint8_t* bytes, std::byte* const* args) const;

 private:
  struct Lane;
  int64_t runs() const { return (queries + loops->rows - 1) / loops->rows; }
  int64_t width() const { return int64_t{2} * loops->lanes; }
  int64_t panels(int64_t columns) const { return (columns + width() - 1) / width(); }
  /// Floats from one row of scores to the next: rows do not fall on the same lines of L1.
  int64_t score_stride() const { return panels(keys) * width() + 16; }
  int64_t scratch_floats() const;
  /// The first `seen` of them.
  void PackKeys(int64_t lead, int64_t seen, const Lane& lane) const;
  void PackValues(int64_t lead, int64_t seen, const Lane& lane) const;
  /// How many keys any query of the lead's sample may see by its position.
  int64_t SeenByAll(int64_t lead, std::byte* const* args) const;
  void Rows(int64_t lead, int64_t first, int rows, const Lane& lane) const;
  void Fetch(const HeadRows& h, int64_t lead, int64_t first, int64_t end, int64_t n,
             const Lane& lane) const;

  std::vector<int64_t> seen_;     ///< keys that a query sees at most: by mask, then query
  std::vector<int32_t> seen_of_;  ///< by lead: which of them
};

}  // namespace infer
