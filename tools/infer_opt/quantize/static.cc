/// --mode static: INT8 in QDQ form, ranges of activations from calibration data.
#include <cmath>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/prune/joint.h"
#include "quant/recipe/recipe.h"
#include "quant/target/target.h"
#include "quant/train/fine_tune_codes.h"
#include "tools/common/fine_tune_flags.h"
#include "tools/infer_opt/quantize/calibration_flags.h"
#include "tools/infer_opt/quantize/cost_table_file.h"
#include "tools/infer_opt/quantize/formats.h"

namespace infer {
namespace {

class StaticMode : public QuantizeMode {
 public:
  std::string_view name() const override { return "static"; }
  std::string_view help() const override { return "INT8 weights and activations, calibrated"; }
  bool needs_data() const override { return true; }
  std::vector<std::string_view> formats() const override { return {"qdq", "qoperator"}; }
  void Declare(Options& o) override {
    o.Choice(
        "--recipe", &recipe_, {"none", "fast", "balanced", "best"},
        "Accuracy algorithms, each kept where the error on held-out calibration samples falls");
    o.Value("--recipe-seconds", &recipe_options_.max_seconds,
            "No step of the recipe begins after so many seconds of work, by the cost table");
    o.Value("--cost-table", &cost_table_,
            "Prices by which layers in FP32 are weighed against INT8 (JSON); default: built in, "
            "with --target ort and its versions those of ONNX Runtime's kernels",
            PathUse::kRead);
    std::vector<std::string> roundings = {"nearest", "all"};
    for (const CodeRounder& r : CodeRounders()) roundings.emplace_back(r.name);
    o.Choice("--rounding", &rounding_, roundings,
             "How --recipe best rounds weights; all: what errs least, by layer");
    o.Value("--embedding-groups", &recipe_options_.column_groups,
            "Scales per value that MatMul and Gemm read, by groups of columns, at most; 1: one");
    types_.Declare(o);
    o.Flag("--per-tensor", &per_tensor_, "One scale per weight tensor instead of per channel");
    o.Value("--keep-first", &recipe_options_.quantize.scheme.keep_first,
            "So many first layers stay FP32");
    o.Value("--keep-last", &recipe_options_.quantize.scheme.keep_last,
            "So many last layers stay FP32");
  }

  Status CheckOpset(const QuantizeJob& job) override {
    const int64_t opset = job.opset_limit;
    const bool is_wide = types_.activations == "u16" || types_.activations == "s16";
    if (opset == 0) return {};
    if (is_wide && job.format != "qoperator" && opset < kWideOpset)
      return Unsupported(Cat("--activations ", types_.activations, " needs opset ", kWideOpset,
                             ", the file has ", opset, ": --opset ", kWideOpset));
    const std::string raised =
        Cat("--opset ", kScalesOpset, " raises it (ONNX Runtime 1.6 and newer read that)");
    if (opset < kQuantizeOpset)
      return Unsupported(Cat("the file's opset ", opset,
                             " has no QuantizeLinear, which came with opset ", kQuantizeOpset, ": ",
                             raised, "; --mode fp16 keeps it"));
    if (opset >= kScalesOpset) return {};
    has_channel_scales_ = false;
    if (per_tensor_) return {};
    per_tensor_ = true;
    recipe_options_.may_have_channel_scales = recipe_ != "none" && job.format != "qoperator" &&
                                              job.may_raise_to && job.may_raise_to(kScalesOpset);
    if (recipe_options_.may_have_channel_scales) return {};  // TellScales tells
    job.context.Note(Cat("opset ", opset, " has no scales per channel: one per weight tensor, ",
                         "which may cost accuracy; ", raised, " and has them"));
    return {};
  }

  Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json& report) override {
    QuantizeOptions& options = recipe_options_.quantize;
    QuantScheme& s = options.scheme;
    s.per_channel = !per_tensor_;
    s.has_channel_scales = has_channel_scales_;
    INFER_TRY(types_.Apply(job.format, s));
    s.weights.reduce_range = job.weight_range.Reduces(HasPairs(s) && job.for_ort);
    s.include = job.include;
    s.exclude = job.exclude;
    INFER_TRY(job.flags.Apply(job, options));
    recipe_options_.recipe = *ParseRecipe(recipe_);
    INFER_TRY(ChooseCosts(job));
    AimForGates(job.limits);
    recipe_options_.rounders.clear();
    for (const CodeRounder& r : CodeRounders())
      if (rounding_ == "all" || rounding_ == r.name) recipe_options_.rounders.push_back(&r);
    recipe_options_.on_step = [&](const std::string& step) { job.context.Note("recipe: " + step); };
    recipe_options_.on_layer = [&](int64_t done, int64_t total) {
      job.context.Progress("measure layers", done, total);
    };
    recipe_options_.keep_prepared = job.fine_tune != nullptr;
    std::optional<Graph> golden;
    if (job.fine_tune) golden.emplace(g.Clone());
    const Samples fit = job.fine_tune ? job.fine_tune->ToFit(job.calibration) : job.calibration;
    if (job.pruning) recipe_options_.prune = job.pruning->Fitted();
    INFER_ASSIGN(RecipeReport done, QuantizeByRecipe(g, fit, job.backend, recipe_options_));
    if (golden) INFER_TRY(Train(job, g, *golden, done, report));
    INFER_TRY(WriteFormat(job, g, done.quantization, report));
    WeightRangeFlags::TellSaturation(job.context,
                                     HasPairs(s) && !s.weights.reduce_range &&
                                         done.quantization.integer_layers > 0 &&
                                         !StoresWeightsOnly(done),
                                     IsForOthers(job), report);
    if (recipe_options_.recipe == Recipe::kNone) return std::move(done.quantization);
    job.context.Print(Steps(done));
    TellScales(job, done);
    report["recipe"] = ToJson(done);
    WarnOfCost(job.context, done);
    if (recipe_options_.costs.runtime != CostsOf::kOurs && done.fused.us > 0)
      told_time_ = ToldTime{done.cost.us / done.fused.us, done.cost_table};
    return std::move(done.quantization);
  }

