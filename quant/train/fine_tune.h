#pragma once
/// Trains what pruning has left of a model against the golden model, without a framework:
/// distillation with Adam on our own backward graph (passes/gradient).
#include <functional>
#include <stop_token>
#include <string>

#include "quant/calibrate/samples.h"
#include "quant/train/batches.h"
#include "runtime/api/program.h"

namespace infer {

/// A constant that training moves.
struct TrainedConstant {
  std::string name = {};
  std::vector<uint8_t> keep = {};  ///< by number: 0 stays as it is; empty: all move
  bool is_scale = false;           ///< above 0 and trained by its logarithm (ScaleStep)
  /// Factors of the learning rate: by number, or one for all.
  std::vector<float> pace = {1};
};

struct FineTuneOptions {
  int64_t steps = 0;       ///< of Adam; above 0
  double rate = 1e-3;      ///< highest learning rate: ScheduledRate, less after each setback
  int64_t batch = 32;      ///< samples of a step
  int64_t stacked = 32;    ///< of them at once (micro-batch), where samples can be stacked
  double temperature = 2;  ///< of distillation
  /// Weight of the cross-entropy of labels beside the distillation; without labels there is none.
  double label_weight = 0.1;
  /// Weight of the squared error of inner values, relative to their energy, in the mean over those
  /// that both models have by name and extents and that a product or convolution reads; 0: none.
  double activation_weight = 0;
  Augmentation augment;
  bool keep_zeros = false;  ///< weights that are 0 stay 0
  /// Constants to train; empty: TrainableConstants, by keep_zeros.
  std::vector<TrainedConstant> constants = {};
  /// The model with its constants as it is written, where training works on another form of it: its
  /// loss decides what is kept. It has the outputs of the form. nullptr: there is one form.
  std::function<Result<Graph>(const Graph& trained)> as_written = nullptr;
  uint64_t seed = 0;
  /// A file that keeps the state of the run, every `checkpoint_seconds` (or 20 times as long as
  /// writing it takes) and when stopped; what is there for the same models, data, options and build
  /// is continued. "": none.
  std::string checkpoint = "";
  double checkpoint_seconds = 2;
  int threads = 0;
  /// Why runs of a graph with an open first extent (WithOpenRows) cannot be stacked along it; "":
  /// they can. nullptr: nothing is known of that, one sample at a time.
  std::function<std::string(const Graph& open)> why_not_stacked = nullptr;
  /// Told a line when a checkpoint is continued.
  std::function<void(const std::string&)> tell = nullptr;
  std::function<void(const std::string& step, int64_t done, int64_t total)> progress = nullptr;
  std::stop_token stop = {};
};

/// Losses at one step of the run.
struct FineTunePoint {
  int64_t step = 0;
  double training = -1;  ///< mean of the steps since the last point; -1: none yet
  double held_out = 0;
};

struct FineTuneReport {
  int64_t steps = 0;       ///< done
  int64_t best_step = 0;   ///< whose weights the model has; 0: as it came
  int64_t parameters = 0;  ///< numbers that were trained
  int64_t training_samples = 0, held_out_samples = 0;
  int64_t batch = 0, stacked = 0;
  std::string why_not_stacked;  ///< stacked is 1
  bool with_labels = false;
  int64_t activations = 0;                 ///< inner values that the loss compares
  int64_t resumed_from = 0;                ///< step of a checkpoint
  double loss_before = 0, loss_after = 0;  ///< held-out
  std::vector<FineTunePoint> points;
  double seconds = 0;
  bool diverged = false;  ///< the loss became infinite or NaN; the best weights before it count
};

/// At least so many samples: every eighth is held out.
inline constexpr int64_t kFineTuneSamplesFrom = 16;

/// The samples that training uses, without those that it holds out: what may be fitted before it,
/// so that the held-out ones judge fairly.
Samples WithoutHeldOut(const Samples& samples);

/// Trains the constants of `model` that layers learn (TrainableConstants), and keeps those with the
/// least loss on held-out samples, every eighth; so the model is never worse there than it came.
/// Its interface is golden's. The same bits for a seed and any number of threads, with and without
/// an interruption. Memory: the model's weights six times, the gradient, and what one micro-batch
/// makes.
///
/// InvalidArgument: too few samples, samples of different extents, a damaged checkpoint.
/// Unsupported: nothing to train, no f32 output, an operator without a gradient; the message names
/// it. Cancelled: the stop token fired; the checkpoint is written. On failure `model` is as it
/// came.
Result<FineTuneReport> FineTune(Graph& model, const Graph& golden, const Samples& samples,
                                const Backend& backend, const FineTuneOptions& options);

}  // namespace infer
