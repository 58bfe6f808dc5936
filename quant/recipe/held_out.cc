#include "quant/recipe/held_out.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/support/student.h"
#include "quant/accuracy/compare.h"

namespace infer {

namespace {

constexpr double kMostSpread = 4, kUnknownSpread = 2;

}  // namespace

double UpperBound(std::span<const double> noise, std::span<const double> signal) {
  const size_t n = noise.size();
  double all_noise = 0, all_signal = 0;
  for (size_t i = 0; i < n; ++i) {
    all_noise += noise[i];
    all_signal += signal[i];
  }
  const double ratio = all_noise / all_signal;
  if (n < 3) return ratio * kUnknownSpread;
  // Less than this share of the noise in all other samples tells no more than none.
  const double least = 1e-3 * ratio;
  std::vector<double> logs;
  double mean = 0;
  for (size_t i = 0; i < n; ++i) {
    const double others = all_signal - signal[i];
    const double without = others > 0 ? (all_noise - noise[i]) / others : ratio;
    logs.push_back(std::log(std::max(without, least)));
    mean += logs.back() / static_cast<double>(n);
  }
  if (!(ratio > 0)) return ratio;
  double squares = 0;
  for (const double l : logs) squares += (l - mean) * (l - mean);
  const double error = std::sqrt(squares * static_cast<double>(n - 1) / static_cast<double>(n));
  return ratio *
         std::min(std::exp(StudentQuantile(0.9, static_cast<int>(n - 1)) * error), kMostSpread);
}

namespace {

/// Rows of class scores of golden and candidate.
class Flips {
 public:
  void Add(const Tensor& golden, const Tensor& candidate) {
    if (golden.dtype() != DType::kF32 || golden.rank() < 2 || golden.dim(1) < 2 ||
        golden.num_elements() != golden.dim(0) * golden.dim(1))
      return;
    const auto g = golden.data<float>(), c = candidate.data<float>();
    const auto classes = static_cast<size_t>(golden.dim(1));
    for (size_t at = 0; at < g.size(); at += classes) {
      size_t best = 0, second = 1;
      double sum = 0;
      bool negative = false;
      for (size_t k = 0; k < classes; ++k) {
        sum += static_cast<double>(g[at + k]);
        negative = negative || g[at + k] < 0;
        if (g[at + k] > g[at + best]) best = k;
      }
      second = best == 0 ? 1 : 0;
      for (size_t k = 0; k < classes; ++k)
        if (k != best && g[at + k] > g[at + second]) second = k;
      const bool probabilities = !negative && std::fabs(sum - 1) < 1e-3;
      const auto distance = [&](std::span<const float> x) {
        const double a = static_cast<double>(x[at + best]), b = static_cast<double>(x[at + second]);
        if (!probabilities) return a - b;
        return std::log(std::max(a, kLeastProbability) / std::max(b, kLeastProbability));
      };
      const double d = distance(g), error = distance(c) - d;
      if (std::isfinite(d) && std::isfinite(error)) rows_.push_back({d, error});
    }
  }
  double Share() {
    if (rows_.empty()) return 0;
    std::sort(rows_.begin(), rows_.end());
    const size_t near = (rows_.size() + 1) / 2;
    double squares = 0, sum = 0;
    for (size_t i = 0; i < near; ++i) squares += rows_[i].second * rows_[i].second;
    const double sigma = std::sqrt(squares / static_cast<double>(near));
    if (!(sigma > 0)) return 0;
    for (const auto& row : rows_) sum += std::erfc(row.first / sigma / std::numbers::sqrt2) / 2;
    return sum / static_cast<double>(rows_.size());
  }

