#pragma once
/// Decision functions over support vectors: f(x) = sum_s w_s k(x, v_s) + rho, packed once and
/// computed for some rows at a time.
#include <span>
#include <vector>

#include "lib/ops/ml/ml_svm.h"
#include "runtime/cpu/simd/models.h"

namespace infer {

/// Weights of a function for support vectors that lie one after the other.
struct SupportTerm {
  int64_t first = 0, count = 0;
  int64_t weights = 0;  ///< where they begin among all
};

class SupportVectors {
 public:
  /// Rows that are computed together.
  static constexpr int64_t kRows = 4;

  /// "" or why not: kernels whose functions the loops lack.
  static std::string Refuse(const SvmKernel& kernel);
  /// A function for each entry of `rho`; two terms for each, of which the second may be empty. In
  /// double; powers and tangents of f32 rows in f32, where that is near enough for the support
  /// vectors themselves as rows: within `enough` of the largest value. Pre: Refuse(kernel) is "";
  /// `vectors` are some rows of the features.
  SupportVectors(const SvmKernel& kernel, std::span<const float> vectors, int64_t supports,
                 std::span<const float> weights, std::vector<SupportTerm> terms,
                 std::vector<double> rho, bool is_f32, double enough);

  int64_t functions() const { return static_cast<int64_t>(rho_.size()); }
  int64_t features() const { return features_; }
  bool is_wide() const { return is_wide_; }
  int64_t bytes() const;
  /// Of one lane, for Run.
  int64_t scratch_bytes() const;
  /// Multiplications, about.
  int64_t work_per_row() const { return groups_ * simd::kSupports * (features_ + 8); }
  /// out[r * functions + f] for `rows` rows, at most kRows, of type `type` (f32, f64, i32, i64).
  void Run(const std::byte* x, DType type, int64_t rows, std::byte* scratch, double* out) const;

 private:
  template <typename T>
  std::vector<T> Pack(std::span<const double> vectors) const;
  template <typename T>
  void Values(const T* x, int64_t rows, T* k, double* out) const;
  bool NarrowIsEnough(std::span<const float> vectors, double enough) const;

  SvmKernel kernel_;
  int64_t features_ = 0, supports_ = 0, groups_ = 0;
  std::vector<double> weights_;     // empty where the packed vectors are the functions themselves
  std::vector<SupportTerm> terms_;  // two for each function
  std::vector<double> rho_;
  bool is_wide_ = true;
  std::vector<float> narrow_;
  std::vector<double> wide_;
};

}  // namespace infer
