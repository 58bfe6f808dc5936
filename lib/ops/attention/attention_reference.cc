#include "lib/ops/attention/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Element of a rank-3 tensor that stands at (b, h, i, e).
int64_t MergedOffset(const Heads& h, int64_t b, int64_t head, int64_t i, int64_t e) {
  return ((b * h.length + i) * h.heads + head) * h.size + e;
}

template <typename F>
void ForEach(const Heads& h, F&& f) {
  int64_t flat = 0;
  for (int64_t b = 0; b < h.batch; ++b)
    for (int64_t head = 0; head < h.heads; ++head)
      for (int64_t i = 0; i < h.length; ++i)
        for (int64_t e = 0; e < h.size; ++e) f(flat++, MergedOffset(h, b, head, i, e));
}

/// `sink`, where there is one, counts as one more score, whose probability is not asked for.
void SoftmaxInPlace(std::vector<double>& row, const double* sink) {
  double top = *std::max_element(row.begin(), row.end());
  if (sink) top = std::max(top, *sink);
  double sum = sink ? std::exp(*sink - top) : 0;
  for (double& s : row) sum += s = std::exp(s - top);
  for (double& s : row) s /= sum;
}

/// Scores of one query; `show` takes them at the asked stage.
void ComputeRow(const AttentionProblem& p, int64_t b, int64_t h, int64_t i,
                std::vector<double>& row, double* y, double* show) {
  const int64_t kv_head = h / (p.q.heads / p.k.heads);
  const double* q = p.q.Row(b, h, i);
  auto capture = [&](ScoreStage stage) {
    if (p.stage == stage) std::copy(row.begin(), row.end(), show);
  };
  for (int64_t j = 0; j < p.k.length; ++j) {
    const double* k = p.k.Row(b, kv_head, j);
    double sum = 0;
    for (int64_t d = 0; d < p.q.size; ++d) sum += q[d] * k[d];
    row[static_cast<size_t>(j)] = p.scale * sum;
  }
  capture(ScoreStage::kRaw);
  if (p.softcap != 0)
    for (double& s : row) s = p.softcap * std::tanh(s / p.softcap);
  capture(ScoreStage::kCapped);
  bool any = !p.bias && !row.empty();
  for (int64_t j = 0; p.bias && j < p.k.length; ++j) {
    const double bias = p.bias(b, h, i, j);
    any |= bias != kForbidden;
    double& s = row[static_cast<size_t>(j)];
    s = bias == kForbidden ? kForbidden : s + bias;  // also where the score is not a number
  }
  capture(ScoreStage::kBiased);
  any &= std::any_of(row.begin(), row.end(), [](double s) { return s != kForbidden; });
  if (any)
    SoftmaxInPlace(row, p.sinks.empty() ? nullptr : &p.sinks[static_cast<size_t>(h)]);
  else
    std::fill(row.begin(), row.end(), 0.0);
  capture(ScoreStage::kSoftmax);
  std::fill_n(y, p.v.size, 0.0);
  for (int64_t j = 0; j < p.k.length; ++j) {
    const double weight = row[static_cast<size_t>(j)];
    if (weight == 0) continue;
    const double* v = p.v.Row(b, kv_head, j);
    for (int64_t e = 0; e < p.v.size; ++e) y[e] += weight * v[e];
  }
}

}  // namespace

Heads ReadHeads(const Tensor& t, int64_t heads) {
  const bool merged = t.rank() == 3;
  Heads h{t.dim(0), merged ? heads : t.dim(1), merged ? t.dim(1) : t.dim(2),
          merged ? t.dim(2) / heads : t.dim(3)};
  h.values.resize(static_cast<size_t>(t.num_elements()));
  ForEach(h, [&](int64_t flat, int64_t at) {
    h.values[static_cast<size_t>(flat)] = t.At(merged ? at : flat);
  });
  return h;
}

