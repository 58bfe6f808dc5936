#pragma once
/// Streaming comparison of a candidate's tensors with golden ones. Constant memory in the number of
/// samples; sums in double.
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/support/status.h"
#include "lib/tensor/tensor.h"
#include "quant/scheme/quant_params.h"

namespace infer {

/// Over all elements of all samples, with r the golden value, d = candidate - golden.
struct TensorMetrics {
  int64_t samples = 0;
  int64_t elements = 0;
  double sqnr_db = 0;  ///< 10 log10(sum r^2 / sum d^2); +inf when equal
  double psnr_db = 0;  ///< 20 log10(max|r| / sqrt(mean d^2)); +inf when equal
  double cosine = 1;   ///< sum r c / sqrt(sum r^2 sum c^2); 1 when both are zero, 0 when one is
  double max_abs_error = 0;
  double mean_abs_error = 0;
  double max_abs_golden = 0;
  /// max|d| / max|r|, by sample's worst; d against 0 counts as is, and so does d against subnormal
  /// numbers alone.
  double max_error_ratio = 0;
  /// Elements that are NaN or infinite on one side, or differ in kind; outside the sums above.
  int64_t non_finite_mismatches = 0;
  /// Non-float tensors (and strings): elements that differ; keys that one of two maps lacks.
  int64_t unequal = 0;
  /// 95 % interval of sqnr_db over samples as drawn: noise and signal power as a ratio estimate
  /// (Cochran 1977, Sampling Techniques, 6.4) with Student's t, taken on the logarithm. Empty below
  /// two samples and where nothing differs.
  std::optional<Interval> sqnr_interval;
};

/// Quantiles of numbers >= 0 in constant memory: counts in bins that grow by 2 %, so a quantile is
/// within 1 % of an element's value; below 1e-12 counts as 0 (DDSketch: Masson et al. 2019,
/// doi 10.14778/3352063.3352135).
class QuantileSketch {
 public:
  void Add(double v);
  double At(double q) const;  ///< 0 when empty; a NaN or an infinity counts as the largest
  int64_t count() const { return count_; }

 private:
  std::vector<int64_t> bins_;  // made with the first element
  int64_t zeros_ = 0, count_ = 0;
};

/// Class distributions: rows of scores, see RowsIn. Where golden's row is a distribution, so is the
/// candidate's.
struct RowMetrics {
  int64_t rows = 0;
  double kl = 0;  ///< mean over rows of sum p ln(p/q); p golden, q candidate
  double kl_max = 0;
  double top1_agreement = 1;  ///< rows whose highest score stands at the same place
  double top5_agreement = 1;  ///< mean share of golden's five highest among the candidate's five
  double kl_error = 0;        ///< standard error of `kl`, rows taken as independent
  /// Quantiles of the rows' divergence at kKlQuantiles, within 1 %.
  std::vector<double> kl_quantiles = {};
  /// Root mean square of q - p, the probability of golden's best class.
  double rms_dp = 0;
};
/// What llama.cpp's perplexity report shows, without the ends.
inline constexpr double kKlQuantiles[] = {0.01, 0.05, 0.1, 0.5, 0.9, 0.99, 0.999};

/// How a tensor of scores splits into rows: [N, C, 1, ...] and [N, C] are N rows of C; rank 1 is
/// one row; anything else has rows along the last axis.
struct Rows {
  int64_t count = 0;
  int64_t width = 0;
};
Rows RowsIn(const Dims& dims);

/// Non-negative and summing to 1 within 1e-3: probabilities, where any other row is of scores.
bool IsDistribution(std::span<const float> row);
/// ln of the distribution that a row stands for. Of scores softmax; of a distribution, or a
/// candidate for one, its shares of the sum, with 0 for what is below 0. No share counts as less
/// than 1e-12: a 0 on the candidate's side must not make the divergence infinite.
std::vector<double> LogProbabilities(std::span<const float> row, bool is_distribution);

/// Index of the highest score, the first of equals; NaN is lower than everything.
int64_t ArgMax(std::span<const float> row);
/// Classes that an answer of the "top 5" may lie among.
inline constexpr int64_t kTopClasses = 5;

/// Indices of the k highest scores, highest first; equal scores in order of index.
std::vector<int64_t> TopK(std::span<const float> row, int64_t k);

class TensorComparer {
 public:
  /// InvalidModel when types or extents differ.
  Status Add(const Tensor& golden, const Tensor& candidate);
  /// Counts elements that have no partner.
  void AddUnequal(int64_t elements) { m_.unequal += elements; }
  TensorMetrics metrics() const;
  /// Empty where rows make no sense: not floats, or rows of one element.
  std::optional<RowMetrics> row_metrics() const;

 private:
  void AddFloats(std::span<const float> golden, std::span<const float> candidate);
  void AddRows(const Rows& rows, std::span<const float> golden, std::span<const float> candidate);

  TensorMetrics m_;
  RowMetrics rows_;
  double sum_rr_ = 0, sum_dd_ = 0, sum_cc_ = 0, sum_rc_ = 0, sum_abs_ = 0;
  int64_t finite_ = 0;
  double kl_sum_ = 0, kl_squares_ = 0, top5_sum_ = 0, dp_squares_ = 0;
  int64_t top1_same_ = 0;
  QuantileSketch kl_sketch_;
  // Of each sample's own power r and noise d: sums of d^2, d r, r^2, as the interval needs them.
  double powers_dd_ = 0, powers_dr_ = 0, powers_rr_ = 0;
};

}  // namespace infer