  Worth worth() const override {
    return recipe_options_.recipe == Recipe::kBalanced ? Worth::kGated : Worth::kTold;
  }

  std::optional<ToldTime> told_time() const override { return told_time_; }

  bool can_fine_tune() const override { return true; }

  bool can_prune() const override { return true; }

  bool has_weight_range() const override { return true; }

  int64_t least_opset() const override { return kQuantizeOpset; }
  int64_t raised_opset() const override { return raised_opset_; }

 private:
  /// Products of uint8 and int8, which ONNX Runtime adds in pairs of 16 bits on processors without
  /// VNNI.
  static bool HasPairs(const QuantScheme& s) {
    return s.activations.dtype == DType::kU8 && s.weights.dtype == DType::kI8;
  }

  /// A file for ONNX Runtime is weighed by what ONNX Runtime's kernels take, one for nobody in
  /// particular by that, too.
  Status ChooseCosts(const QuantizeJob& job) {
    recipe_options_.reader = {job.for_ort ? job.target : nullptr, job.opset_limit};
    if (!cost_table_.empty()) {
      if (!job.for_ort && job.backend.name() != "cpu")
        job.context.Warn(
            Cat("--cost-table has prices of the CPU's kernels, which decide nothing on ",
                job.backend.name()));
      INFER_ASSIGN(recipe_options_.costs, ReadCostTable(cost_table_));
    } else if (job.for_ort) {
      recipe_options_.costs = CostTable::OfOnnxRuntime();
    }
    const bool for_anyone = !job.target && recipe_options_.costs.runtime == CostsOf::kOurs;
    recipe_options_.elsewhere = for_anyone ? &CostTable::OfOnnxRuntime() : nullptr;
    return {};
  }

  Status Train(const QuantizeJob& job, Graph& g, const Graph& golden, RecipeReport& done,
               Json& report) const {
    if (done.quantization.integer_layers == 0) return {};  // the command says that there are none
    FineTuneOptions o = job.fine_tune->Request(job.context, job.seed, job.threads);
    job.context.Step("fine-tune");
    INFER_ASSIGN(const CodesReport trained, FineTuneCodes(g, done.quantization, *done.prepared,
                                                          recipe_options_.quantize.scheme.weights,
                                                          golden, job.calibration, job.backend, o));
    done.prepared.reset();
    Json& j = report["fine_tuning"] = TellFineTuning(job.context, trained.training, o);
    j["codes"] = trained.codes;
    j["changed_codes"] = trained.changed;
    j["scales"] = trained.scales;
    return {};
  }

  void TellScales(const QuantizeJob& job, const RecipeReport& r) {
    if (!r.channel_scales_db) return;
    const std::string gain =
        Cat(Rounded(std::abs(*r.channel_scales_db), 3), " dB on the held-out samples");
    if (r.channel_scales) {
      raised_opset_ = kScalesOpset;
      job.context.PrintLine(Cat("opset ", kScalesOpset, " instead of the model's ", job.opset_limit,
                                ": its scales per channel of weights gain ", gain, "; --opset ",
                                job.opset_limit, " keeps it\n"));
    } else {
      job.context.PrintLine(Cat("opset ", job.opset_limit,
                                " has one scale per weight tensor; those per channel (--opset ",
                                kScalesOpset, ") would ",
                                *r.channel_scales_db < 0 ? "lose " : "gain ", gain, "\n"));
    }
  }

