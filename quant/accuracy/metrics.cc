#include "quant/accuracy/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "lib/support/strings.h"
#include "lib/support/student.h"

namespace infer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double ToDb(double ratio, double per_decade) {
  return ratio > 0 ? per_decade * std::log10(ratio) : -kInfinity;
}

bool AllFinite(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float v) { return std::isfinite(v); });
}

struct RowDifference {
  double kl = 0;
  double dp = 0;  // of golden's best class
};

RowDifference Differ(std::span<const float> golden, std::span<const float> candidate,
                     int64_t best) {
  if (!AllFinite(golden) || !AllFinite(candidate)) return {};  // counted as non-finite mismatches
  const bool is_distribution = IsDistribution(golden);
  const auto p = LogProbabilities(golden, is_distribution);
  const auto q = LogProbabilities(candidate, is_distribution);
  double kl = 0;
  for (size_t i = 0; i < p.size(); ++i) kl += std::exp(p[i]) * (p[i] - q[i]);
  const auto b = static_cast<size_t>(best);
  return {std::max(kl, 0.0), std::exp(q[b]) - std::exp(p[b])};
}

constexpr double kLeastBin = 1e-12, kBinGrowth = 1.02;
constexpr size_t kBins = 3000;  // up to 1e-12 * 1.02^3000 = 6e13

int64_t CountUnequal(const Tensor& a, const Tensor& b) {
  int64_t n = 0;
  if (a.dtype() == DType::kString) {
    for (size_t i = 0; i < a.strings().size(); ++i) n += a.strings()[i] != b.strings()[i];
    return n;
  }
  if (BitEqual(a, b)) return 0;
  if (a.dtype() == DType::kC64 || a.dtype() == DType::kC128) {
    const size_t width = static_cast<size_t>(BitWidth(a.dtype()) / 8);
    for (size_t i = 0; i < a.bytes().size(); i += width)
      n += !std::equal(a.bytes().begin() + static_cast<ptrdiff_t>(i),
                       a.bytes().begin() + static_cast<ptrdiff_t>(i + width),
                       b.bytes().begin() + static_cast<ptrdiff_t>(i));
    return n;
  }
  for (int64_t i = 0; i < a.num_elements(); ++i) n += a.IntAt(i) != b.IntAt(i);
  return n;
}

}  // namespace

Rows RowsIn(const Dims& dims) {
  if (dims.empty()) return {1, 1};
  const int64_t total = NumElements(dims);
  if (total == 0) return {};
  int64_t width = dims.back();
  if (dims.size() >= 2 &&
      std::all_of(dims.begin() + 2, dims.end(), [](int64_t d) { return d == 1; }))
    width = dims[1];
  return {total / width, width};
}

bool IsDistribution(std::span<const float> row) {
  double sum = 0;
  for (const float v : row) {
    if (!(v >= 0)) return false;
    sum += static_cast<double>(v);
  }
  return std::fabs(sum - 1) <= 1e-3;
}

std::vector<double> LogProbabilities(std::span<const float> row, bool is_distribution) {
  std::vector<double> log_p(row.begin(), row.end());
  double sum = 0;
  if (is_distribution) {
    // Rounded probabilities sum to another number than 1, and may fall below 0.
    for (double& v : log_p) sum += v = std::max(v, 0.0);
    for (double& v : log_p) v = std::log(std::max(sum > 0 ? v / sum : 0, 1e-12));
    return log_p;
  }
  const double top = *std::max_element(log_p.begin(), log_p.end());
  for (const double v : log_p) sum += std::exp(v - top);
  for (double& v : log_p) v -= top + std::log(sum);
  return log_p;
}

int64_t ArgMax(std::span<const float> row) { return TopK(row, 1).front(); }

std::vector<int64_t> TopK(std::span<const float> row, int64_t k) {
  std::vector<int64_t> order(row.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto higher = [&](int64_t a, int64_t b) {
    const float x = row[static_cast<size_t>(a)], y = row[static_cast<size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) {
      if (std::isnan(x) != std::isnan(y)) return std::isnan(y);
      return a < b;
    }
    return x != y ? x > y : a < b;
  };
  const auto n = std::min(k, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), order.begin() + n, order.end(), higher);
  order.resize(static_cast<size_t>(n));
  return order;
}

void QuantileSketch::Add(double v) {
  ++count_;
  if (v < kLeastBin) {
    ++zeros_;
    return;
  }
  if (bins_.empty()) bins_.resize(kBins);
  const double bin = std::log(v / kLeastBin) / std::log(kBinGrowth);
  ++bins_[bin < static_cast<double>(kBins - 1) ? static_cast<size_t>(bin) : kBins - 1];
}

double QuantileSketch::At(double q) const {
  if (count_ == 0) return 0;
  int64_t left = static_cast<int64_t>(q * static_cast<double>(count_ - 1)) - zeros_;
  if (left < 0) return 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    left -= bins_[i];
    if (left < 0) return kLeastBin * std::pow(kBinGrowth, static_cast<double>(i) + 0.5);
  }
  return 0;
}

