#include "runtime/cpu/kernels/ml/support_vectors.h"

#include <algorithm>
#include <cmath>

#include "lib/support/strings.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

constexpr int kHighestDegree = 16;

template <typename T>
const simd::SupportLoops<T>& LoopsOf() {
  if constexpr (sizeof(T) == 4)
    return simd::TheModelLoops().narrow;
  else
    return simd::TheModelLoops().wide;
}

int64_t CacheLines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

template <typename From>
void CopyRows(const std::byte* x, int64_t first, int64_t count, double* to) {
  const From* const from = As<From>(x) + first;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from[i]);
}

}  // namespace

std::string SupportVectors::Refuse(const SvmKernel& kernel) {
  if (kernel.kind != SvmKernelKind::kPoly) return "";
  const double d = kernel.degree;
  return d >= 0 && d <= kHighestDegree && d == std::floor(d)
             ? ""
             : Cat("the degree is no integer from 0 to ", kHighestDegree);
}

SupportVectors::SupportVectors(const SvmKernel& kernel, std::span<const float> vectors,
                               int64_t supports, std::span<const float> weights,
                               std::vector<SupportTerm> terms, std::vector<double> rho, bool is_f32,
                               double enough)
    : kernel_(kernel),
      features_(static_cast<int64_t>(vectors.size()) / supports),
      supports_(supports),
      terms_(std::move(terms)),
      rho_(std::move(rho)) {
  std::vector<double> wide(vectors.begin(), vectors.end());
  if (kernel_.kind == SvmKernelKind::kLinear) {
    // sum_s w_s (x . v_s) = x . sum_s w_s v_s
    std::vector<double> sums(static_cast<size_t>(functions() * features_));
    for (size_t t = 0; t < terms_.size(); ++t)
      for (int64_t s = 0; s < terms_[t].count; ++s)
        for (int64_t i = 0; i < features_; ++i)
          sums[t / 2 * static_cast<size_t>(features_) + static_cast<size_t>(i)] +=
              static_cast<double>(weights[static_cast<size_t>(terms_[t].weights + s)]) *
              wide[static_cast<size_t>((terms_[t].first + s) * features_ + i)];
    wide = std::move(sums);
    supports_ = functions();
  } else {
    weights_.assign(weights.begin(), weights.end());
  }
  groups_ = (supports_ + simd::kSupports - 1) / simd::kSupports;
  wide_ = Pack<double>(wide);
  if (!is_f32 || kernel_.kind == SvmKernelKind::kLinear || kernel_.kind == SvmKernelKind::kRbf)
    return;
  narrow_ = Pack<float>(wide);
  is_wide_ = !NarrowIsEnough(vectors, enough);
  if (is_wide_)
    narrow_ = {};
  else
    wide_ = {};
}

template <typename T>
std::vector<T> SupportVectors::Pack(std::span<const double> vectors) const {
  std::vector<T> packed(static_cast<size_t>(groups_ * simd::kSupports * features_));
  for (int64_t s = 0; s < supports_; ++s)
    for (int64_t i = 0; i < features_; ++i)
      packed[static_cast<size_t>((s / simd::kSupports * features_ + i) * simd::kSupports +
                                 s % simd::kSupports)] =
          static_cast<T>(vectors[static_cast<size_t>(s * features_ + i)]);
  return packed;
}

template <typename T>
void SupportVectors::Values(const T* x, int64_t rows, T* k, double* out) const {
  const simd::SupportLoops<T>& loops = LoopsOf<T>();
  const T* packed;
  if constexpr (sizeof(T) == 4)
    packed = narrow_.data();
  else
    packed = wide_.data();
  const int64_t stride = groups_ * simd::kSupports, n = rows * stride;
  const auto near = kernel_.kind == SvmKernelKind::kRbf ? loops.distances : loops.dots;
  near(x, rows, features_, packed, groups_, k);
  const auto gamma = static_cast<T>(kernel_.gamma), coef0 = static_cast<T>(kernel_.coef0);
  switch (kernel_.kind) {
    case SvmKernelKind::kLinear: break;
    case SvmKernelKind::kPoly:
      loops.power(k, n, gamma, coef0, static_cast<int>(kernel_.degree));
      break;
    case SvmKernelKind::kRbf: loops.exp(k, n, -gamma); break;
    case SvmKernelKind::kSigmoid: loops.tanh(k, n, gamma, coef0); break;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t f = 0; f < functions(); ++f) {
      double& value = out[r * functions() + f];
      const T* const row = k + r * stride;
      value = weights_.empty() ? static_cast<double>(row[f]) : 0;
      for (int64_t t = 2 * f; !weights_.empty() && t < 2 * f + 2; ++t) {
        const SupportTerm& term = terms_[static_cast<size_t>(t)];
        if (term.count > 0)
          value += loops.sum(weights_.data() + term.weights, row + term.first, term.count);
      }
      value += rho_[static_cast<size_t>(f)];
    }
}

bool SupportVectors::NarrowIsEnough(std::span<const float> vectors, double enough) const {
  constexpr int64_t kSamples = 16;
  const auto functions = static_cast<size_t>(this->functions());
  const int64_t samples = std::min(kSamples, supports_);
  std::vector<float> narrow(static_cast<size_t>(groups_ * simd::kSupports));
  std::vector<double> wide(narrow.size()), row(static_cast<size_t>(features_)), is(functions),
      should(functions);
  double worst = 0, most = 0;
  for (int64_t i = 0; i < samples; ++i) {
    const float* const x = vectors.data() + i * supports_ / samples * features_;
    std::copy_n(x, features_, row.begin());
    Values<float>(x, 1, narrow.data(), is.data());
    Values<double>(row.data(), 1, wide.data(), should.data());
    for (size_t f = 0; f < functions; ++f) {
      worst = std::max(worst, std::abs(is[f] - should[f]));
      most = std::max(most, std::abs(should[f]));
    }
  }
  return worst <= enough * most;
}

int64_t SupportVectors::bytes() const {
  return static_cast<int64_t>(narrow_.size() * sizeof(float) +
                              (wide_.size() + weights_.size()) * sizeof(double));
}

int64_t SupportVectors::scratch_bytes() const {
  const int64_t near = kRows * groups_ * simd::kSupports;
  return is_wide_ ? CacheLines(8 * near) + CacheLines(8 * kRows * features_) : CacheLines(4 * near);
}

void SupportVectors::Run(const std::byte* x, DType type, int64_t rows, std::byte* scratch,
                         double* out) const {
  if (!is_wide_) return Values<float>(As<float>(x), rows, As<float>(scratch), out);
  auto* const k = As<double>(scratch);
  auto* const wide = As<double>(scratch + CacheLines(8 * kRows * groups_ * simd::kSupports));
  const int64_t count = rows * features_;
  switch (type) {
    case DType::kF32: CopyRows<float>(x, 0, count, wide); break;
    case DType::kF64: CopyRows<double>(x, 0, count, wide); break;
    case DType::kI32: CopyRows<int32_t>(x, 0, count, wide); break;
    default: CopyRows<int64_t>(x, 0, count, wide); break;
  }
  Values<double>(wide, rows, k, out);
}

}  // namespace infer
