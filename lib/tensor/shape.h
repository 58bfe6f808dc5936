#pragma once
/// Dim and Shape: extents that may be known, symbolic (integer polynomials over named symbols, such
/// as "batch", "past+1", "2*N*S") or unknown. Two equal expressions are equal extents.
///
/// Information order (a lattice): unknown < symbolic < known. `a` *refines* `b` when everything
/// that `b` says also follows from `a`.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/support/status.h"

namespace infer {

using Dims = std::vector<int64_t>;  ///< static extents, outermost first

/// Product of the extents; nullopt when it exceeds 2^56 (so that the bytes of any element type fit
/// int64) or an extent is negative.
std::optional<int64_t> CheckedNumElements(const Dims& dims);
/// The same with 0 counted as 1: how often a loop over the axes of an empty tensor may turn.
std::optional<int64_t> CheckedTurns(const Dims& dims);
/// Product of the extents. Pre: no overflow (checked where tensors are created).
int64_t NumElements(const Dims& dims);
/// Row-major strides in elements.
Dims Strides(const Dims& dims);
std::string ToString(const Dims& dims);

class Dim {
 public:
  Dim() = default;                       ///< unknown: equal to nothing for certain
  Dim(int64_t value) : value_(value) {}  // NOLINT: implicit on purpose. May be negative (a datum).
  static Dim Symbol(std::string name);
  bool is_static() const { return value_ != kUnknown && !terms_; }
  bool is_unknown() const { return value_ == kUnknown && !terms_; }
  bool is_symbolic() const { return terms_ != nullptr; }
  int64_t value() const {  ///< Pre: is_static()
    INFER_CHECK(is_static());
    return value_;
  }
  /// "7", "batch", "2*N*S+1", "?".
  std::string ToString() const;
  /// Structural equality; two unknowns are equal as *descriptions*.
  bool operator==(const Dim& o) const;
  /// For certain the same extent.
  bool KnownEqual(const Dim& o) const { return !is_unknown() && *this == o; }

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  /// floor(this / divisor) and ceil(this / divisor). Exact where every coefficient divides; else a
  /// new symbol that names the expression, so that equal expressions stay equal. Pre: divisor > 0.
  Dim FloorDiv(int64_t divisor) const;
  Dim CeilDiv(int64_t divisor) const;
  /// this / o where it divides exactly for every value of the symbols; unknown else.
  Dim ExactDiv(const Dim& o) const;
  /// The one symbol that this is, or "".
  std::string symbol() const;
  /// With expressions in the place of symbols; symbols without one stay. Unknown on overflow.
  Dim Replaced(const std::map<std::string, Dim>& symbols) const;
  bool Refines(const Dim& o) const;

  using Monomial = std::vector<std::string>;  ///< sorted symbols, "" never; empty: the constant
  using Terms = std::vector<std::pair<Monomial, int64_t>>;  ///< sorted, coefficients != 0
  Terms AsTerms() const;                                    ///< Pre: not unknown

 private:
  static constexpr int64_t kUnknown = INT64_MIN;
  static Dim FromTerms(Terms terms);

  int64_t value_ = kUnknown;
  std::shared_ptr<const Terms> terms_;  // symbolic when set
};

/// An ordered list of extents, or "rank unknown".
class Shape {
 public:
  Shape();                       ///< rank unknown
  Shape(std::vector<Dim> dims);  // NOLINT: implicit on purpose
  explicit Shape(const Dims& dims);
  // Copied in thousands of places, so compiled once.
  Shape(const Shape&);
  Shape(Shape&&) noexcept;
  Shape& operator=(const Shape&);
  Shape& operator=(Shape&&) noexcept;
  ~Shape();
  bool has_rank() const { return has_rank_; }
  int rank() const {  ///< Pre: has_rank()
    INFER_CHECK(has_rank_);
    return static_cast<int>(dims_.size());
  }
  /// Extent i; negative i counts from the end. Pre: has_rank(), in range.
  const Dim& operator[](int i) const;
  const std::vector<Dim>& dims() const { return dims_; }
  bool is_static() const;
  /// Whether a tensor of these extents contradicts nothing that is known. Allocates nothing.
  bool Admits(const Dims& dims) const;
  Dims static_dims() const;  ///< Pre: is_static()
  /// Product of the extents; unknown when one is, 0 when one is 0.
  Dim num_elements() const;
  bool operator==(const Shape&) const;
  bool Refines(const Shape& o) const;
  /// Whether the extents that are known leave room for a tensor (CheckedNumElements; 0 counts as 1,
  /// lest it hide the others). True of an unknown rank.
  bool CanExist() const;
  std::string ToString() const;  ///< "[2,N,?]" or "[*]"

 private:
  bool has_rank_ = false;
  std::vector<Dim> dims_;
};

/// What both say together. InvalidModel when they contradict (3 and 4). Where both are symbolic
/// and differ, `a` wins.
Result<Dim> Meet(const Dim& a, const Dim& b);
Result<Shape> Meet(const Shape& a, const Shape& b);
/// What holds in either case (branches of If): equal facts stay, the rest is unknown.
Dim JoinFacts(const Dim& a, const Dim& b);
Shape JoinFacts(const Shape& a, const Shape& b);

/// Multidirectional (NumPy) broadcasting. InvalidModel when two known extents do not broadcast.
Result<Shape> Broadcast(const Shape& a, const Shape& b);
Result<Dims> Broadcast(const Dims& a, const Dims& b);

/// Maps `axis` in [-rank, rank) to [0, rank). InvalidModel when out of range.
Result<int> NormalizeAxis(int64_t axis, int rank);

}  // namespace infer
