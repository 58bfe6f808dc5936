/// --mode static: INT8 in QDQ form, ranges of activations from calibration data.
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/recipe/recipe.h"
#include "tools/infer_opt/quantize/calibration_flags.h"
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
            "No step of the recipe begins later than so many seconds");
    o.Choice("--rounding", &rounding_, {"gptq", "adaround", "both", "nearest"},
             "How --recipe best rounds weights; both: what errs less, by layer");
    o.Value("--embedding-groups", &recipe_options_.column_groups,
            "Scales per value that MatMul and Gemm read, by groups of columns, at most; 1: one");
    types_.Declare(o);
    o.Flag("--per-tensor", &per_tensor_, "One scale per weight tensor instead of per channel");
    o.Flag("--reduce-range", &reduce_range_, "7-bit weights, for processors without VNNI");
    o.Value("--keep-first", &recipe_options_.quantize.scheme.keep_first,
            "So many first layers stay FP32");
    o.Value("--keep-last", &recipe_options_.quantize.scheme.keep_last,
            "So many last layers stay FP32");
  }

  Result<QuantizeReport> Quantize(const QuantizeJob& job, Graph& g, Json& report) override {
    QuantizeOptions& options = recipe_options_.quantize;
    QuantScheme& s = options.scheme;
    s.per_channel = !per_tensor_;
    INFER_TRY(types_.Apply(job.format, s));
    s.weights.reduce_range = reduce_range_;
    s.include = job.include;
    s.exclude = job.exclude;
    INFER_TRY(job.flags.Apply(job, options));
    recipe_options_.recipe = *ParseRecipe(recipe_);
    recipe_options_.rounding.clear();
    if (rounding_ == "gptq" || rounding_ == "both")
      recipe_options_.rounding.push_back(CodeMethod::kGptq);
    if (rounding_ == "adaround" || rounding_ == "both")
      recipe_options_.rounding.push_back(CodeMethod::kAdaRound);
    recipe_options_.on_step = [&](const std::string& step) { job.context.Note("recipe: " + step); };
    INFER_ASSIGN(RecipeReport done,
                 QuantizeByRecipe(g, job.calibration, job.backend, recipe_options_));
    INFER_TRY(WriteFormat(job, g, done.quantization, report));
    if (recipe_options_.recipe == Recipe::kNone) return std::move(done.quantization);
    job.context.Print(Steps(done));
    report["recipe"] = ToJson(done);
    return std::move(done.quantization);
  }

 private:
  Json ToJson(const RecipeReport& r) const {
    Json j = {{"name", recipe_},
              {"fit_samples", r.fit_samples},
              {"held_out_samples", r.held_out_samples},
              {"seconds", r.seconds}};
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
               " judge, ", Rounded(r.seconds, 2), " s\n", TextTable(rows), "\n");
  }

  RecipeOptions recipe_options_;
  TypeFlags types_;
  std::string recipe_ = "balanced", rounding_ = "gptq";
  bool per_tensor_ = false, reduce_range_ = false;
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
