#include "quant/train/fine_tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lib/ir/carried.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "quant/accuracy/next_token.h"
#include "quant/calibrate/cache.h"
#include "quant/train/check_request.h"
#include "quant/train/checkpoint.h"
#include "quant/train/parameters.h"
#include "quant/train/step.h"
#include "quant/train/teacher.h"
#include "runtime/api/build_identity.h"

namespace infer {
namespace {

constexpr int64_t kHeldOutEvery = 8, kPoints = 10, kMostHeldOut = 256;
constexpr double kUsualSize = 0.1;  // root mean square of a constant that moves by the rate itself
/// A setback is a held-out loss so many times the best before; the learning rate then falls by the
/// factor.
constexpr double kSetback = 2, kSetbackFactor = 0.3;
bool IsSetback(double loss, double best) { return !(loss <= kSetback * best); }

std::vector<int64_t> PartOf(const Samples& samples, bool held_out) {
  std::vector<int64_t> which;
  for (int64_t i = 0; i < samples.count; ++i)
    if ((i % kHeldOutEvery == kHeldOutEvery - 1) == held_out) which.push_back(i);
  return which;
}

using Clock = std::chrono::steady_clock;
double SecondsSince(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

/// A factor of the learning rate, so that each constant moves by the same share of its numbers'
/// size: with one rate for all, weights of 0.01 lose what they were while biases of 10 stand still.
float PaceOf(std::span<const float> numbers) {
  double squares = 0;
  for (const float w : numbers) squares += static_cast<double>(w) * w;
  const double size = std::sqrt(squares / static_cast<double>(numbers.size()));
  return size > 0 ? static_cast<float>(size / kUsualSize) : 1.0f;
}

/// TrainableConstants; of those with zeros that are kept the others move.
std::vector<TrainedConstant> Learnt(const Graph& model, bool keep_zeros) {
  std::vector<TrainedConstant> learnt;
  for (std::string& name : TrainableConstants(model)) {
    TrainedConstant c{std::move(name)};
    const auto numbers = model.FindValue(c.name)->constant()->data<float>();
    c.pace = {PaceOf(numbers)};
    if (keep_zeros && std::find(numbers.begin(), numbers.end(), 0.0f) != numbers.end())
      for (const float w : numbers) c.keep.push_back(w != 0 ? 1 : 0);
    learnt.push_back(std::move(c));
  }
  return learnt;
}

class Trainer {
 public:
  Trainer(const Graph& model, const Graph& golden, const Samples& samples, const Backend& backend,
          const FineTuneOptions& options)
      : model_(model.Clone()),
        golden_(golden.Clone()),
        outputs_(golden.outputs().size()),
        judged_(JudgedOutputs(golden)),
        token_task_(NextTokenOf(golden)),
        constants_(options.constants.empty() ? Learnt(model, options.keep_zeros)
                                             : options.constants),
        samples_(samples),
        backend_(backend),
        options_(options),
        order_(0, 0, {}) {
    for (const TrainedConstant& c : constants_) parameters_.push_back(c.name);
  }

  Status Run() {
    const Clock::time_point start = Clock::now();
    if (parameters_.empty())
      return Unsupported("nothing to train: no layer has constant f32 weights");
    ChooseActivations();
    SplitSamples();
    ChooseStack();
    INFER_TRY(MakeTeacher());
    INFER_TRY(MakeSteps());
    INFER_TRY(Begin());
    while (state_.at.step < options_.steps && !report_.diverged) {
      if (options_.stop.stop_requested()) return Stopped();
      if (Status s = Step(); !s.ok()) return s.code() == Code::kCancelled ? Stopped() : s;
      INFER_TRY(Checkpoint(false));
    }
    INFER_TRY(Checkpoint(true));
    Finish();
    report_.seconds = SecondsSince(start);
    return {};
  }

  void Write(Graph& model) const { Put(state_.best, model); }
  FineTuneReport TakeReport() { return std::move(report_); }

 private:
  void Put(const std::vector<Tensor>& weights, Graph& model) const {
    GraphEditor editor(model);
    for (size_t i = 0; i < parameters_.size(); ++i)
      editor.SetConstant(model.FindValue(parameters_[i]), weights[i]);
  }

  void SplitSamples() {
    training_ = WithoutHeldOut(samples_);
    std::vector<int64_t> held = PartOf(samples_, true);
    if (static_cast<int64_t>(held.size()) > kMostHeldOut) held.resize(kMostHeldOut);
    held_out_ = Subset(samples_, std::move(held));
    report_.training_samples = training_.count;
    report_.held_out_samples = held_out_.count;
    order_ = SampleOrder(training_.count, options_.seed, options_.augment);
  }

  /// Inner values that are compared become outputs of both models.
  void ChooseActivations() {
    if (!(options_.activation_weight > 0)) return;
    for (const auto& v : model_.values()) {
      Value* golden = golden_.FindValue(v->name());
      if (!golden || !golden->producer() || !v->producer() || golden->is_output() ||
          v->is_output() || !IsF32(v.get()) || !IsF32(golden) ||
          v->shape().ToString() != golden->shape().ToString() ||
          std::none_of(v->uses().begin(), v->uses().end(),
                       [](const Use& u) { return u.operand == 0 && WeightLayoutOf(*u.user); }))
        continue;
      GraphEditor(model_).MarkOutput(v.get());
      GraphEditor(golden_).MarkOutput(golden);
      ++report_.activations;
    }
  }

  /// "" or why samples cannot be stacked.
  std::string WhyNotStacked(const Graph& g) const {
    if (!options_.why_not_stacked) return "not asked for";
    const auto open = WithOpenRows(g);
    return open.ok() ? options_.why_not_stacked(*open) : open.status().message();
  }

  /// Micro-batches fill the batch, so that none is smaller than another.
  void ChooseStack() {
    report_.why_not_stacked = WhyNotStacked(golden_);
    if (report_.why_not_stacked.empty()) report_.why_not_stacked = WhyNotStacked(model_);
    stacked_ = 1;
    if (report_.why_not_stacked.empty()) {
      stacked_ = std::min(options_.stacked, options_.batch);
      while (options_.batch % stacked_ != 0) --stacked_;
    }
    report_.batch = options_.batch;
    report_.stacked = stacked_;
  }

  /// The graph that takes micro-batches.
  Result<Graph> Stackable(const Graph& g) const {
    return stacked_ > 1 ? WithOpenRows(g) : Result<Graph>(g.Clone());
  }

  /// Extents are those of the first samples.
  Status MakeTeacher() {
    std::vector<DrawnSample> first(static_cast<size_t>(stacked_));
    INFER_ASSIGN(const auto inputs, StackedInputs(training_, first));
    for (const Datum& d : inputs) input_dims_.push_back(d.tensor().dims());
    TeacherOptions o;
    o.outputs = outputs_;
    o.judged = judged_;
    if (token_task_) o.token_scores = token_task_->output;
    o.temperature = options_.temperature;
    o.label_weight = options_.label_weight;
    o.activation_weight = options_.activation_weight;
    o.labels = samples_.labels != nullptr;
    o.threads = options_.threads;
    o.stop = options_.stop;
    INFER_ASSIGN(Graph g, Stackable(golden_));
    INFER_ASSIGN(Teacher teacher, Teacher::Make(std::move(g), inputs, backend_, o));
    teacher_.emplace(std::move(teacher));
    report_.with_labels = !teacher_->label_dims().empty();
    return {};
  }

  Status MakeSteps() {
    INFER_ASSIGN(const Graph open, Stackable(model_));
    INFER_ASSIGN(step_, MakeStep(open, parameters_, true));
    if (options_.as_written) return {};
    INFER_ASSIGN(judge_, MakeStep(open, parameters_, false));
    return {};
  }

  /// Measures the held-out loss: of the step, or of the model as these weights are written.
  Status MakeJudge() {
    if (!options_.as_written) return {};
    Graph trained = model_.Clone();
    Put(state_.weights, trained);
    INFER_ASSIGN(const Graph written, options_.as_written(trained));
    INFER_ASSIGN(const Graph open, Stackable(written));
    INFER_ASSIGN(judge_, MakeStep(open, {}, false));
    return {};
  }

  Result<std::unique_ptr<TrainingStep>> MakeStep(const Graph& g,
                                                 const std::vector<std::string>& parameters,
                                                 bool gradients) const {
    StepOptions o;
    o.loss = teacher_->loss();
    o.input_dims = input_dims_;
    o.gradients = gradients;
    o.threads = options_.threads;
    INFER_ASSIGN(TrainingStep step, TrainingStep::Make(g, parameters, backend_, o));
    return std::make_unique<TrainingStep>(std::move(step));
  }

  /// The state before the first step, or that of the checkpoint.
  Status Begin() {
    for (const TrainedConstant& c : constants_) {
      const Tensor& t = *model_.FindValue(c.name)->constant();
      state_.weights.push_back(t.Clone());
      state_.best.push_back(t.Clone());
      state_.adam.emplace_back(static_cast<size_t>(t.num_elements()));
      gradient_.emplace_back(static_cast<size_t>(t.num_elements()));
      report_.parameters += t.num_elements();
    }
    if (!options_.checkpoint.empty()) {
      INFER_ASSIGN(key_, Key());
      INFER_ASSIGN(const bool found, ReadCheckpoint(options_.checkpoint, key_, state_));
      if (found) {
        report_.resumed_from = state_.at.step;
        if (options_.tell)
          options_.tell(Cat("fine-tuning goes on at step ", state_.at.step, " of ", options_.steps,
                            " (", options_.checkpoint, ")"));
      }
    }
    INFER_TRY(step_->SetParameters(state_.weights));
    if (judge_) INFER_TRY(judge_->SetParameters(state_.weights));
    if (state_.at.step == 0) {
      INFER_ASSIGN(state_.at.best_loss, HeldOutLoss());
      state_.at.seen = {0, -1, state_.at.best_loss};
    }
    saved_ = Clock::now();
    return {};
  }

  Result<std::string> Key() const {
    INFER_ASSIGN(const uint64_t data, LabelledDataKey(samples_, options_.stop));
    const FineTuneOptions& o = options_;
    return Cat(ModelKey(model_), " ", ModelKey(golden_), " ", data, " ", BuildIdentity(), " ",
               backend_.name(), " ", o.steps, " ", o.rate, " ", o.batch, " ", stacked_, " ",
               o.temperature, " ", o.label_weight, " ", o.activation_weight, " ", o.augment.shift,
               " ", o.augment.mirror, " ", o.keep_zeros, " ", o.seed);
  }

  /// Inputs, golden outputs and labels of `drawn`, run through `step`.
  Result<double> LossOf(TrainingStep& step, const Samples& samples,
                        std::span<const DrawnSample> drawn) {
    INFER_ASSIGN(auto inputs, StackedInputs(samples, drawn));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].tensor().dims() != input_dims_[i])
        return InvalidArgument(Cat("sample ", drawn[0].sample,
                                   " has other extents than the first: "
                                   "fine-tuning wants samples of the same extents"));
    INFER_ASSIGN(std::vector<Datum> golden, teacher_->Run(inputs));
    if (report_.with_labels) {
      INFER_ASSIGN(Tensor labels, StackedLabels(samples, drawn, teacher_->label_dims()));
      golden.emplace_back(std::move(labels));
    }
    return step.Run(std::move(inputs), std::move(golden), options_.stop);
  }

