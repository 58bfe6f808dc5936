#pragma once
/// Recipes: which accuracy algorithms run, in which order, decided by measurement. The calibration
/// samples are split: every fifth (at most 128; of few every third) is held out, the rest
/// calibrates and fits. A step is kept only when the error on the held-out samples falls; so a
/// recipe is never worse there than plain calibration. Of one sample or two none is held out:
/// SmoothQuant, whose scales are the ranges of samples, does not run, since those same samples
/// always judge well of it. One step makes files smaller instead, at a cost that is bounded:
/// weights of layers that compute in f32 are stored in 8 bits. Which layers compute in integers is
/// chosen by the task as far as the samples tell it, and paid for in time and bytes of a cost table
/// (choose_layers.h): no step hangs on what the machine does meanwhile.
///
/// Cost, in passes over the samples that fit, of which steps take at most 200; besides that, each
/// step compiles the model and runs the held-out samples once:
///   fast      calibration and one pass for bias correction
///   balanced  also 2 to 4 for equalization, 1 for SmoothQuant, and where the target is missed a
///             compilation and 4 samples for each layer, and two more rounds of that over those
///             that returned to f32
///   best      also one over 128 samples for each 256 MB of moments to round weights, and 25 over
///             32 samples for sequential bias correction
#include "quant/algorithm/static_rounding.h"
#include "quant/recipe/choose_layers.h"
#include "quant/scheme/quantize.h"

namespace infer {

enum class Recipe : uint8_t { kNone, kFast, kBalanced, kBest };
/// "none", "fast", "balanced", "best".
std::optional<Recipe> ParseRecipe(std::string_view text);

struct RecipeStep {
  std::string name;                    ///< "equalize", "bias-correction", ...
  std::string note;                    ///< what it did: "12 pairs"
  double db_before = 0, db_after = 0;  ///< SQNR of the mean noise over outputs, held-out samples
  bool kept = false;
  double seconds = 0;
};

struct RecipeReport {
  QuantizeReport quantization;
  std::vector<RecipeStep> steps;  ///< the first is plain calibration
  int64_t fit_samples = 0, held_out_samples = 0;
  /// Whether none of the held-out samples fitted anything: of fewer than 3 samples all do both.
  bool is_held_out = false;
  double seconds = 0;
  double work_seconds = 0;  ///< done, by the cost table: what RecipeOptions::max_seconds limits
  std::string cost_table;   ///< CostTable::name
  std::string basis;        ///< RecipeTarget::Basis
  ModelCost fused, cost;    ///< by the table: of the fused FP32 model, and of the result
  /// What layers were chosen from, the FP32 model first; empty with `fast`.
  std::vector<RecipeCandidate> candidates;
  bool weighed = false;  ///< the table knows the backend's kernels, so that time is a reason
  bool pays = true;      ///< by the table, and what it may be off by, no slower than FP32
  /// What scales per channel gain over one per weight tensor, where RecipeOptions asks; and whether
  /// the result has them.
  std::optional<double> channel_scales_db;
  bool channel_scales = false;
  /// The f32 graph that was rewritten: with the weights behind the result's codes.
  std::optional<Graph> prepared;
  /// SQNR of the result's worst output on the held-out samples. They chose the steps, so that other
  /// samples show less.
  double held_out_db = 0;
};

/// The gain in SQNR on the held-out samples for which a file's opset is raised: half of the noise.
inline constexpr double kChannelScalesDb = 3;

struct RecipeOptions {
  Recipe recipe = Recipe::kBalanced;
  QuantizeOptions quantize;
  /// Seconds of work by the cost table, not of a clock: steps that have not begun by then are left
  /// out, on a busy machine the same as on an idle one; a step that is under way ends.
  double max_seconds = 480;
  CostTable costs = CostTable::BuiltIn();
  FileReader reader = {};  ///< of tables of ONNX Runtime's kernels
  /// Of ONNX Runtime's kernels, beside `costs` of ours: of a file for nobody in particular, what it
  /// takes more than FP32 there counts, too (ChooseOptions::fused). Lives as long; nullptr: it does
  /// not.
  const CostTable* elsewhere = nullptr;
  bool always_weigh =
      false;  ///< time is a reason on every backend, not only where `costs` is of it
  /// Layers return to f32 until this holds; `best` asks for half of the flips, and 4 dB more where
  /// they are not counted, unless labels tell that no more than a quarter of `max_drop` is lost.
  /// The upper end of the interval of the noise must keep it, so that few or uneven held-out
  /// samples ask for more.
  RecipeTarget target;
  /// Values that products read are split in so many groups of columns with a scale each where that
  /// errs less (ColumnGroupOptions::groups); 1: one scale per value.
  int column_groups = 1;
  /// The scheme has one scale per weight tensor only because of the file's opset, which may be
  /// raised: scales per channel are tried, and taken where they gain kChannelScalesDb.
  bool may_have_channel_scales = false;
  /// How `best` rounds weights; of several rounders each layer takes what errs least. Empty: to
  /// nearest.
  std::vector<const CodeRounder*> rounders = {&CodeRounders().front()};
  /// Prunes the weights of the prepared model, once it is known which layers become integer; what
  /// is rounded then keeps its codes. It is fitted to the samples outside those held out, so that
  /// these tell what it costs. nullptr: nothing is pruned.
  FittedChange prune = nullptr;
  /// Whether the report gets `prepared`.
  bool keep_prepared = false;
  /// Told when a step begins.
  std::function<void(const std::string& name)> on_step = nullptr;
  /// Told, in steps that measure layers one by one, after each (SubsetOptions::progress).
  std::function<void(int64_t done, int64_t total)> on_layer = nullptr;
};

/// As QuantizeStatic, whose errors it has. Recipe::kNone is QuantizeStatic.
Result<RecipeReport> QuantizeByRecipe(Graph& g, const Samples& samples, const Backend& backend,
                                      const RecipeOptions& options = {});

}  // namespace infer
