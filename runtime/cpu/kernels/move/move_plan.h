#pragma once
/// How elements move from operands to one result: a strided copy, runs, a run of each operand in
/// turn, or a table.
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "lib/tensor/tensor.h"

namespace infer {

class MovePlan {
 public:
  /// `map` (i64) holds for each element of the result (extents `dims`) the number of the element
  /// that moves there: starts[k] + i is element i of operand k (sizes[k] of them); 0 is `fill`.
  /// `width`: bytes of an element, 1, 2, 4 or 8.
  static MovePlan Of(const Tensor& map, const Dims& dims, const std::vector<int64_t>& starts,
                     const std::vector<int64_t>& sizes, int64_t width, uint64_t fill);
  /// Element i_0, i_1, ... of the result (extents `dims`) is element `offset` + sum i_d strides[d]
  /// of `operand`.
  static MovePlan View(int operand, int64_t offset, const Dims& dims, const Dims& strides,
                       int64_t width);
  /// The operands one after the other along an axis: of each, runs[k] elements at a time.
  static MovePlan Joined(const std::vector<int>& operands, const std::vector<int64_t>& runs,
                         int64_t times, int64_t width);
  /// args[k]: operand k.
  void Run(std::byte* const* args, std::byte* to) const;
  std::string_view name() const;

 private:
  static constexpr size_t kMaxAxes = 16;  ///< of a strided copy, after merging
  struct Cursor;
  struct Piece {  // in elements; operand -1: fill
    int operand;
    int64_t from, to, n, step;  // step of the operand: 1, -1, or 0
  };
  bool FindStrides(std::span<const int64_t> map, const Dims& dims);
  bool FindRows(std::span<const int64_t> map, const Dims& dims, int64_t first);
  /// dims_ and strides_ from those of a strided copy, neighbours merged; false: too many are left.
  bool Merge(const Dims& dims, const Dims& strides);
  /// Few elements of the last axis that lie side by side on both sides move as one of more bytes.
  void Widen();
  template <typename T>
  void RunTyped(std::byte* const* args, T* to) const;
  template <typename T>
  void RunStrided(const T* from, T* to) const;
  template <typename T>
  void RunRows(const T* from, T* to) const;
  template <typename T>
  void RunJoined(std::byte* const* args, T* to) const;

  int64_t width_ = 0, size_ = 0;
  uint64_t fill_ = 0;
  std::vector<Piece> pieces_;
  int operand_ = -1;     // of the strided copy and the table
  Dims dims_, strides_;  // strided copy: merged extents of the result, strides of the operand
  Dims steps_;           // strided copy: strides of the result
  int64_t offset_ = 0;   // strided copy: its first element, of width_ bytes
  int64_t wide_ = 0;     // strided copy: bytes of what dims_ and strides_ count; 0: width_
  std::vector<int32_t> table_;  // element of the operand; -1: fill
  // Where all rows of the result (its last axis) pick alike: element of the operand by row, and
  // what is added to it by column.
  std::vector<int32_t> rows_, columns_;
  bool doubles_ = false;  // column k adds k / 2
  // A Concat: the run that each operand gives in a turn, and where it begins among those of a turn.
  struct Part {
    int operand;
    int64_t n, at;
  };
  std::vector<Part> joined_;
  int64_t times_ = 0;
};

}  // namespace infer
