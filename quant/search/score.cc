#include "quant/search/score.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "quant/calibrate/calibrate.h"

namespace infer {
namespace {

double CrossEntropy(std::span<const float> row, int64_t label, bool is_distribution) {
  return -LogProbabilities(row, is_distribution)[static_cast<size_t>(label)];
}

struct Task {
  PairedAccuracy paired;
  double loss = 0;

  Status Add(const Tensor& golden, const Tensor& candidate, const std::vector<int64_t>& labels) {
    return ForLabelledRows(golden, candidate, labels, [&](auto a, auto b, int64_t label) {
      paired.Add(a, b, label);
      const bool is_distribution = IsDistribution(a);
      loss += CrossEntropy(b, label, is_distribution) - CrossEntropy(a, label, is_distribution);
    });
  }
};

struct StoredNumber {
  const char* name;
  double Score::*number;
};
constexpr StoredNumber kStored[] = {{"noise", &Score::noise},
                                    {"kl", &Score::kl},
                                    {"loss", &Score::loss},
                                    {"worst noise", &Score::worst_noise},
                                    {"cosine", &Score::cosine},
                                    {"error ratio", &Score::error_ratio},
                                    {"agreement", &Score::agreement},
                                    {"mismatches", &Score::mismatches},
                                    {"drop", &Score::drop}};

Score ScoreOutputs(const std::vector<ValueAccuracy>& outputs) {
  Score s;
  int floats = 0;
  bool rows = false;
  for (const ValueAccuracy& v : outputs) {
    const auto mismatches = static_cast<double>(v.metrics.non_finite_mismatches);
    s.mismatches += mismatches;
    if (v.rows) s.agreement = std::min(s.agreement, v.rows->top1_agreement);
    if (!v.is_float) continue;
    ++floats;
    const double noise = std::pow(10.0, -v.metrics.sqnr_db / 10) + (mismatches > 0 ? 1 : 0);
    s.noise += noise;
    s.worst_noise = std::max(s.worst_noise, noise);
    s.cosine = std::min(s.cosine, v.metrics.cosine);
    s.error_ratio = std::max(s.error_ratio, v.error_ratio());
    if (v.rows && !std::exchange(rows, true)) s.kl = v.rows->kl;
  }
  s.noise /= std::max(floats, 1);
  return s;
}

}  // namespace

double Score::sqnr_db() const {
  return worst_noise > 0 ? -10 * std::log10(worst_noise) : std::numeric_limits<double>::infinity();
}

Numbers Score::numbers() const {
  Numbers n;
  for (const StoredNumber& s : kStored) n[s.name] = this->*s.number;
  return n;
}

Result<Score> Score::From(const Numbers& n) {
  Score score;
  for (const StoredNumber& s : kStored) {
    const auto it = n.find(s.name);
    if (it == n.end())
      return InvalidModel(Cat("a stored score has no ", s.name, ": another version measured it"));
    score.*s.number = it->second;
  }
  return score;
}

double ErrorOf(const Score& s, ErrorMeasure m) {
  switch (m) {
    case ErrorMeasure::kNoise: return s.noise;
    case ErrorMeasure::kKl: return s.kl;
    case ErrorMeasure::kLoss: return s.loss;
  }
  return 0;
}

Result<Judge> Judge::Make(const Graph& golden, const Samples& samples, int64_t count,
                          const Backend& backend, int threads, std::stop_token stop,
                          std::chrono::steady_clock::time_point until) {
  Judge j(backend, threads, std::move(stop));
  CompileOptions compile;
  compile.level = 0;
  compile.threads = threads;
  INFER_ASSIGN(TappedProgram t, CompileWithTaps(golden, {}, backend, compile));
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < std::min(count, samples.count); ++i) {
    if (j.stop_.stop_requested()) return Cancelled("the search was stopped");
    if (i >= kLeastSamples && std::chrono::steady_clock::now() > until) break;
    INFER_ASSIGN(std::vector<Datum> inputs, samples.get(i));
    if (Status s = RunInputs(*t.context, inputs, j.stop_); !s.ok())
      return std::move(s).In(Cat("golden, sample ", i));
    j.golden_.push_back(TakeOutputs(*t.context, t.num_outputs));
    j.inputs_.push_back(std::move(inputs));
    if (!samples.labels) continue;
    INFER_ASSIGN(std::vector<int64_t> labels, samples.labels(i));
    j.labels_.push_back(std::move(labels));
  }
  if (j.inputs_.empty()) return InvalidArgument("there are no samples to judge by");
  j.golden_seconds_ = MsSince(start) / 1000 / static_cast<double>(j.inputs_.size());
  return j;
}

Result<Score> Judge::Of(Graph candidate, int64_t count) const {
  std::vector<ValueAccuracy> found;
  for (const Value* v : candidate.outputs()) found.push_back(AccuracyOf(*v, TensorComparer()));
  CompileOptions compile;
  compile.threads = threads_;
  INFER_ASSIGN(TappedProgram t, CompileOwnedWithTaps(std::move(candidate), {}, *backend_, compile));
  std::vector<TensorComparer> comparers(t.num_outputs);
  Task task;
  const size_t n =
      count > 0 ? std::min(static_cast<size_t>(count), inputs_.size()) : inputs_.size();
  for (size_t i = 0; i < n; ++i) {
    if (stop_.stop_requested()) return Cancelled("the search was stopped");
    INFER_TRY(RunInputs(*t.context, inputs_[i], stop_));
    std::vector<Datum> outputs;
    for (size_t k = 0; k < t.num_outputs; ++k) outputs.push_back(t.context->output(k));
    INFER_TRY(AddOutputs(golden_[i], outputs, comparers));
    if (has_labels()) INFER_TRY(task.Add(golden_[i][0].tensor(), outputs[0].tensor(), labels_[i]));
  }
  for (size_t i = 0; i < comparers.size(); ++i) {
    found[i].metrics = comparers[i].metrics();
    found[i].rows = comparers[i].row_metrics();
  }
  Score s = ScoreOutputs(found);
  if (has_labels() && task.paired.samples > 0) {
    s.loss = task.loss / static_cast<double>(task.paired.samples);
    s.drop = task.paired.drop();
  }
  return s;
}

Result<std::vector<ValueAccuracy>> Judge::Layers(const Graph& golden,
                                                 const Graph& candidate) const {
  CompareOptions options;
  options.per_layer = true;
  options.threads = threads_;
  options.stop = stop_;
  Samples few;
  few.count = std::min<int64_t>(options.layer_samples, samples());
  few.get = [this](int64_t i) -> Result<std::vector<Datum>> { return inputs(i); };
  INFER_ASSIGN(AccuracyReport r, Compare(golden, *backend_, candidate, *backend_, few, options));
  return std::move(r.layers);
}

}  // namespace infer