Heads Concatenated(const Heads& past, const Heads& next) {
  Heads out{next.batch, next.heads, past.length + next.length, next.size};
  out.values.reserve(past.values.size() + next.values.size());
  for (int64_t b = 0; b < out.batch; ++b)
    for (int64_t h = 0; h < out.heads; ++h)
      for (const Heads* from : {&past, &next})
        out.values.insert(out.values.end(), from->Row(b, h, 0),
                          from->Row(b, h, 0) + from->length * from->size);
  return out;
}

Heads Picked(const Heads& h, int64_t first, int64_t step, int64_t count) {
  Heads out{h.batch, count, h.length, h.size};
  out.values.reserve(static_cast<size_t>(h.batch * count * h.length * h.size));
  for (int64_t b = 0; b < h.batch; ++b)
    for (int64_t k = 0; k < count; ++k) {
      const double* from = h.Row(b, first + k * step, 0);
      out.values.insert(out.values.end(), from, from + h.length * h.size);
    }
  return out;
}

Status Rotate(Heads& h, const Tensor& cos, const Tensor& sin, bool interleaved,
              const std::function<int64_t(int64_t b, int64_t i)>& row) {
  const int64_t half = cos.dim(-1);
  if (cos.dims() != sin.dims() || 2 * half > h.size)
    return InvalidModel(Cat("cos_cache is ", ToString(cos.dims()), ", sin_cache is ",
                            ToString(sin.dims()), ", heads have ", h.size, " elements"));
  const int64_t rows = half == 0 ? 0 : cos.num_elements() / half;
  for (int64_t b = 0; b < h.batch; ++b)
    for (int64_t i = 0; i < h.length; ++i) {
      const int64_t at = row(b, i);
      if (half > 0 && (at < 0 || at >= rows))
        return InvalidModel(Cat("position ", at, " is outside cos_cache ", ToString(cos.dims())));
      for (int64_t head = 0; head < h.heads; ++head) {
        double* v = h.values.data() + ((b * h.heads + head) * h.length + i) * h.size;
        for (int64_t d = 0; d < half; ++d) {
          double& first = v[interleaved ? 2 * d : d];
          double& second = v[interleaved ? 2 * d + 1 : d + half];
          const double c = cos.At(at * half + d), s = sin.At(at * half + d);
          const double real = c * first - s * second, imaginary = s * first + c * second;
          first = real;
          second = imaginary;
        }
      }
    }
  return {};
}

Tensor WriteHeads(const Heads& h, DType t, int rank) {
  Tensor out(t, rank == 3 ? Dims{h.batch, h.length, h.heads * h.size}
                          : Dims{h.batch, h.heads, h.length, h.size});
  ForEach(h, [&](int64_t flat, int64_t at) {
    out.Set(rank == 3 ? at : flat, h.values[static_cast<size_t>(flat)]);
  });
  return out;
}

AttentionResult AttentionReference(const AttentionProblem& p) {
  AttentionResult r;
  r.y = {p.q.batch, p.q.heads, p.q.length, p.v.size};
  r.y.values.resize(static_cast<size_t>(p.q.batch * p.q.heads * p.q.length * p.v.size));
  if (p.stage != ScoreStage::kNone) {
    r.scores = {p.q.batch, p.q.heads, p.q.length, p.k.length};
    r.scores.values.resize(static_cast<size_t>(p.q.batch * p.q.heads * p.q.length * p.k.length));
  }
  ParallelFor(p.q.batch * p.q.heads * p.q.length, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> row(static_cast<size_t>(p.k.length));
    for (int64_t at = begin; at < end; ++at)
      ComputeRow(p, at / (p.q.heads * p.q.length), at / p.q.length % p.q.heads, at % p.q.length,
                 row, r.y.values.data() + at * p.v.size,
                 r.scores.values.data() + at * r.scores.size);
  });
  return r;
}

int64_t AttentionFlops(int64_t batch, int64_t q_heads, int64_t q_length, int64_t kv_length,
                       int64_t head_size, int64_t v_head_size) {
  return batch * q_heads * q_length * kv_length * (2 * (head_size + v_head_size) + 5);
}

}  // namespace infer
