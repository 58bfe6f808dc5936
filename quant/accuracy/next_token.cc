#include "quant/accuracy/next_token.h"

#include <algorithm>
#include <cmath>

#include "lib/ir/reached.h"
#include "lib/ir/roles.h"
#include "lib/support/strings.h"
#include "lib/support/student.h"
#include "quant/accuracy/metrics.h"

namespace infer {
namespace {

struct Table {
  int64_t rows = 0, elements = 0;
};

/// The largest table whose rows `tokens` picks, also through views and casts.
Table TableOf(const Value& tokens) {
  Table largest;
  ReachedFrom(tokens, [&](const Use& use, auto add) {
    const Node& n = *use.user;
    if ((n.Is(Trait::kView) || IsCast(n)) && use.operand == 0) add(*n.output());
    // Integers are no scale: at this place of a quantized operator they look up, too.
    if (!n.IsAny(Trait::kLookup | Trait::kQuantization) || use.operand != 1) return;
    const Shape& table = n.input(0)->shape();
    if (!table.is_static() || table.rank() != 2) return;
    const int64_t rows = table[0].value(), elements = rows * table[1].value();
    if (elements > largest.elements) largest = {rows, elements};
  });
  return largest;
}

bool IsTokens(const Value& v) {
  return v.type().is_tensor() && (v.dtype() == DType::kI64 || v.dtype() == DType::kI32) &&
         v.shape().has_rank() && v.shape().rank() == 2;
}

template <typename T>
void ChangeLast(std::span<T> tokens, int64_t length) {
  for (size_t i = static_cast<size_t>(length) - 1; i < tokens.size();
       i += static_cast<size_t>(length))
    tokens[i] = tokens[i] > 0 ? tokens[i] - 1 : 1;
}

/// Whether token `i` of `mask` is there.
bool Counts(const Tensor* mask, int64_t i) { return !mask || mask->At(i) != 0; }

/// The mask, where it is one of these tokens, and not also of those in a cache.
const Tensor* MaskOf(const NextToken& task, const std::vector<Datum>& inputs) {
  if (!task.mask) return nullptr;
  const Tensor& mask = inputs[*task.mask].tensor();
  return mask.dims() == inputs[task.input].tensor().dims() ? &mask : nullptr;
}

Interval Exp(const Interval& i) { return {std::exp(i.lo), std::exp(i.hi)}; }

}  // namespace

std::optional<NextToken> NextTokenOf(const Graph& g) {
  NextToken task;
  Table table;
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const Value& v = *g.inputs()[i];
    if (!IsTokens(v)) continue;
    if (const Table t = TableOf(v); t.elements > table.elements) {
      table = t;
      task.input = i;
    }
    if (v.name().find("mask") != std::string::npos) task.mask = i;
  }
  if (table.rows < 2) return std::nullopt;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const Value& v = *g.outputs()[i];
    if (!v.type().is_tensor() || !IsFloat(v.dtype()) || !v.shape().has_rank()) continue;
    if (v.shape().rank() != 3 || v.shape()[2] != Dim(table.rows)) continue;
    task.output = i;
    return task;
  }
  return std::nullopt;
}

std::optional<std::vector<Datum>> WithOtherLastTokens(const NextToken& task,
                                                      const std::vector<Datum>& inputs) {
  const Tensor& tokens = inputs[task.input].tensor();
  const int64_t length = tokens.dims()[1];
  if (length < 2 || tokens.num_elements() == 0) return std::nullopt;
  const Tensor* mask = MaskOf(task, inputs);
  for (int64_t i = length - 1; mask && i < mask->num_elements(); i += length)
    if (!Counts(mask, i)) return std::nullopt;
  Tensor changed = tokens.Clone();
  if (changed.dtype() == DType::kI64)
    ChangeLast(changed.mutable_data<int64_t>(), length);
  else
    ChangeLast(changed.mutable_data<int32_t>(), length);
  std::vector<Datum> other = inputs;
  other[task.input] = std::move(changed);
  return other;
}

