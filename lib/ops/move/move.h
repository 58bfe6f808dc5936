#pragma once
/// Moving elements without looking at them: one implementation for every element type (by width in
/// bytes; packed 2- and 4-bit codes one by one; strings as strings). Also the small helpers that
/// the families which move, index and make data share.
#include <optional>
#include <vector>

#include "lib/ops/common.h"

namespace infer {

/// The types of operators that move data but were never given fp8 and 4-bit ones.
inline constexpr TypeSet kMovable = kClassicTypes | kFloatsBF16;
inline constexpr TypeSet kIndexTypes{DType::kI32, DType::kI64};

/// Copies runs of `run` elements from one tensor to another of the same type.
class RunCopier {
 public:
  RunCopier(const Tensor& src, Tensor& dst, int64_t run);
  /// Positions in elements. Distinct `to` runs may be written from several threads when
  /// parallel_safe().
  void operator()(int64_t from, int64_t to) const;
  bool parallel_safe() const { return bits_ == 0 || bits_ >= 8; }

 private:
  const std::byte* src_;
  std::byte* dst_;
  const std::string* src_strings_ = nullptr;
  std::string* dst_strings_ = nullptr;
  int bits_;
  int64_t run_;
};

/// dst's run i becomes src's elements [from(i), from(i) + run); left as it is where from(i) < 0.
/// Pre: dst has at least count * run elements; every from(i) is in range.
template <typename F>
void MoveRuns(const Tensor& src, Tensor& dst, int64_t count, int64_t run, F from) {
  if (count == 0 || run == 0) return;
  const RunCopier copy(src, dst, run);
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (const int64_t f = from(i); f >= 0) copy(f, i * run);
  };
  if (copy.parallel_safe())
    ParallelFor(count, std::max<int64_t>(1, 16384 / run), body);
  else
    body(0, count);
}

/// Element (i0, i1, ...) of a view lies at offset + sum(i_k * strides_k), in elements.
struct StridedView {
  int64_t offset = 0;
  Dims strides;
};
/// The view that is all of a dense tensor with these extents.
inline StridedView Dense(const Dims& dims) { return {0, Strides(dims)}; }
/// Copies the elements of one view to another. Strides may be zero (src) or negative.
void CopyStrided(const Tensor& src, const StridedView& from, Tensor& dst, const StridedView& to,
                 const Dims& extents);
/// Axis i of the result is axis perm[i] of x. Pre: a permutation of x's axes.
Tensor Transposed(const Tensor& x, const std::vector<int>& perm);
/// Sets every element of `dst` to element 0 of `value` (same type).
void Fill(Tensor& dst, const Tensor& value);
/// Zero, false or "" everywhere.
Tensor ZerosOf(DType dtype, Dims dims);

/// Makes output i after checking that the extents are sane. ResourceExhausted above 256 GiB,
/// InvalidModel for a negative extent. The pointer is valid as OpRun::Out's reference is.
Result<Tensor*> MakeOut(OpRun& run, size_t i, DType dtype, Dims dims);

/// All elements of integer input i when they are known numbers before the run.
std::optional<std::vector<int64_t>> KnownInts(const OpCall& call, size_t i);
/// The same for a tensor with one element.
std::optional<int64_t> KnownInt(const OpCall& call, size_t i);
/// The extent of 1-D input i, unknown where it is not known.
Dim LengthOf(const OpCall& call, size_t i);
/// Indices in [0, extent); negative ones count from the end. InvalidModel names the bad one.
Result<std::vector<int64_t>> NormalizeIndices(const Tensor& indices, int64_t extent);
/// For GatherElements and ScatterElements: where in `data` each element of `index` points, which is
/// its own position but for `axis`, where its value says. InvalidModel when it points outside.
/// Pre: equal ranks.
Result<std::vector<int64_t>> ElementOffsets(const Tensor& data, const Tensor& index, int64_t axis);
/// A rank with nothing known about the extents.
inline Shape UnknownOfRank(int rank) { return Shape(std::vector<Dim>(static_cast<size_t>(rank))); }
/// Product of dims[begin, end).
int64_t Product(const Dims& dims, int begin, int end);
/// The known elements of a 1-D integer input go to output 0 unchanged.
void PassElements(OpCall& call);

/// A STRING attribute of a node as a file has it; `absent` where it is not.
std::string StrAttrOr(const NodeSpec& node, std::string_view name, std::string_view absent);

}  // namespace infer
