#include "quant/recipe/held_out.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lib/ir/carried.h"
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

/// Of a row of scores, or logarithms of probabilities: how far class `of` is above class `other`.
double Margin(std::span<const float> row, size_t of, size_t other, bool probabilities) {
  constexpr double kLeastProbability = 1e-12;
  const double a = static_cast<double>(row[of]), b = static_cast<double>(row[other]);
  if (!probabilities) return a - b;
  return std::log(std::max(a, kLeastProbability) / std::max(b, kLeastProbability));
}

size_t BestOf(std::span<const float> row) {
  return static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

size_t BestBeside(std::span<const float> row, size_t of) {
  size_t other = of == 0 ? 1 : 0;
  for (size_t k = 0; k < row.size(); ++k)
    if (k != of && row[k] > row[other]) other = k;
  return other;
}

/// Chance that a margin of `distance` is below 0 with a normal error of `sigma`.
double ChanceBelowZero(double distance, double sigma) {
  return std::erfc(distance / sigma / std::numbers::sqrt2) / 2;
}

/// Root mean square of the errors of the half of the rows that are nearest to a decision.
double SigmaNear(std::vector<std::pair<double, double>> distance_and_error) {
  if (distance_and_error.empty()) return 0;
  std::sort(distance_and_error.begin(), distance_and_error.end(), [](const auto& a, const auto& b) {
    return std::pair(std::fabs(a.first), a.second) < std::pair(std::fabs(b.first), b.second);
  });
  const size_t near = (distance_and_error.size() + 1) / 2;
  double squares = 0;
  for (size_t i = 0; i < near; ++i)
    squares += distance_and_error[i].second * distance_and_error[i].second;
  return std::sqrt(squares / static_cast<double>(near));
}

/// Rows of class scores of golden and candidate.
class Flips {
 public:
  /// `labels`: one per row, or none.
  void Add(const Tensor& golden, const Tensor& candidate, std::span<const int64_t> labels) {
    if (golden.dtype() != DType::kF32 || golden.rank() < 2 || golden.dim(1) < 2 ||
        golden.num_elements() != golden.dim(0) * golden.dim(1))
      return;
    const auto g = golden.data<float>(), c = candidate.data<float>();
    const auto classes = static_cast<size_t>(golden.dim(1));
    const bool labelled = labels.size() * classes == g.size();
    for (size_t at = 0; at < g.size(); at += classes)
      AddRow(g.subspan(at, classes), c.subspan(at, classes),
             labelled ? labels[at / classes] : int64_t{-1});
  }

  void Tell(HeldOutError& e) const {
    e.rows = static_cast<int64_t>(rows_.size());
    e.probabilities = e.rows > 0 && probabilities_;
    const double sigma = SigmaNear(rows_);
    if (sigma > 0) {
      for (const auto& row : rows_) e.flips += ChanceBelowZero(row.first, sigma);
      e.flips /= static_cast<double>(e.rows);
    }
    e.labelled = static_cast<int64_t>(of_label_.size());
    const double spread = SigmaNear(of_label_);
    for (const auto& [distance, error] : of_label_) {
      if (!(spread > 0)) break;
      const double one = ChanceBelowZero(distance, spread) - (distance > 0 ? 0.0 : 1.0);
      e.drop += one / static_cast<double>(e.labelled);
      e.drop_error += one * one;
    }
    if (e.labelled > 0) e.drop_error = std::sqrt(e.drop_error) / static_cast<double>(e.labelled);
    e.lost = lost_;
    e.gained = gained_;
  }

 private:
  void AddRow(std::span<const float> g, std::span<const float> c, int64_t label) {
    double sum = 0;
    for (const float x : g) sum += static_cast<double>(x);
    const bool probabilities = std::all_of(g.begin(), g.end(), [](float x) { return x >= 0; }) &&
                               std::fabs(sum - 1) < 1e-3;
    probabilities_ = probabilities_ && probabilities;
    const auto add = [&](size_t of, std::vector<std::pair<double, double>>& rows) {
      const size_t other = BestBeside(g, of);
      const double d = Margin(g, of, other, probabilities);
      const double error = Margin(c, of, other, probabilities) - d;
      if (std::isfinite(d) && std::isfinite(error)) rows.push_back({d, error});
    };
    add(BestOf(g), rows_);
    if (label < 0 || static_cast<size_t>(label) >= g.size()) return;
    const auto right = static_cast<size_t>(label);
    add(right, of_label_);
    lost_ += BestOf(g) == right && BestOf(c) != right;
    gained_ += BestOf(c) == right && BestOf(g) != right;
  }

  std::vector<std::pair<double, double>> rows_;      // distance of golden's best class, its error
  std::vector<std::pair<double, double>> of_label_;  // the same of the label's class
  int64_t lost_ = 0, gained_ = 0;
  bool probabilities_ = true;
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
  h.is_judged_.assign(golden.outputs().size(), false);
  for (const size_t k : JudgedOutputs(golden)) h.is_judged_[k] = true;
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
    if (!h.samples_.labels) continue;
    INFER_ASSIGN(std::vector<int64_t> labels, h.samples_.labels(i));
    h.labels_.push_back(std::move(labels));
  }
  INFER_ASSIGN(const double us, h.MicrosecondsOf(golden, t));
  h.Spend(*t.program, us, h.count());
  return h;
}