  /// The last micro-batch is filled up with the first samples.
  Result<double> HeldOutLoss() {
    INFER_TRY(MakeJudge());
    double sum = 0;
    int64_t runs = 0;
    std::vector<DrawnSample> drawn(static_cast<size_t>(stacked_));
    for (int64_t at = 0; at < held_out_.count; at += stacked_, ++runs) {
      for (size_t i = 0; i < drawn.size(); ++i)
        drawn[i].sample = (at + static_cast<int64_t>(i)) % held_out_.count;
      INFER_ASSIGN(const double loss, LossOf(*judge_, held_out_, drawn));
      sum += loss;
    }
    return sum / static_cast<double>(runs);
  }

  /// One step of Adam by the mean of the micro-batches' gradients.
  Status Step() {
    const int64_t parts = options_.batch / stacked_;
    double loss = 0;
    for (auto& g : gradient_) std::fill(g.begin(), g.end(), 0.0f);
    std::vector<DrawnSample> drawn(static_cast<size_t>(stacked_));
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t at = state_.at.step * options_.batch + part * stacked_;
      for (size_t i = 0; i < drawn.size(); ++i) drawn[i] = order_.At(at + static_cast<int64_t>(i));
      INFER_ASSIGN(const double one, LossOf(*step_, training_, drawn));
      loss += one / static_cast<double>(parts);
      for (size_t i = 0; i < gradient_.size(); ++i)
        if (const auto g = step_->gradient(i))
          for (size_t k = 0; k < g->size(); ++k)
            gradient_[i][k] += (*g)[k] / static_cast<float>(parts);
    }
    if (!std::isfinite(loss)) {
      report_.diverged = true;
      return {};
    }
    const double rate = ScheduledRate(options_.rate, state_.at.step, options_.steps) *
                        std::pow(kSetbackFactor, static_cast<double>(Setbacks()));
    ++state_.at.step;
    const LaneLease lanes(options_.threads);
    for (size_t i = 0; i < gradient_.size(); ++i) Move(i, rate);
    state_.at.loss += loss;
    if (options_.progress) options_.progress("fine-tune", state_.at.step, options_.steps);
    return IsPoint() ? Judge() : Status();
  }

