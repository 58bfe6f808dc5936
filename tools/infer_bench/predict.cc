/// infer-bench predict: what a model would take on a machine that `machine` has measured, without
/// running it; with --measure also what it takes here, and by how much the prediction errs.
#include <cmath>

#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/bench/machine_watch.h"
#include "tools/bench/precision.h"
#include "tools/bench/session.h"
#include "tools/common/profile.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/predict/recommend.h"

namespace infer {
namespace {

using namespace bench;  // NOLINT(google-build-using-namespace): the command is a part of it

struct Measured {
  Distribution latency;
  std::optional<ModelProfile> profile;
  /// Fixed arithmetic took here, beside the runs, over what it took when the profile was measured.
  double slowdown = 1;
};

struct ModelResult {
  std::string path;
  Json model;
  OpenExtents extents;
  PlanFacts plan;
  Prediction prediction;
  std::optional<Measured> measured;
  /// predicted / measured - 1.
  double error() const { return prediction.ms / measured->latency.median - 1; }
  /// Of the prediction at the speed that the processor had while the model was measured.
  double scaled_error() const {
    return measured->slowdown * prediction.ms / measured->latency.median - 1;
  }
};

/// Models by how long they run: small ones are launches more than work.
struct SizeClass {
  const char* name;
  double below_ms;
};
constexpr SizeClass kSizes[] = {
    {"below 0.1 ms", 0.1}, {"0.1 to 1 ms", 1}, {"1 ms and more", 1e300}};

Json SummaryOf(std::vector<double> errors) {
  if (errors.empty()) return {{"models", 0}, {"median_error", nullptr}, {"p90_error", nullptr}};
  return {{"models", errors.size()},
          {"median_error", Quantile(errors, 0.5)},
          {"p90_error", Quantile(errors, 0.9)}};
}

Json Summary(const std::vector<ModelResult>& results) {
  std::vector<double> all, scaled;
  for (const ModelResult& r : results)
    if (r.measured) {
      all.push_back(std::abs(r.error()));
      scaled.push_back(std::abs(r.scaled_error()));
    }
  Json summary = SummaryOf(all);
  summary["scaled"] = SummaryOf(scaled);
  summary["by_size"] = Json::array();
  double from = 0;
  for (const SizeClass& size : kSizes) {
    std::vector<double> errors;
    for (const ModelResult& r : results)
      if (r.measured && r.measured->latency.median >= from &&
          r.measured->latency.median < size.below_ms)
        errors.push_back(std::abs(r.error()));
    Json of = SummaryOf(errors);
    of["size"] = size.name;
    summary["by_size"].push_back(std::move(of));
    from = size.below_ms;
  }
  return summary;
}

Json LayersJson(const ModelResult& r, const Roofline& machine) {
  Json layers = Json::array();
  for (size_t s = 0; s < r.plan.steps.size(); ++s) {
    const StepFacts& facts = r.plan.steps[s];
    const StepPrediction& p = r.prediction.steps[s];
    Json amounts = Json::object();
    if (!p.family.empty() && p.family != kBodies) {
      const StepFeatures f = FeaturesOf(facts, r.plan.program_bytes(), machine);
      for (size_t c = 0; c < kNumColumns; ++c)
        if (f.x[c] > 0) amounts[kColumns[c]] = f.x[c];
    }
    const bool profiled = r.measured && r.measured->profile;
    layers.push_back({{"node", facts.info.node},
                      {"op", facts.info.op},
                      {"kernel", facts.info.kernel},
                      {"precision", facts.info.precision},
                      {"family", p.family},
                      {"generality", p.generality},
                      {"extrapolated", p.extrapolated},
                      {"predictable", !facts.late || p.family == kBodies},
                      {"ms", p.ms},
                      {"measured_ms", profiled ? Json(r.measured->profile->steps[s].ms) : Json()},
                      {"cost", ToJson(facts.info.cost)},
                      {"amounts", std::move(amounts)}});
  }
  return layers;
}

std::string Percent(double share) { return Fixed(100 * share, 1); }

class PredictCommand : public Command {
 public:
  std::string_view name() const override { return "predict"; }
  std::string_view help() const override {
    return "Predict latencies from a machine's profile, without a run";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench machine -o machine.json\n"
           "  infer-bench predict model.onnx --machine machine.json --threads 1 --layers\n"
           "  infer-bench predict model.onnx small.onnx --machine machine.json --recommend "
           "--within "
           "20 --precisions as-is,int8-dynamic\n"
           "  infer-bench predict *.onnx --machine machine.json --threads 1 --measure --json "
           "predict.json\n";
  }
  void Declare(Options& o) override {
    o.Positional("models", &paths_, "ONNX models", true, PathUse::kRead);
    o.Value("--machine", &machine_, "What `infer-bench machine` wrote", PathUse::kRead);
    session_.Declare(o);
    o.Section("Options");
    o.Value("--batch", &session_.batch,
            "Of the leading dimension of the inputs; 0: as the model has it");
    o.Choice("--precision", &session_.precision, PrecisionNames(),
             "Converted on the way, as by `run`");
    o.Flag("--layers", &layers_, "Table of the steps, the longest first");
    o.Flag("--recommend", &recommend_,
           "Which batch, lanes, variant (of the models named) and precision give more samples/s, "
           "by predictions");
    o.Value("--within", &grid_.within_ms, "Of --recommend: ms that a run may take; 0: any");
    o.Values("--batches", &grid_.batches, "Of --recommend. Default: 1,2,4,8,16");
    o.Values("--precisions", &grid_.precisions,
             "Of --recommend; the first is now's. Default: as --precision says");
    o.Flag("--measure", &measure_, "Measure here, too, and tell the error");
    o.Value("--min-time", &sampling_.min_time_s,
            "With --measure: at least so many seconds of timed runs of a model");
  }