void HeldOut::Spend(const Program& program, double run_us, int64_t runs) const {
  if (!options_.clock) return;
  options_.clock->Spend(CompileSeconds(program) + run_us * 1e-6 * static_cast<double>(runs));
}

Result<double> HeldOut::MicrosecondsOf(const Graph& g, const TappedProgram& t) const {
  if (options_.costs->runtime == CostsOf::kOurs)
    return RunMicroseconds(*t.program, *t.context, *options_.costs);
  INFER_ASSIGN(const std::vector<Datum> inputs, samples_.get(0));
  return OrtMicroseconds(g, inputs, options_.reader, *options_.costs);
}

Result<ModelCost> HeldOut::CostOf(const Graph& g) const {
  if (options_.costs->runtime == CostsOf::kOnnxRuntime) {
    INFER_ASSIGN(const std::vector<Datum> inputs, samples_.get(0));
    INFER_ASSIGN(const double us, OrtMicroseconds(g, inputs, options_.reader, *options_.costs));
    return ModelCost{us, EstimatedFileBytes(g)};
  }
  INFER_ASSIGN(const double elsewhere_us, ElsewhereMicroseconds(g));
  CompileOptions compile;
  compile.threads = options_.threads;
  INFER_ASSIGN(TappedProgram t, CompileWithTaps(g, {}, *backend_, compile));
  INFER_ASSIGN(std::vector<Datum> inputs, samples_.get(0));
  INFER_TRY(RunInputs(*t.context, std::move(inputs), options_.stop));
  const ModelCost cost{RunMicroseconds(*t.program, *t.context, *options_.costs),
                       EstimatedFileBytes(g), elsewhere_us};
  Spend(*t.program, cost.us, 1);
  return cost;
}

Result<double> HeldOut::ElsewhereMicroseconds(const Graph& g) const {
  if (!options_.elsewhere) return 0.0;
  INFER_ASSIGN(const std::vector<Datum> inputs, samples_.get(0));
  return OrtMicroseconds(g, inputs, options_.reader, *options_.elsewhere);
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

bool IsNoWorse(const HeldOutError& a, const HeldOutError& b) {
  return a.drop <= b.drop && a.flips <= b.flips && a.lost - a.gained <= b.lost - b.gained &&
         a.sure_worst <= b.sure_worst && a.others_sure_worst <= b.others_sure_worst;
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
      if (k == 0)
        flips.Add(golden.tensor(), got.tensor(),
                  labels_.empty() ? std::span<const int64_t>() : labels_[static_cast<size_t>(i)]);
    }
  }
  HeldOutError e;
  flips.Tell(e);
  if (runs > 0) {
    INFER_ASSIGN(e.us, MicrosecondsOf(candidate, t));
  }
  Spend(*t.program, e.us, runs);
  e.by_sample.assign(static_cast<size_t>(runs), 0.0);
  const auto judged = static_cast<double>(std::count(is_judged_.begin(), is_judged_.end(), true));
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
      if (is_judged_[k]) e.by_sample[i] += noise * static_cast<double>(runs) / judged;
    }
    e.worst_of_all = std::max(e.worst_of_all, output_noise);
    if (!is_judged_[k]) continue;
    e.noise += output_noise / judged;
    e.worst = std::max(e.worst, output_noise);
    const double sure = UpperBound(noises, signals);
    e.sure_worst = std::max(e.sure_worst, sure);
    if (k > 0) e.others_sure_worst = std::max(e.others_sure_worst, sure);
  }
  return e;
}

}  // namespace infer
