/// infer_model_quantize: what `infer-opt quantize` calls, with the options that it would have.
#include <initializer_list>
#include <limits>
#include <memory>
#include <utility>

#include "quant/algorithm/data_rounder.h"
#include "quant/convert/dynamic.h"
#include "quant/convert/narrow.h"
#include "quant/convert/qoperator.h"
#include "quant/convert/widen.h"
#include "quant/prune/joint.h"
#include "quant/recipe/recipe.h"
#include "quant/scheme/type_names.h"
#include "quant/weight_only/round.h"
#include "runtime/c_api/judge.h"
#include "runtime/c_api/samples.h"
#include "runtime/devices/devices.h"

namespace infer::c_api {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct QuantizeCall {
  const infer_quantize_options& options;
  Graph& graph;
  const Samples& samples;
  const Backend& backend;
  Told& told;
  infer_quantize_report report = {};
  JointPruning* pruning = nullptr;  ///< nullptr: no weight becomes zero
};

bool Prunes(const infer_quantize_options& o) { return o.sparsity != 0 || o.nm || o.blocks; }

/// Empty: nothing is pruned.
Result<std::unique_ptr<JointPruning>> PruningOf(const infer_quantize_options& o,
                                                const Backend& backend, Told& told) {
  if (!Prunes(o)) return std::unique_ptr<JointPruning>();
  if (o.nm && (o.sparsity != 0 || o.blocks))
    return InvalidArgument("nm says how many weights become zero: no sparsity, no blocks");
  PruneOptions p;
  if (o.nm) {
    INFER_ASSIGN(p.pattern, ParseNm(o.nm));
  } else if (o.blocks) {
    INFER_ASSIGN(p.pattern, ParseBlocks(o.blocks));
  }
  if (o.sparsity != 0) p.pattern.share = o.sparsity;
  if (Status s = CheckShare(p.pattern.share); !s.ok()) return std::move(s).In("sparsity");
  p.scope = {PatternsOf(o.include), PatternsOf(o.exclude)};
  p.threads = o.threads;
  p.progress = told.OfSteps();
  p.stop = told.stop();
  return std::make_unique<JointPruning>(std::move(p), backend);
}

Result<std::string> FormatOf(const char* given, std::string_view first, std::string_view second) {
  std::string format = Or(given, first);
  if (format == first || format == second) return format;
  return InvalidArgument(Cat("format '", format, "': ", first, " or ", second));
}

Status FillScheme(const infer_quantize_options& o, QuantScheme& s) {
  INFER_TRY(ChooseTypes(Or(o.activations, "u8"), Or(o.weights, "s8"), s));
  s.activations.symmetric = o.symmetric_activations != 0;
  s.weights.reduce_range = o.reduce_range != 0;
  s.per_channel = o.per_tensor == 0;
  s.keep_first = o.keep_first;
  s.keep_last = o.keep_last;
  s.include = PatternsOf(o.include);
  s.exclude = PatternsOf(o.exclude);
  return {};
}

Result<QuantizeReport> Static(QuantizeCall& c) {
  const infer_quantize_options& o = c.options;
  RecipeOptions r;
  INFER_ASSIGN(const std::string format, FormatOf(o.format, "qdq", "qoperator"));
  const auto recipe = ParseRecipe(Or(o.recipe, "balanced"));
  if (!recipe) return InvalidArgument(Cat("recipe '", o.recipe, "': none, fast, balanced or best"));
  r.recipe = *recipe;
  r.elsewhere = &CostTable::OfOnnxRuntime();  // nobody says who reads the file
  INFER_TRY(FillScheme(o, r.quantize.scheme));
  INFER_TRY(CheckFormat(format, r.quantize.scheme));
  INFER_ASSIGN(r.quantize.observer, ParseObserver(Or(o.observer, "auto")));
  r.quantize.threads = o.threads;
  r.quantize.stop = c.told.stop();
  r.quantize.progress = c.told.Of("calibrate");
  r.on_step = [&](const std::string& step) { c.told.Tell(step, 0, 0); };
  if (c.pruning) r.prune = c.pruning->Fitted();
  INFER_ASSIGN(RecipeReport done, QuantizeByRecipe(c.graph, c.samples, c.backend, r));
  if (format == "qoperator") INFER_TRY(ConvertToQOperator(c.graph, done.quantization).status());
  if (r.recipe == Recipe::kNone) return std::move(done.quantization);
  c.report.held_out_sqnr_db = done.held_out_db;
  if (done.weighed) {
    c.report.cost_us_before = done.fused.us;
    c.report.cost_us_after = done.cost.us;
  }
  return std::move(done.quantization);
}

Result<QuantizeReport> Dynamic(QuantizeCall& c) {
  DynamicOptions d;
  d.include = PatternsOf(c.options.include);
  d.exclude = PatternsOf(c.options.exclude);
  d.reduce_range = d.reduce_convolutions = c.options.reduce_range != 0;
  if (c.pruning) d.change = c.pruning->By(c.samples);
  return QuantizeDynamic(c.graph, d);
}

Result<QuantizeReport> WeightOnly(QuantizeCall& c) {
  const infer_quantize_options& o = c.options;
  WeightOnlyOptions w;
  INFER_ASSIGN(const std::string format, FormatOf(o.format, "nbits", "qdq"));
  w.scheme.format = format == "qdq" ? WeightFormat::kQdq : WeightFormat::kNBits;
  if (o.bits != 0) w.scheme.grid.bits = o.bits;
  if (o.block != 0) w.scheme.grid.block = o.block == -1 ? 0 : o.block;
  w.scheme.grid.symmetric = o.asymmetric == 0;
  w.scheme.include = PatternsOf(o.include);
  w.scheme.exclude = PatternsOf(o.exclude);
  w.accuracy_level = o.accuracy_level;
  w.stop = c.told.stop();
  w.progress = c.told.Of("quantize");
  HessianOptions data;
  data.threads = o.threads;
  data.stop = w.stop;
  data.progress = c.told.Of("calibrate");
  INFER_TRY(UseMethod(Or(o.method, "mse"), c.samples, c.backend, data, w));
  if (c.pruning) {
    INFER_ASSIGN(const BlockRounder others, RounderNamed(Or(o.method, "mse")));
    w.change = c.pruning->By(c.samples);
    w.rounder = [pruning = c.pruning, others](Graph&, const WeightPlan&) {
      return Result<BlockRounder>(pruning->Rounder(others));
    };
  }
  return QuantizeWeightOnly(c.graph, w);
}

Result<QuantizeReport> Narrow(QuantizeCall& c, DType to) {
  NarrowOptions n;
  n.to = to;
  n.include = PatternsOf(c.options.include);
  n.exclude = PatternsOf(c.options.exclude);
  n.threads = c.options.threads;
  n.stop = c.told.stop();
  n.progress = c.told.Of("check ranges");
  return NarrowFloats(c.graph, c.samples, c.backend, n);
}

struct Mode {
  std::string_view name;
  Result<QuantizeReport> (*run)(QuantizeCall&);
};
constexpr Mode kModes[] = {{"static", Static},
                           {"dynamic", Dynamic},
                           {"weight-only", WeightOnly},
                           {"fp16", [](QuantizeCall& c) { return Narrow(c, DType::kF16); }},
                           {"bf16", [](QuantizeCall& c) { return Narrow(c, DType::kBF16); }}};

Result<const Mode*> ModeNamed(const std::string& name) {
  std::vector<std::string> known;
  for (const Mode& m : kModes) {
    if (m.name == name) return &m;
    known.emplace_back(m.name);
  }
  return InvalidArgument(Cat("mode '", name, "': ", Join(known, ", ")));
}

/// An option of another mode would say nothing, and its caller would not know.
Status CheckOfMode(const infer_quantize_options& o, std::string_view mode) {
  const bool takes_format = mode == "static" || mode == "weight-only";
  if (o.format && !takes_format)
    return InvalidArgument(Cat("format: mode ", mode, " has one alone"));
  if (Prunes(o) && mode != "static" && mode != "dynamic" && mode != "weight-only")
    return InvalidArgument(Cat("sparsity, nm and blocks: mode ", mode, " has no pruning"));
  const auto check = [&](std::string_view of,
                         std::initializer_list<std::pair<std::string_view, bool>> given) -> Status {
    for (const auto& [name, is_given] : given)
      if (is_given && mode != of)
        return InvalidArgument(Cat(name, " is an option of mode ", of, ", not of ", mode));
    return {};
  };
  INFER_TRY(check("static", {{"recipe", o.recipe != nullptr},
                             {"observer", o.observer != nullptr},
                             {"activations", o.activations != nullptr},
                             {"weights", o.weights != nullptr},
                             {"symmetric_activations", o.symmetric_activations != 0},
                             {"per_tensor", o.per_tensor != 0},
                             {"reduce_range", o.reduce_range != 0},
                             {"keep_first", o.keep_first != 0},
                             {"keep_last", o.keep_last != 0}}));
  return check("weight-only", {{"bits", o.bits != 0},
                               {"block", o.block != 0},
                               {"asymmetric", o.asymmetric != 0},
                               {"accuracy_level", o.accuracy_level != 0},
                               {"method", o.method != nullptr}});
}

/// "balanced"; "" in a mode without recipes. Not the caller's memory.
const char* NameOfRecipe(const char* recipe, const Mode& mode) {
  if (mode.run != Static) return "";
  for (const char* name : {"none", "fast", "best"})
    if (recipe && std::string_view(recipe) == name) return name;
  return "balanced";
}

/// Rewrites the call's graph, and returns the warnings.
Result<std::vector<std::string>> Rewrite(const Mode& mode, QuantizeCall& call) {
  call.report.held_out_sqnr_db = kUnknown;
  call.report.cost_us_before = call.report.cost_us_after = kUnknown;
  const bool narrows = mode.name == "fp16" || mode.name == "bf16";
  if (!narrows && HasHalfLayers(call.graph)) INFER_TRY(WidenFloats(call.graph));
  INFER_ASSIGN(QuantizeReport done, mode.run(call));
  INFER_TRY(call.told.Check());
  call.report.integer_layers = done.integer_layers;
  call.report.quantizable_layers = done.quantizable_layers;
  call.report.weight_bytes_before = done.weight_bytes_before;
  call.report.weight_bytes_after = done.weight_bytes_after;
  call.report.calibration_samples = done.calibration_samples;
  call.report.recipe = NameOfRecipe(call.options.recipe, mode);
  return std::move(done.warnings);
}

/// Recipes to try, in this order; only one where the caller chose, or nobody judges.
std::vector<const char*> RecipesOf(const infer_quantize_options& o, const Mode& mode) {
  if (mode.run == Static && o.evaluate && !o.recipe) return {"fast", "balanced", "best"};
  return {o.recipe};
}

/// `refused`: no candidate kept the gate.
Status QuantizeHandle(infer_model& model, const infer_quantize_options* given,
                      infer_quantize_report* report, bool& refused) {
  constexpr size_t kLeast = offsetof(infer_quantize_options, mode) + sizeof(given->mode);
  INFER_ASSIGN(auto o, OptionsOf(given, kLeast, "infer_quantize_options"));
  INFER_TRY(CheckReport(report, "infer_quantize_report"));
  INFER_ASSIGN(const Mode* mode, ModeNamed(Or(o.mode, kModes[0].name)));
  INFER_TRY(CheckOfMode(o, mode->name));
  if (o.threads < 0 || o.keep_first < 0 || o.keep_last < 0)
    return InvalidArgument("threads, keep_first and keep_last are not negative");
  INFER_ASSIGN(const Samples samples, SamplesOf(o.calibration, model.model.graph));
  INFER_ASSIGN(const auto backend, MakeBackend(Or(o.device, "cpu")));
  Told told(o.progress, o.user);
  Judge judge(o.evaluate, o.user, o.max_drop, o.device, o.threads);
  INFER_TRY(judge.Begin(model.model.graph));
  for (const char* recipe : RecipesOf(o, *mode)) {
    o.recipe = recipe;
    Graph graph = model.model.graph.Clone();
    INFER_ASSIGN(const auto pruning, PruningOf(o, *backend, told));
    QuantizeCall call{o, graph, samples, *backend, told, {}, pruning.get()};
    INFER_ASSIGN(const std::vector<std::string> warnings, Rewrite(*mode, call));
    const std::string_view name = *call.report.recipe ? call.report.recipe : mode->name;
    INFER_ASSIGN(const bool taken, judge.Takes(std::string(name), graph));
    if (!taken) continue;
    call.report.golden_metric = judge.golden();
    call.report.candidate_metric = judge.candidate();
    model.Take(std::move(graph), warnings);
    WriteReport(call.report, report);
    return {};
  }
  refused = true;
  return judge.Refusal();
}

}  // namespace
}  // namespace infer::c_api

infer_code infer_model_quantize(infer_model* model, const infer_quantize_options* options,
                                infer_quantize_report* report) {
  return infer::c_api::GuardedByGate([&](bool& refused) {
    return model ? infer::c_api::QuantizeHandle(*model, options, report, refused)
                 : infer::InvalidArgument("model is NULL");
  });
}
