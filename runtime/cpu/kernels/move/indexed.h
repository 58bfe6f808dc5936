#pragma once
/// Places that indices of the run name, for kernels that gather from them or scatter to them.
#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/cpu/launch/launch.h"
#include "runtime/plan_ir/kernel.h"

namespace infer {

/// Bytes of an element that moves by its width (1, 2, 4, 8); 0: of a type that does not.
int64_t MovedBytes(DType t);

/// "" or why the node cannot be computed by moving elements of input `data` by the i64 or i32
/// numbers of input `indices`.
std::string RefuseIndices(const Node& n, size_t data, size_t indices);
/// The same of the main node of a step that has no other.
std::string RefuseIndexed(const StepCall& call, size_t data, size_t indices);

/// The error of the reference kernels.
Status BadIndex(int64_t index, int64_t extent);

/// i64 or i32 numbers.
struct Indices {
  int operand = -1;
  bool wide = true;
  static Indices Of(const StepCall& call, const Value* v);
  int64_t At(std::byte* const* args, int64_t i) const {
    return wide ? As<int64_t>(args[operand])[i] : As<int32_t>(args[operand])[i];
  }
  /// Whether numbers i ... i + n - 1 are the same. Pre: n > 0.
  bool AreSame(std::byte* const* args, int64_t i, int64_t n) const {
    return wide ? AllSame(As<int64_t>(args[operand]) + i, n)
                : AllSame(As<int32_t>(args[operand]) + i, n);
  }

 private:
  template <typename T>
  static bool AllSame(const T* v, int64_t n) {
    if (v[0] != v[n - 1]) return false;
    T differs = 0;
    for (int64_t k = 1; k < n; ++k) differs |= v[k] ^ v[0];
    return differs == 0;
  }
};

/// Moves one run of `bytes`; small ones without a call.
inline void MoveRun(const std::byte* from, std::byte* to, int64_t bytes) {
  if (bytes == 4)
    std::memcpy(to, from, 4);
  else if (bytes == 8)
    std::memcpy(to, from, 8);
  else
    std::memcpy(to, from, static_cast<size_t>(bytes));
}

/// Where runs begin that tuples of indices name.
struct Tuples {
  Indices indices;
  int64_t depth = 0, count = 0, per_batch = 1, batch_stride = 0;
  Dims extents, strides;  ///< of the axes that are indexed
  /// In elements; -1 and `bad` for an index out of range.
  int64_t Start(std::byte* const* args, int64_t i, Status& bad) const {
    int64_t at = batch_stride == 0 ? 0 : i / per_batch * batch_stride;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t extent = extents[static_cast<size_t>(k)];
      const int64_t raw = indices.At(args, i * depth + k);
      if (raw < -extent || raw >= extent) {
        bad = BadIndex(raw, extent);
        return -1;
      }
      at += (raw < 0 ? raw + extent : raw) * strides[static_cast<size_t>(k)];
    }
    return at;
  }
  /// Whether all are in range.
  Status Check(std::byte* const* args) const;
};

/// Tuples along the last axis of indices of extents `index`; the first `batch` axes are common.
Result<Tuples> TuplesOf(Indices indices, const Dims& data, const Dims& index, int64_t batch);

/// Element i of the indices stands, along one axis, for another place of the data.
struct Places {
  Indices indices;
  int64_t count = 0, extent = 0, axis_stride = 1;
  /// Elements behind the axis, where the indices have all of the data's: a run of them that has one
  /// index is a run of the data. Indices repeated along features are how graph networks are
  /// exported. 1: too few to look for such runs.
  int64_t run = 1;
  /// Of the indices, and of the data; the axis has stride 0. Neighbours are merged.
  static constexpr size_t kMostAxes = 8;
  Dims dims, strides;
  /// Calls f(i, place, n, step) for rows of n indices from the i-th on that cover [begin, end), in
  /// order, until it gives false: the element `k` of the row stands at place + k * step where its
  /// index is 0. Where `run` > 1, a row is a run. Pre: begin and end are multiples of `run`.
  template <typename F>
  void ForRows(int64_t begin, int64_t end, const F& f) const {
    if (begin >= end) return;
    const size_t last = dims.size() - 1;
    const int64_t step = strides[last];
    int64_t at[kMostAxes], base = 0, rest = begin;
    for (size_t d = last + 1; d-- > 0; rest /= dims[d]) {
      at[d] = rest % dims[d];
      base += at[d] * strides[d];
    }
    for (int64_t i = begin; i < end;) {
      const int64_t n = std::min(end - i, dims[last] - at[last]);
      if (!f(i, base, n, step)) return;
      i += n;
      base -= at[last] * step;
      at[last] = 0;
      for (size_t d = last; d-- > 0;) {
        base += strides[d];
        if (++at[d] < dims[d]) break;
        base -= dims[d] * strides[d];
        at[d] = 0;
      }
    }
  }
  /// Calls f(i, place, n) for runs of n elements that cover [begin, end), in order; stops at an
  /// index that is out of range. Pre: begin and end are multiples of `run`.
  template <typename F>
  Status ForEach(std::byte* const* args, int64_t begin, int64_t end, const F& f) const {
    Status status;
    ForRows(begin, end, [&](int64_t first, int64_t base, int64_t count, int64_t step) {
      const bool whole = run > 1 && indices.AreSame(args, first, run);
      const int64_t n = whole ? run : 1;
      for (int64_t i = first, place = base; i < first + count; i += n, place += n * step) {
        const int64_t raw = indices.At(args, i);
        if (raw < -extent || raw >= extent) {
          status = BadIndex(raw, extent);
          return false;
        }
        f(i, place + (raw < 0 ? raw + extent : raw) * axis_stride, n);
      }
      return true;
    });
    return status;
  }
};

Result<Places> PlacesOf(Indices indices, const Dims& data, const Dims& index, int64_t axis);

}  // namespace infer