  Result<ExitCode> Run(Context& context) override {
    if (const std::string& device = session_.device.device; device != DeviceOptions().device)
      return Unsupported(Cat("--device ", device, ": a profile of `infer-bench machine` is of the ",
                             DeviceOptions().device,
                             " alone, and tells nothing of this device; `infer-bench run --device ",
                             device, "` measures on it"));
    if (machine_.empty())
      return InvalidArgument("--machine FILE is missing: `infer-bench machine -o FILE` writes it");
    INFER_TRY(CheckPrecision(session_.precision));
    INFER_TRY(CheckGrid());
    INFER_ASSIGN(profile_, ReadProfile(machine_));
    threads_ = session_.device.threads > 0 ? session_.device.threads : AvailableCores();
    WarnOfOtherMachine(context);
    sampling_.stop = context.stop();
    std::vector<ModelResult> results;
    for (size_t i = 0; i < paths_.size() && !context.stop().stop_requested(); ++i) {
      context.Progress("predict", static_cast<int64_t>(i), static_cast<int64_t>(paths_.size()));
      auto result = One(context, paths_[i]);
      if (!result.ok()) return result.status().In(paths_[i]);
      results.push_back(*std::move(result));
    }
    context.Progress("predict", static_cast<int64_t>(paths_.size()),
                     static_cast<int64_t>(paths_.size()));
    return Finish(context, results);
  }

 private:
  Status CheckGrid() {
    if (!recommend_ && (grid_.within_ms > 0 || !grid_.batches.empty() || !grid_.precisions.empty()))
      return InvalidArgument("--within, --batches and --precisions go with --recommend");
    if (!recommend_) return {};
    if (session_.batch > 0 || measure_ || layers_ || !session_.inputs.input.empty())
      return InvalidArgument(
          "--recommend predicts for several batches: no --batch, --measure, --layers, --input");
    if (!grid_.precisions.empty() && session_.precision != kAsIs)
      return InvalidArgument("--precision or --precisions, not both");
    if (grid_.precisions.empty()) grid_.precisions = {session_.precision};
    if (grid_.batches.empty()) grid_.batches = {"1", "2", "4", "8", "16"};
    grid_.paths = paths_;
    return {};
  }

  void WarnOfOtherMachine(Context& context) const {
    const HostFacts host = GetHostFacts();
    if (profile_.isa != host.isa)
      context.Warn(Cat(machine_, " is of a machine with ", profile_.isa,
                       "; kernels are chosen for this one, with ", host.isa,
                       ": families may be missing"));
    if (profile_.cpu != host.cpu_model)
      context.Warn(Cat(machine_, " is of another processor: ", profile_.cpu));
  }