  /// What the user's gates ask for is what the recipe aims for.
  void AimForGates(const GateLimits& limits) {
    RecipeTarget& target = recipe_options_.target;
    if (limits.max_drop) target.max_drop = std::max(*limits.max_drop, 0.0);
    if (limits.min_agreement) {
      target.task_flips = 1 - *limits.min_agreement;
      target.asks_classes = true;
    }
    if (limits.min_sqnr_db) {
      target.by_task = false;
      target.db = *limits.min_sqnr_db + kBeyondGateDb;
    }
  }

  static bool StoresWeightsOnly(const RecipeReport& r) {
    return std::any_of(r.candidates.begin(), r.candidates.end(),
                       [](const RecipeCandidate& c) { return c.chosen && c.name == "weights"; });
  }

  static void WarnOfCost(Context& context, const RecipeReport& r) {
    if (!r.weighed) return;
    const std::string by = Cat("by the cost table (", r.cost_table, ")");
    if (const RecipeCandidate* faster = LostElsewhere(r))
      context.Warn(
          Cat("INT8 takes ", Share(faster->cost.elsewhere_us, r.fused.elsewhere_us),
              " of FP32's time in ONNX Runtime (here ", Share(faster->cost.us, r.fused.us),
              "), by cost tables. Without --target the file is for either of them, so that "
              "it computes in FP32 and only stores its weights in 8 bits; --target infer "
              "writes INT8"));
    else if (StoresWeightsOnly(r))
      context.Warn(Cat("INT8 gains no time for sure ", by,
                       ": the result computes in FP32 and only stores its weights in 8 bits. The "
                       "fused FP32 file (infer-opt fuse) is as fast, and exact"));
    else if (!r.pays || r.cost.us > r.fused.us * kSlower)
      context.Warn(Cat(by, " INT8 gains no time for sure: the result takes ",
                       Rounded(r.cost.us / r.fused.us, 3),
                       " of the time of the fused FP32 file (infer-opt fuse), which is exact"));
    if (IsSlowElsewhere(r))
      context.Warn(Cat("ONNX Runtime takes ",
                       Rounded(r.cost.elsewhere_us / r.fused.elsewhere_us, 3),
                       " of the FP32 file's time for this one by its cost table; --target ort "
                       "weighs layers by that alone, --target infer not at all"));
  }

  static std::string Share(double a, double b) { return b > 0 ? Cat(Rounded(a / b, 3)) : "-"; }

  /// Where weights alone are stored: the fastest in INT8 here that ONNX Runtime alone stands
  /// against.
  static const RecipeCandidate* LostElsewhere(const RecipeReport& r) {
    if (!StoresWeightsOnly(r) || r.fused.elsewhere_us <= 0) return nullptr;
    const RecipeCandidate* best = nullptr;
    for (const RecipeCandidate& c : r.candidates)
      if (c.holds && c.int8_layers > 0 && c.cost.us < r.fused.us &&
          c.cost.elsewhere_us > r.fused.elsewhere_us && (!best || c.cost.us < best->cost.us))
        best = &c;
    return best;
  }

  /// Surely: by more than the table errs by.
  static bool IsSlowElsewhere(const RecipeReport& r) {
    return r.cost.elsewhere_us * CostTable::OfOnnxRuntime().sure > r.fused.elsewhere_us &&
           r.fused.elsewhere_us > 0 && !StoresWeightsOnly(r);
  }

  static constexpr double kSlower = 1.02;

  static Json CostJson(const ModelCost& c) {
    return {{"us", c.us}, {"bytes", c.bytes}, {"onnxruntime_us", Elsewhere(c)}};
  }
  static Json Elsewhere(const ModelCost& c) {
    return c.elsewhere_us > 0 ? Json(c.elsewhere_us) : Json();
  }