  /// Constant i by one step.
  void Move(size_t i, double rate) {
    const TrainedConstant& c = constants_[i];
    const auto numbers = state_.weights[i].mutable_data<float>();
    const auto step = c.is_scale ? ScaleStep : PacedStep;
    step(numbers, gradient_[i], state_.adam[i], c.keep, c.pace, rate, state_.at.step);
  }

  int64_t Interval() const { return std::max<int64_t>(1, options_.steps / kPoints); }
  bool IsPoint() const {
    return state_.at.step % Interval() == 0 || state_.at.step == options_.steps;
  }

  /// Points so far that were setbacks.
  int64_t Setbacks() const {
    const std::vector<double>& seen = state_.at.seen;  // step, training loss, held-out loss
    int64_t count = 0;
    double best = seen[2];
    for (size_t i = 5; i < seen.size(); i += 3) {
      count += IsSetback(seen[i], best) ? 1 : 0;
      best = std::min(best, seen[i]);
    }
    return count;
  }

  /// Keeps the weights where they are the best so far; after a setback goes back to those that are.
  Status Judge() {
    INFER_ASSIGN(const double loss, HeldOutLoss());
    TrainingPoint& at = state_.at;
    const double last = at.seen[at.seen.size() - 3];
    at.seen.insert(at.seen.end(), {static_cast<double>(at.step),
                                   at.loss / (static_cast<double>(at.step) - last), loss});
    at.loss = 0;
    if (loss < at.best_loss) {
      at.best_loss = loss;
      at.best_step = at.step;
      CopyNumbers(state_.weights, state_.best);
    } else if (IsSetback(loss, at.best_loss)) {
      CopyNumbers(state_.best, state_.weights);
    }
    return {};
  }