Status TensorComparer::Add(const Tensor& golden, const Tensor& candidate) {
  if (golden.dtype() != candidate.dtype() || golden.dims() != candidate.dims())
    return InvalidModel(
        Cat("golden is ", ToString(golden.type()), ", candidate is ", ToString(candidate.type())));
  ++m_.samples;
  m_.elements += golden.num_elements();
  if (!IsFloat(golden.dtype())) {
    m_.unequal += CountUnequal(golden, candidate);
    return {};
  }
  const Tensor g = golden.dtype() == DType::kF32 ? golden : golden.Cast(DType::kF32);
  const Tensor c = candidate.dtype() == DType::kF32 ? candidate : candidate.Cast(DType::kF32);
  AddFloats(g.data<float>(), c.data<float>());
  const Rows rows = RowsIn(golden.dims());
  if (rows.width > 1) AddRows(rows, g.data<float>(), c.data<float>());
  return {};
}

void TensorComparer::AddFloats(std::span<const float> golden, std::span<const float> candidate) {
  double max_d = 0, max_r = 0, power_r = 0, power_d = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    const double r = static_cast<double>(golden[i]), c = static_cast<double>(candidate[i]);
    if (!std::isfinite(r) || !std::isfinite(c)) {
      const bool same = (std::isnan(r) && std::isnan(c)) || r == c;
      m_.non_finite_mismatches += same ? 0 : 1;
      continue;
    }
    const double d = c - r;
    ++finite_;
    sum_rr_ += r * r;
    sum_dd_ += d * d;
    power_r += r * r;
    power_d += d * d;
    sum_cc_ += c * c;
    sum_rc_ += r * c;
    sum_abs_ += std::fabs(d);
    max_d = std::max(max_d, std::fabs(d));
    max_r = std::max(max_r, std::fabs(r));
  }
  powers_dd_ += power_d * power_d;
  powers_dr_ += power_d * power_r;
  powers_rr_ += power_r * power_r;
  m_.max_abs_error = std::max(m_.max_abs_error, max_d);
  m_.max_abs_golden = std::max(m_.max_abs_golden, max_r);
  // Subnormal numbers count as 0: runtimes may flush them.
  const bool is_zero = max_r < static_cast<double>(std::numeric_limits<float>::min());
  m_.max_error_ratio = std::max(m_.max_error_ratio, is_zero ? max_d : max_d / max_r);
}

void TensorComparer::AddRows(const Rows& rows, std::span<const float> golden,
                             std::span<const float> candidate) {
  const auto width = static_cast<size_t>(rows.width);
  for (int64_t n = 0; n < rows.count; ++n) {
    const auto g = golden.subspan(static_cast<size_t>(n) * width, width);
    const auto c = candidate.subspan(static_cast<size_t>(n) * width, width);
    const auto top_g = TopK(g, kTopClasses), top_c = TopK(c, kTopClasses);
    const RowDifference d = Differ(g, c, top_g[0]);
    kl_sum_ += d.kl;
    kl_squares_ += d.kl * d.kl;
    dp_squares_ += d.dp * d.dp;
    kl_sketch_.Add(d.kl);
    rows_.kl_max = std::max(rows_.kl_max, d.kl);
    top1_same_ += top_g[0] == top_c[0] ? 1 : 0;
    int64_t shared = 0;
    for (const int64_t i : top_g) shared += std::count(top_c.begin(), top_c.end(), i);
    top5_sum_ += static_cast<double>(shared) / static_cast<double>(top_g.size());
    ++rows_.rows;
  }
}

TensorMetrics TensorComparer::metrics() const {
  TensorMetrics m = m_;
  const double n = static_cast<double>(std::max<int64_t>(finite_, 1));
  m.mean_abs_error = sum_abs_ / n;
  m.sqnr_db = sum_dd_ > 0 ? ToDb(sum_rr_ / sum_dd_, 10) : kInfinity;
  m.psnr_db = sum_dd_ > 0 ? ToDb(m.max_abs_golden / std::sqrt(sum_dd_ / n), 20) : kInfinity;
  if (m.samples >= 2 && sum_dd_ > 0 && sum_rr_ > 0) {
    const double k = static_cast<double>(m.samples), ratio = sum_dd_ / sum_rr_;
    const double squares =
        std::max(0.0, powers_dd_ - 2 * ratio * powers_dr_ + ratio * ratio * powers_rr_);
    const double relative = std::sqrt(squares * k / (k - 1)) / sum_dd_;
    const double half =
        10 / std::log(10.0) * StudentQuantile(0.95, static_cast<int>(m.samples - 1)) * relative;
    m.sqnr_interval = Interval{m.sqnr_db - half, m.sqnr_db + half};
  }
  if (sum_rr_ > 0 && sum_cc_ > 0)
    m.cosine = std::clamp(sum_rc_ / (std::sqrt(sum_rr_) * std::sqrt(sum_cc_)), -1.0, 1.0);
  else
    m.cosine = sum_rr_ == sum_cc_ ? 1 : 0;
  return m;
}

std::optional<RowMetrics> TensorComparer::row_metrics() const {
  if (rows_.rows == 0) return std::nullopt;
  RowMetrics r = rows_;
  const double n = static_cast<double>(r.rows);
  r.kl = kl_sum_ / n;
  r.top1_agreement = static_cast<double>(top1_same_) / n;
  r.top5_agreement = top5_sum_ / n;
  r.rms_dp = std::sqrt(dp_squares_ / n);
  if (r.rows > 1) r.kl_error = std::sqrt(std::max(0.0, kl_squares_ / n - r.kl * r.kl) / (n - 1));
  for (const double q : kKlQuantiles) r.kl_quantiles.push_back(kl_sketch_.At(q));
  return r;
}

}  // namespace infer
