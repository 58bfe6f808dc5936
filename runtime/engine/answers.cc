#include "runtime/engine/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace infer::engine {
namespace {

constexpr double kSumTolerance = 0.01;

/// Elements of the last axis; 0: nothing to look at.
int64_t RowLength(const Tensor& t) { return t.rank() > 0 && t.num_elements() > 0 ? t.dim(-1) : 0; }

std::optional<double> RowConfidence(const Tensor& t, int64_t begin, int64_t length, bool logits) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = begin; i < begin + length; ++i) {
    const double v = t.At(i);
    if (!std::isfinite(v) || (!logits && (v < 0 || v > 1))) return std::nullopt;
    largest = std::max(largest, v);
    sum += v;
  }
  if (!logits) return std::abs(sum - 1) <= kSumTolerance ? std::optional(largest) : std::nullopt;
  sum = 0;
  for (int64_t i = begin; i < begin + length; ++i) sum += std::exp(t.At(i) - largest);
  return 1 / sum;
}

int64_t Top1(const Tensor& t, int64_t begin, int64_t length) {
  int64_t top = begin;
  for (int64_t i = begin; i < begin + length; ++i)
    if (t.At(i) > t.At(top)) top = i;
  return top - begin;
}

bool Alike(const Datum& a, const Datum& b) {
  return a.is_tensor() && b.is_tensor() && a.tensor().dtype() != DType::kString &&
         a.tensor().dtype() == b.tensor().dtype() && a.tensor().dims() == b.tensor().dims();
}

/// NaN on one side only is the worst difference; on both sides, and the same infinity, none.
double ElementDifference(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y))) return 0;
  const double d = std::abs(x - y);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

double Worst(const Tensor& a, const Tensor& b) {
  double most = 0, worst = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    if (std::isfinite(a.At(i))) most = std::max(most, std::abs(a.At(i)));
    worst = std::max(worst, ElementDifference(a.At(i), b.At(i)));
  }
  return worst > 0 && most > 0 ? worst / most : worst;
}

}  // namespace

std::optional<double> Confidence(const Datum& output, bool logits) {
  if (!output.is_tensor() || !IsFloat(output.tensor().dtype())) return std::nullopt;
  const Tensor& t = output.tensor();
  const int64_t length = RowLength(t);
  if (length == 0) return std::nullopt;
  double lowest = 1;
  for (int64_t begin = 0; begin < t.num_elements(); begin += length) {
    const auto row = RowConfidence(t, begin, length, logits);
    if (!row) return std::nullopt;
    lowest = std::min(lowest, *row);
  }
  return lowest;
}

Difference Compare(const std::vector<Datum>& a, const std::vector<Datum>& b) {
  Difference d;
  d.comparable = a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), Alike);
  if (!d.comparable || a.empty()) return d;
  for (size_t o = 0; o < a.size(); ++o)
    d.worst = std::max(d.worst, Worst(a[o].tensor(), b[o].tensor()));
  const Tensor &x = a[0].tensor(), &y = b[0].tensor();
  const int64_t length = RowLength(x);
  for (int64_t begin = 0; length > 0 && begin < x.num_elements(); begin += length) {
    ++d.rows;
    d.other_top1 += Top1(x, begin, length) != Top1(y, begin, length) ? 1 : 0;
  }
  return d;
}

}  // namespace infer::engine