  Json ToJson(const RecipeReport& r) const {
    Json j = {{"name", recipe_},
              {"fit_samples", r.fit_samples},
              {"held_out_samples", r.held_out_samples},
              {"is_held_out", r.is_held_out},
              {"held_out_sqnr_db", JsonNumber(r.held_out_db)},
              {"seconds", r.seconds},
              {"work_seconds", r.work_seconds},
              {"basis", r.basis},
              {"weighed", r.weighed},
              {"pays", r.pays},
              {"channel_scales", r.channel_scales},
              {"channel_scales_db", r.channel_scales_db ? Json(*r.channel_scales_db) : Json()},
              {"cost_table", infer::ToJson(recipe_options_.costs)},
              {"fused_fp32", CostJson(r.fused)},
              {"cost", CostJson(r.cost)}};
    j["candidates"] = Json::array();
    for (const RecipeCandidate& c : r.candidates)
      j["candidates"].push_back({{"name", c.name},
                                 {"us", c.cost.us},
                                 {"bytes", c.cost.bytes},
                                 {"onnxruntime_us", Elsewhere(c.cost)},
                                 {"sqnr_db", JsonNumber(c.sqnr_db)},
                                 {"drop", c.drop},
                                 {"flips", c.flips},
                                 {"int8_layers", c.int8_layers},
                                 {"holds", c.holds},
                                 {"chosen", c.chosen}});
    j["steps"] = Json::array();
    for (const RecipeStep& s : r.steps)
      j["steps"].push_back({{"name", s.name},
                            {"note", s.note},
                            {"sqnr_db_before", JsonNumber(s.db_before)},
                            {"sqnr_db_after", JsonNumber(s.db_after)},
                            {"kept", s.kept},
                            {"seconds", s.seconds}});
    return j;
  }

  std::string Steps(const RecipeReport& r) const {
    std::vector<std::vector<std::string>> rows = {
        {"step", "what", "dB before", "dB after", "kept", "s"}};
    for (const RecipeStep& s : r.steps)
      rows.push_back({s.name, s.note, Cat(Rounded(s.db_before, 3)), Cat(Rounded(s.db_after, 3)),
                      s.kept ? "yes" : "no", Cat(Rounded(s.seconds, 2))});
    return Cat("recipe ", recipe_, ": ", r.fit_samples, " samples fit, ", r.held_out_samples,
               " judge, ", Rounded(r.seconds, 2), " s\n", TextTable(rows), "\n", Candidates(r));
  }

  /// What was weighed against what, where there was a choice.
  static std::string Candidates(const RecipeReport& r) {
    if (r.candidates.size() < 3) return "";
    // Where a device was named no table knows its time.
    const std::string by = r.weighed ? Cat("by the cost table (", r.cost_table, "), ") : "";
    std::vector<std::vector<std::string>> rows = {{"candidate", "int8 layers", "of FP32's time",
                                                   "of its bytes", "dB", "drop %", "holds",
                                                   "chosen"}};
    const bool is_for_anyone = r.fused.elsewhere_us > 0;
    constexpr size_t kElsewhere = 3;  // the column, where there is one
    if (is_for_anyone) rows[0].insert(rows[0].begin() + kElsewhere, "in ONNX Runtime");
    for (const RecipeCandidate& c : r.candidates) {
      rows.push_back({c.name, Cat(c.int8_layers), r.weighed ? Share(c.cost.us, r.fused.us) : "-",
                      Share(static_cast<double>(c.cost.bytes), static_cast<double>(r.fused.bytes)),
                      std::isfinite(c.sqnr_db) ? Cat(Rounded(c.sqnr_db, 3)) : "-",
                      Cat(Rounded(100 * c.drop, 2)), c.holds ? "yes" : "no",
                      c.chosen ? "yes" : ""});
      if (is_for_anyone)
        rows.back().insert(rows.back().begin() + kElsewhere,
                           Share(c.cost.elsewhere_us, r.fused.elsewhere_us));
    }
    return Cat(by, "judged by ", r.basis, ":\n", TextTable(rows), "\n");
  }

  static constexpr double kBeyondGateDb = 1;
  static constexpr int64_t kQuantizeOpset = 10, kScalesOpset = 13, kWideOpset = 21;

  RecipeOptions recipe_options_;
  TypeFlags types_;
  std::string recipe_ = "balanced", rounding_ = "gptq", cost_table_;
  bool per_tensor_ = false, has_channel_scales_ = true;
  int64_t raised_opset_ = 0;
  std::optional<ToldTime> told_time_;
};

}  // namespace

std::unique_ptr<QuantizeMode> MakeStaticMode() { return std::make_unique<StaticMode>(); }

std::vector<std::unique_ptr<QuantizeMode>> QuantizeModes() {
  std::vector<std::unique_ptr<QuantizeMode>> modes;
  modes.push_back(MakeStaticMode());
  modes.push_back(MakeWeightOnlyMode());
  modes.push_back(MakeMixedMode());
  for (auto& mode : MakeNarrowModes()) modes.push_back(std::move(mode));
  modes.push_back(MakeDynamicMode());
  return modes;
}

}  // namespace infer