  Result<ModelResult> One(Context& context, const std::string& path) {
    ModelResult r;
    r.path = path;
    std::optional<Session> session;
    if (measure_ || !session_.inputs.input.empty()) {
      INFER_ASSIGN(session, OpenSession(context, path, session_));
      r.extents = session->inputs.extents;
    }
    context.Step("predict " + path);
    INFER_ASSIGN(Model model, LoadModel(context, path, session_.model));
    if (session_.batch > 0) INFER_TRY(SetBatch(model.graph, session_.batch));
    r.model = ToJson(model, path);
    INFER_ASSIGN(Graph known, Known(model.graph, session.has_value(), r.extents));
    if (session_.precision != kAsIs) {
      INFER_ASSIGN(auto backend, MakeBackend(session_.device.device));
      INFER_TRY(ConvertPrecision(known, session_.precision, *backend, context.stop()));
    }
    INFER_ASSIGN(PlannedModel planned, PlanModel(known, session_.device));
    r.plan = std::move(planned.facts);
    INFER_ASSIGN(r.prediction, Predict(r.plan, profile_, threads_));
    if (r.prediction.unpredictable > 0)
      context.Warn(Cat(path, ": ", r.prediction.unpredictable,
                       " steps cannot be predicted (shapes that hang on data) and count as "
                       "nothing"));
    if (r.prediction.counted_once > 0)
      context.Warn(Cat(path, ": at least: how often ", r.prediction.counted_once,
                       " bodies of loops run hangs on data, and they count once"));
    if (measure_) {
      context.Step("measure " + path);
      INFER_ASSIGN(r.measured, MeasureHere(path, *session, planned));
    }
    return r;
  }

  static Result<Graph> Known(const Graph& g, bool measured, OpenExtents& extents) {
    if (measured) return WithExtents(g, extents);
    Graph known = WithFoundExtents(g, &extents);
    if (HasOpenDims(known))
      return InvalidArgument(
          "no extents were found that its open dimensions accept: use --set or --shape");
    return known;
  }

  /// What was predicted is measured: the program with known extents, on the session's inputs.
  Result<Measured> MeasureHere(const std::string& path, const Session& session,
                               const PlannedModel& planned) const {
    INFER_ASSIGN(const auto run, planned.program->NewContext());
    for (size_t i = 0; i < session.inputs.values.size(); ++i)
      INFER_TRY(run->BindInput(i, session.inputs.values[i]));
    const double before_ms = SpinMs();
    INFER_ASSIGN(const Sampled sampled, Sample([&] { return run->Run(); }, sampling_));
    Measured m{.latency = Describe(sampled.samples.ms),
               .slowdown = (before_ms + SpinMs()) / 2 / profile_.spin_ms};
    if (layers_) {
      INFER_ASSIGN(m.profile, ProfileRuns(path, *planned.program, *run, sampling_.stop));
    }
    return m;
  }

