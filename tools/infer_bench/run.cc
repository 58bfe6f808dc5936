/// infer-bench run: load, compile, first and steady times of models, with the spread that belongs
/// to them, and what each step costs.
#include <algorithm>
#include <chrono>

#include "lib/ir/eval.h"
#include "lib/support/measure.h"
#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/host.h"
#include "tools/common/input_values.h"
#include "tools/common/model_options.h"
#include "tools/common/profile.h"
#include "tools/common/report.h"
#include "tools/infer_bench/commands.h"

namespace infer {
namespace {

constexpr double kQuantiles[] = {0.5, 0.9, 0.95, 0.99, 0.999};

double TimedMs(const std::function<Status()>& f, Status* status) {
  const auto start = std::chrono::steady_clock::now();
  *status = f();
  return MsSince(start);
}

/// Samples per inference: the leading extent of the first input.
int64_t BatchOf(std::span<const Datum> inputs) {
  if (inputs.empty() || !inputs[0].is_tensor() || inputs[0].tensor().rank() == 0) return 1;
  return inputs[0].tensor().dim(0);
}

std::string QuantileName(double q) {
  std::string digits = Fixed(q * 100, 1);
  if (digits.ends_with(".0")) digits.resize(digits.size() - 2);
  return "p" + digits;
}

class BenchRunCommand : public Command {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view help() const override { return "Measure the latency of one or more models"; }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench run model.onnx --threads 1\n"
           "  infer-bench run fp32.onnx int8.onnx --set batch=8 --json bench.json\n"
           "  infer-bench run model.onnx --layers --trace trace.json\n";
  }
  void Declare(Options& o) override {
    o.Positional("models", &paths_, "ONNX models", true, PathUse::kRead);
    model_.Declare(o);
    device_.Declare(o);
    inputs_.Declare(o);
    o.Value("--min-runs", &measure_.min_runs, "At least so many timed runs", 1);
    o.Value("--min-time", &measure_.min_time_s, "At least so many seconds of timed runs");
    o.Value("--max-time", &measure_.max_time_s, "At most so many seconds of timed runs");
    o.Value("--warmup", &measure_.fixed_warmup_runs,
            "Exactly so many warm-up runs; -1: until stable", -1);
    profile_.Declare(o);
  }