bool DifferAtLastTokenOnly(const Tensor& scores, const Tensor& changed) {
  const std::vector<float> a = scores.ToFloats(), b = changed.ToFloats();
  const int64_t length = scores.dims()[1], width = scores.dims()[2];
  double before = 0, last = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const bool is_last = (static_cast<int64_t>(i) / width) % length == length - 1;
    double& largest = is_last ? last : before;
    largest = std::max(largest, std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  constexpr double kRounding = 1e-5;  // other sums of the same numbers
  return last > 0 && before <= kRounding * last;
}

void MeanPerToken::Add(double sum, int64_t tokens) {
  const auto n = static_cast<double>(tokens);
  ++sequences_;
  tokens_ += tokens;
  sum_ += sum;
  xx_ += sum * sum;
  xn_ += sum * n;
  nn_ += n * n;
}

double MeanPerToken::mean() const { return tokens_ > 0 ? sum_ / static_cast<double>(tokens_) : 0; }

std::optional<Interval> MeanPerToken::interval() const {
  if (sequences_ < 2 || tokens_ == 0) return std::nullopt;
  const double m = mean(), k = static_cast<double>(sequences_);
  const double squares = std::max(0.0, xx_ - 2 * m * xn_ + m * m * nn_);
  const double half = StudentQuantile(0.95, static_cast<int>(sequences_ - 1)) *
                      std::sqrt(squares * k / (k - 1)) / static_cast<double>(tokens_);
  return Interval{m - half, m + half};
}

Status PairedPerplexity::Add(const NextToken& task, const std::vector<Datum>& inputs,
                             const Tensor& golden, const Tensor& candidate) {
  const Tensor& tokens = inputs[task.input].tensor();
  const Dims& dims = tokens.dims();
  const auto fits = [&](const Tensor& t) {
    const Dims& d = t.dims();
    return IsFloat(t.dtype()) && d.size() == 3 && d[0] == dims[0] && d[1] == dims[1];
  };
  if (dims.size() != 2 || !fits(golden) || golden.dims() != candidate.dims())
    return InvalidModel(
        Cat("scores ", ToString(golden.dims()), " do not belong to tokens ", ToString(dims)));
  const Tensor* mask = MaskOf(task, inputs);
  const std::vector<float> g = golden.ToFloats(), c = candidate.ToFloats();
  const auto width = static_cast<size_t>(golden.dims()[2]);
  const auto loss = [&](const std::vector<float>& scores, int64_t i, int64_t token) {
    const auto row = std::span(scores).subspan(static_cast<size_t>(i) * width, width);
    return -LogProbabilities(row, IsDistribution(row))[static_cast<size_t>(token)];
  };
  for (int64_t n = 0; n < dims[0]; ++n) {
    double golden_sum = 0, candidate_sum = 0;
    int64_t counted = 0;
    for (int64_t t = 0; t + 1 < dims[1]; ++t) {
      const int64_t i = n * dims[1] + t, next = tokens.IntAt(i + 1);
      if (!Counts(mask, i) || !Counts(mask, i + 1)) continue;
      if (next < 0 || next >= golden.dims()[2])
        return InvalidModel(Cat("token ", next, " is outside the ", width, " scores"));
      golden_sum += loss(g, i, next);
      candidate_sum += loss(c, i, next);
      ++counted;
    }
    if (counted == 0) continue;
    golden_.Add(golden_sum, counted);
    candidate_.Add(candidate_sum, counted);
    difference_.Add(candidate_sum - golden_sum, counted);
  }
  return {};
}

double PairedPerplexity::golden() const { return std::exp(golden_.mean()); }
double PairedPerplexity::candidate() const { return std::exp(candidate_.mean()); }
double PairedPerplexity::rise() const { return std::expm1(difference_.mean()); }

std::optional<Interval> PairedPerplexity::candidate_interval() const {
  const auto i = candidate_.interval();
  return i ? std::optional(Exp(*i)) : std::nullopt;
}

std::optional<Interval> PairedPerplexity::rise_interval() const {
  const auto i = difference_.interval();
  if (!i) return std::nullopt;
  return Interval{std::expm1(i->lo), std::expm1(i->hi)};
}

}  // namespace infer