 private:
  static constexpr double kLeastProbability = 1e-12;
  std::vector<std::pair<double, double>> rows_;  // distance, its error
};

}  // namespace

double Decibels(double noise) { return -10 * std::log10(noise); }

Result<HeldOut> HeldOut::Make(const Graph& golden, Samples samples, const Backend& backend,
                              const Options& options) {
  if (samples.count <= 0) return InvalidArgument("there are no samples to judge a step by");
  HeldOut h;
  h.samples_ = std::move(samples);
  h.backend_ = &backend;
  h.options_ = options;
  CompileOptions compile;
  compile.level = 0;
  compile.threads = options.threads;
  INFER_ASSIGN(TappedProgram t, CompileWithTaps(golden, {}, backend, compile));
  int64_t bytes = 0;
  const int64_t most = std::min(h.samples_.count, options.max_samples);
  for (int64_t i = 0; i < most && (i < 2 || bytes < options.max_bytes); ++i) {
    if (options.stop.stop_requested()) return Cancelled("was stopped");
    INFER_ASSIGN(std::vector<Datum> inputs, h.samples_.get(i));
    INFER_TRY(RunInputs(*t.context, std::move(inputs), options.stop));
    h.golden_.push_back(TakeOutputs(*t.context, t.num_outputs));
    for (const Datum& d : h.golden_.back())
      if (d.is_tensor()) bytes += d.tensor().byte_size();
  }
  return h;
}

bool IsLess(const HeldOutError& after, const HeldOutError& before) {
  constexpr double kLeastGain = 0.01;
  if (!(after.noise < before.noise * (1 - kLeastGain))) return false;
  const size_t n = after.by_sample.size();
  if (before.by_sample.size() != n) return true;
  size_t fell = 0;
  for (size_t i = 0; i < n; ++i) fell += after.by_sample[i] <= before.by_sample[i];
  return 2 * fell >= n;
}

namespace {

/// Sums over one output of one sample.
struct Sums {
  double signal = 0, noise = 0;
  int64_t elements = 0, unequal = 0, mismatches = 0;
  bool floats = false;
  void Add(const Tensor& golden, const Tensor& candidate);
};

void Sums::Add(const Tensor& golden, const Tensor& candidate) {
  elements += golden.num_elements();
  if (golden.dtype() != DType::kF32) {
    TensorComparer c;
    if (!c.Add(golden, candidate).ok()) return;
    const TensorMetrics m = c.metrics();
    unequal += m.unequal;
    mismatches += m.non_finite_mismatches;
    if (IsFloat(golden.dtype())) {  // f16 and the like: per element of unit signal
      floats = true;
      signal += 1;
      noise += std::isfinite(m.sqnr_db) ? std::pow(10.0, -m.sqnr_db / 10) : 0;
    }
    return;
  }
  floats = true;
  const auto g = golden.data<float>(), c = candidate.data<float>();
  for (size_t i = 0; i < g.size(); ++i) {
    const double r = static_cast<double>(g[i]), d = static_cast<double>(c[i]) - r;
    if (!std::isfinite(r) || !std::isfinite(d)) {
      mismatches += std::isfinite(r) != std::isfinite(static_cast<double>(c[i]));
      continue;
    }
    signal += r * r;
    noise += d * d;
  }
}

}  // namespace

Result<HeldOutError> HeldOut::Measure(const Graph& candidate, int64_t most) const {
  CompileOptions compile;
  compile.threads = options_.threads;
  INFER_ASSIGN(TappedProgram t, CompileWithTaps(candidate, {}, *backend_, compile));
  const int64_t runs = most > 0 ? std::min(most, count()) : count();
  std::vector<std::vector<Sums>> sums;  // by sample and output
  Flips flips;
  for (int64_t i = 0; i < runs; ++i) {
    if (options_.stop.stop_requested()) return Cancelled("was stopped");
    INFER_ASSIGN(std::vector<Datum> inputs, samples_.get(i));
    INFER_TRY(RunInputs(*t.context, std::move(inputs), options_.stop));
    std::vector<Sums>& sample = sums.emplace_back(t.num_outputs);
    for (size_t k = 0; k < t.num_outputs; ++k) {
      const Datum& golden = golden_[static_cast<size_t>(i)][k];
      const Datum& got = t.context->output(k);
      if (!golden.is_tensor() || !got.is_tensor()) continue;
      if (golden.tensor().dims() != got.tensor().dims() ||
          golden.tensor().dtype() != got.tensor().dtype())
        return InvalidModel("a result has another shape or type than the f32 model's");
      sample[k].Add(golden.tensor(), got.tensor());
      if (k == 0) flips.Add(golden.tensor(), got.tensor());
    }
  }
  HeldOutError e;
  e.flips = flips.Share();
  e.by_sample.assign(static_cast<size_t>(runs), 0.0);
  const double outputs = static_cast<double>(t.num_outputs);
  for (size_t k = 0; k < t.num_outputs; ++k) {
    Sums all;
    for (const auto& sample : sums) {
      all.signal += sample[k].signal;
      all.elements += sample[k].elements;
      all.floats = all.floats || sample[k].floats;
    }
    const double base = all.floats ? all.signal : static_cast<double>(all.elements);
    double output_noise = 0;
    std::vector<double> noises, signals;
    for (size_t i = 0; i < sums.size(); ++i) {
      const Sums& s = sums[i][k];
      double noise = all.floats ? s.noise : static_cast<double>(s.unequal);
      if (noise > 0) noise = base > 0 ? noise / base : 1;
      if (s.mismatches > 0) noise += 1.0 / static_cast<double>(runs);
      output_noise += noise;
      noises.push_back(noise);
      signals.push_back(base > 0 ? (all.floats ? s.signal : static_cast<double>(s.elements)) / base
                                 : 1.0 / static_cast<double>(runs));
      e.by_sample[i] += noise * static_cast<double>(runs) / outputs;
    }
    e.noise += output_noise / outputs;
    e.worst = std::max(e.worst, output_noise);
    e.sure_worst = std::max(e.sure_worst, UpperBound(noises, signals));
  }
  return e;
}

}  // namespace infer