  Result<ExitCode> Run(Context& context) override {
    if (measure_.max_time_s <= 0) return InvalidArgument("--max-time: more than 0");
    measure_.stop = context.stop();
    const HostFacts host = GetHostFacts();
    if (host.build_type != "release") context.Warn("this is a debug build");
    if (host.load_1min > 0.5 * host.logical_cpus)
      context.Warn(Cat("the machine is busy: load ", Fixed(host.load_1min, 2)));
    Json report = NewReport(context, "infer-bench/run@1");
    report["device"] = device_.device;
    report["results"] = Json::array();
    std::vector<std::vector<std::string>> rows = {{"model", "median ms", "+-MAD", "p90", "p99",
                                                   "runs", "load", "compile", "first", "samples/s",
                                                   "peak MB"}};
    for (const std::string& path : paths_) {
      auto entry = BenchOne(context, path, rows);
      if (!entry.ok()) return entry.status().In(path);
      report["results"].push_back(*std::move(entry));
      if (context.stop().stop_requested()) break;
    }
    report["threads"] = LaneBudget();
    report["interrupted"] = context.stop().stop_requested();
    context.Print(TextTable(rows));
    // Last, since it takes memory that the models' own would be mixed up with.
    std::vector<Json*> reports;
    for (size_t i = 0; i < profiles_.size(); ++i) reports.push_back(&report["results"][i]);
    INFER_TRY(ShowProfiles(context, profile_, profiles_, reports));
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  Result<Json> BenchOne(Context& context, const std::string& path,
                        std::vector<std::vector<std::string>>& rows) {
    context.Step("load " + path);
    std::optional<Model> model;
    Status status;
    const double load_ms = TimedMs(
        [&]() -> Status {
          INFER_ASSIGN(model, LoadModel(context, path, model_));
          return {};
        },
        &status);
    INFER_TRY(std::move(status));
    // On reference kernels: a run on the device would warm up what is to be measured.
    INFER_ASSIGN(const ModelInputs inputs,
                 MakeInputs(model->graph, inputs_, [&](const std::vector<Datum>& values) {
                   return Evaluate(model->graph, values);
                 }));
    if (!inputs.random.empty()) context.Note(Cat(path, ": ", inputs.ToString(inputs_.seed)));
    const Json shown_model = ToJson(*model, path);
    std::shared_ptr<const Program> program;
    std::unique_ptr<RunContext> run;
    context.Step("compile " + path);
    const double compile_ms = TimedMs(
        [&]() -> Status {
          INFER_ASSIGN(program, CompileOwnedFor(std::move(model->graph), device_));
          INFER_ASSIGN(run, program->NewContext());
          return {};
        },
        &status);
    INFER_TRY(std::move(status));
    const int64_t compiled_bytes = ResidentBytes();
    for (size_t i = 0; i < inputs.values.size(); ++i)
      INFER_TRY(run->BindInput(i, inputs.values[i]));

    context.Step("measure " + path);
    INFER_ASSIGN(Measurement m, Measure([&] { return run->Run(); }, measure_));
    if (!m.stable && measure_.fixed_warmup_runs < 0 && !m.interrupted)
      context.Warn(Cat(path, ": times had not settled when the warm-up ended"));
    const Summary s = Summarize(m.samples_ms);
    const int64_t batch = BatchOf(inputs.values);
    Json entry = {{"model", shown_model}, {"batch", batch}};
    entry["random_inputs"] = inputs.random;
    entry["extents"] = inputs.extents;
    entry["seed"] = inputs_.seed;
    entry["load_ms"] = load_ms;
    entry["compile_ms"] = compile_ms;
    entry["first_ms"] = m.first_ms;
    entry["warmup_runs"] = m.warmup_runs;
    entry["stable"] = m.stable;
    entry["interrupted"] = m.interrupted;
    entry["latency_ms"] = ToJson(s);
    for (double q : kQuantiles)
      if (!m.samples_ms.empty() && QuantileSupported(s.count, q))
        entry["latency_ms"][QuantileName(q)] = Quantile(m.samples_ms, q);
    entry["throughput_per_s"] =
        s.median > 0 ? Json(1000.0 * static_cast<double>(batch) / s.median) : Json();
    entry["samples_ms"] = m.samples_ms;
    entry["memory"] = ToJson(run->memory());
    entry["memory"]["compiled_resident_bytes"] = compiled_bytes;
    entry["memory"]["resident_bytes"] = ResidentBytes();
    entry["memory"]["peak_resident_bytes"] = PeakResidentBytes();
    if (profile_.wanted() || !context.json_path.empty()) {
      context.Step("profile " + path);
      INFER_ASSIGN(ModelProfile profile, ProfileRuns(path, *program, *run, context.stop()));
      AddTo(entry, profile);
      profiles_.push_back(std::move(profile));
    }

    const auto quantile = [&](double q) {
      return QuantileSupported(s.count, q) ? Fixed(Quantile(m.samples_ms, q), 3) : "-";
    };
    rows.push_back({path, Fixed(s.median, 3), Fixed(s.mad, 3), quantile(0.9), quantile(0.99),
                    Cat(s.count), Fixed(load_ms, 1), Fixed(compile_ms, 1), Fixed(m.first_ms, 2),
                    s.median > 0 ? Fixed(1000.0 * static_cast<double>(batch) / s.median, 1) : "-",
                    Fixed(static_cast<double>(PeakResidentBytes()) / 1e6, 1)});
    return entry;
  }

  std::vector<std::string> paths_;
  ModelOptions model_;
  DeviceOptions device_;
  InputOptions inputs_;
  MeasureOptions measure_;
  ProfileOptions profile_;
  std::vector<ModelProfile> profiles_;  // as the results
};

}  // namespace

std::unique_ptr<Command> MakeBenchRunCommand() { return std::make_unique<BenchRunCommand>(); }

}  // namespace infer