  static void CopyNumbers(const std::vector<Tensor>& from, std::vector<Tensor>& to) {
    for (size_t i = 0; i < from.size(); ++i) {
      const auto numbers = from[i].data<float>();
      std::copy(numbers.begin(), numbers.end(), to[i].mutable_data<float>().begin());
    }
  }

  Status Checkpoint(bool now) {
    if (options_.checkpoint.empty()) return {};
    // Writing takes a small part of the time, however large the model is.
    constexpr double kTimesAsLong = 20;
    const double pause = std::max(options_.checkpoint_seconds, kTimesAsLong * write_seconds_);
    if (!now && SecondsSince(saved_) < pause) return {};
    const Clock::time_point start = Clock::now();
    INFER_TRY(WriteCheckpoint(options_.checkpoint, key_, state_));
    saved_ = Clock::now();
    write_seconds_ = SecondsSince(start);
    return {};
  }

  Status Stopped() {
    INFER_TRY(Checkpoint(true));
    return Cancelled("fine-tuning was stopped");
  }

  void Finish() {
    const std::vector<double>& seen = state_.at.seen;
    for (size_t i = 0; i + 2 < seen.size(); i += 3)
      report_.points.push_back({static_cast<int64_t>(seen[i]), seen[i + 1], seen[i + 2]});
    report_.steps = state_.at.step;
    report_.best_step = state_.at.best_step;
    report_.loss_before = seen[2];
    report_.loss_after = state_.at.best_loss;
  }

  Graph model_, golden_;  // with the inner values that are compared as outputs
  size_t outputs_;        // of the models themselves
  std::vector<size_t> judged_;
  std::optional<NextToken> token_task_;
  const std::vector<TrainedConstant> constants_;
  const Samples& samples_;
  const Backend& backend_;
  const FineTuneOptions& options_;
  std::vector<std::string> parameters_;  // names of constants_
  Samples training_, held_out_;
  SampleOrder order_;
  int64_t stacked_ = 1;
  std::vector<Dims> input_dims_;
  std::optional<Teacher> teacher_;
  std::unique_ptr<TrainingStep> step_, judge_;
  TrainingState state_;
  std::vector<std::vector<float>> gradient_;
  std::string key_;
  Clock::time_point saved_;
  double write_seconds_ = 0;
  FineTuneReport report_;
};

}  // namespace

Samples WithoutHeldOut(const Samples& samples) { return Subset(samples, PartOf(samples, false)); }

Result<FineTuneReport> FineTune(Graph& model, const Graph& golden, const Samples& samples,
                                const Backend& backend, const FineTuneOptions& options) {
  INFER_TRY(CheckRequest(samples, options));
  Trainer trainer(model, golden, samples, backend, options);
  INFER_TRY(trainer.Run());
  trainer.Write(model);
  return trainer.TakeReport();
}

}  // namespace infer