  Result<ExitCode> Finish(Context& context, const std::vector<ModelResult>& results) {
    Json report = NewReport(context, "infer-bench/predict@1");
    report["machine"] = {{"path", machine_},
                         {"cpu", profile_.cpu},
                         {"isa", profile_.isa},
                         {"date", profile_.date},
                         {"git_revision", profile_.revision}};
    report["threads"] = threads_;
    report["batch"] = session_.batch;
    report["precision"] = session_.precision;
    report["results"] = Json::array();
    for (const ModelResult& r : results) {
      report["results"].push_back(ResultJson(r));
      if (layers_) ShowLayers(context, r);
    }
    report["recommendation"] = nullptr;
    if (recommend_) {
      INFER_ASSIGN(report["recommendation"],
                   RecommendByPrediction(context, grid_, session_, profile_));
    }
    report["summary"] = measure_ ? Summary(results) : Json();
    report["interrupted"] = context.stop().stop_requested();
    Show(context, results, report["summary"]);
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

  Json ResultJson(const ModelResult& r) const {
    const Prediction& p = r.prediction;
    Json json = {{"path", r.path},
                 {"model", r.model},
                 {"extents", r.extents},
                 {"predicted_ms", p.ms},
                 {"launches", r.plan.launches},
                 {"general_share", p.general_share},
                 {"extrapolated_share", p.extrapolated_share},
                 {"unpredictable_steps", p.unpredictable},
                 {"bodies_counted_once", p.counted_once},
                 {"measured_ms", r.measured ? Json(r.measured->latency.median) : Json()},
                 {"measured_runs", r.measured ? Json(r.measured->latency.count) : Json()},
                 {"error", r.measured ? Json(r.error()) : Json()},
                 {"slowdown", r.measured ? Json(r.measured->slowdown) : Json()},
                 {"scaled_error", r.measured ? Json(r.scaled_error()) : Json()}};
    if (layers_) json["layers"] = LayersJson(r, profile_.For(threads_)->roofline);
    return json;
  }

  static void ShowLayers(Context& context, const ModelResult& r) {
    std::vector<size_t> order;
    for (size_t s = 0; s < r.plan.steps.size(); ++s)
      if (!r.prediction.steps[s].family.empty()) order.push_back(s);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return r.prediction.steps[a].ms > r.prediction.steps[b].ms;
    });
    std::vector<std::vector<std::string>> rows = {
        {"node", "operator", "kernel", "predicted ms", "measured ms", "priced as"}};
    for (size_t s : order) {
      const StepFacts& facts = r.plan.steps[s];
      const StepPrediction& p = r.prediction.steps[s];
      const bool profiled = r.measured && r.measured->profile;
      const std::string priced = p.generality > 0 || p.family == kBodies ? p.family : "itself";
      rows.push_back({facts.info.node, ShownOperators(facts.info.op), facts.info.kernel,
                      Fixed(p.ms, 4), profiled ? Fixed(r.measured->profile->steps[s].ms, 4) : "-",
                      Cat(priced, p.extrapolated ? ", extrapolated" : "")});
    }
    context.PrintLine(Printable(r.path) + ":");
    context.Print(TextTable(std::move(rows)));
  }

  void Show(Context& context, const std::vector<ModelResult>& results, const Json& summary) const {
    std::vector<std::vector<std::string>> rows = {{"model", "predicted ms"}};
    if (measure_) rows[0].insert(rows[0].end(), {"measured ms", "error %", "slowdown", "scaled %"});
    rows[0].insert(rows[0].end(), {"general %", "extrapolated %", "not predicted"});
    for (const ModelResult& r : results) {
      std::vector<std::string>& row =
          rows.emplace_back(std::vector<std::string>{r.path, Rounded(r.prediction.ms, 3)});
      if (r.measured)
        row.insert(row.end(), {Rounded(r.measured->latency.median, 3), Percent(r.error()),
                               Fixed(r.measured->slowdown, 2), Percent(r.scaled_error())});
      row.insert(row.end(),
                 {Percent(r.prediction.general_share), Percent(r.prediction.extrapolated_share),
                  Cat(r.prediction.unpredictable)});
    }
    context.Print(TextTable(std::move(rows)));
    if (!measure_) return;
    const auto line = [&](const std::string& what, const Json& s) {
      if (s["models"] > 0)
        context.PrintLine(Cat(what, ": median |error| ", Percent(s["median_error"].get<double>()),
                              " %, p90 ", Percent(s["p90_error"].get<double>()), " % (",
                              s["models"].get<int64_t>(), " models)"));
    };
    line("all", summary);
    line("all, at the processor's speed of the measurement", summary["scaled"]);
    for (const Json& s : summary["by_size"]) line(s["size"].get<std::string>(), s);
  }

  std::vector<std::string> paths_;
  std::string machine_;
  SessionOptions session_;
  SamplingOptions sampling_{.min_time_s = 0.3, .max_warmup_s = 1};
  PredictedGrid grid_;
  bool layers_ = false, measure_ = false, recommend_ = false;
  int threads_ = 1;
  Profile profile_;
};

}  // namespace

std::unique_ptr<Command> MakePredictCommand() { return std::make_unique<PredictCommand>(); }

}  // namespace infer
