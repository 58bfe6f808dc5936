/// infer-bench run: cold starts, load, compile, first and steady times of models over a grid of
/// batches, threads, extents and precisions, with the spread that belongs to them, and what each
/// step costs.
#include "lib/support/file.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/common/signals.h"
#include "tools/common/streams.h"
#include "tools/common/terminal.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/page/page.h"
#include "tools/infer_bench/run/formats.h"
#include "tools/infer_bench/run/measure_cell.h"

namespace infer {
namespace {

using namespace bench;  // NOLINT(google-build-using-namespace): the command is a part of it

class BenchRunCommand : public Command {
 public:
  std::string_view name() const override { return "run"; }
  std::string_view help() const override { return "Measure the latency of one or more models"; }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench run model.onnx --threads 1\n"
           "  infer-bench run fp32.onnx int8.onnx --batch 1,8 --threads 1,2 --json bench.json\n"
           "  infer-bench run bert.onnx --seq length=64,128 --precision as-is,fp16,int8-weights\n"
           "  infer-bench run model.onnx --format jsonl | jq .latency_ms.median\n"
           "  infer-bench run model.onnx --layers --trace trace.json\n";
  }
  void Declare(Options& o) override {
    o.Positional("models", &paths_, "ONNX models", true, PathUse::kRead);
    cell_.session.model.Declare(o);
    cell_.session.device.DeclareWithoutThreads(o);
    cell_.session.device.DeclareCompute(o);
    cell_.session.device.DeclareMemory(o);
    cell_.session.inputs.Declare(o);
    grid_.Declare(o);
    SamplingOptions& s = cell_.sampling;
    o.Value("--min-runs", &s.min_runs, "At least so many timed runs", 1);
    o.Value("--min-time", &s.min_time_s, "At least so many seconds of timed runs");
    o.Value("--max-time", &s.max_time_s, "At most so many seconds of timed runs");
    o.Value("--runs", &s.runs, "Exactly so many timed runs; 0: by --min-runs and --min-time");
    o.Value("--warmup", &s.fixed_warmup_runs, "Exactly so many warm-up runs; -1: until stable", -1);
    o.Value("--max-warmup", &s.max_warmup_s, "At most so many seconds of warm-up");
    o.Value("--cold", &cell_.cold, "Cold starts, each a fresh process; 0: none");
    o.Flag("--probe-cores", &probe_cores_,
           "Measure which processors slow each other (two threads of one core)");
    o.Choice("--format", &format_, {"table", "json", "jsonl", "csv", "markdown", "gbench"},
             "What goes to standard output");
    html_.Declare(o);
    profile_.Declare(o);
  }

  Result<ExitCode> Run(Context& context) override {
    if (cell_.sampling.max_time_s <= 0) return InvalidArgument("--max-time: more than 0");
    if (format_ != "table" && context.json_path == "-")
      return InvalidArgument(Cat("--format ", format_, " and --json - both want standard output"));
    INFER_ASSIGN(const std::vector<Cell> cells, Grid(paths_, grid_));
    cell_.sampling.stop = context.stop();
    cell_.profile =
        profile_.wanted() || html_.wanted() || !context.json_path.empty() || format_ == "json";
    INFER_TRY(Begin(context));
    Status failure;
    for (size_t i = 0; i < cells.size() && !context.stop().stop_requested(); ++i) {
      context.Progress("measure", static_cast<int64_t>(i), static_cast<int64_t>(cells.size()));
      auto result = Measure(context, cells[i]);
      if (!result.ok() && context.stop().stop_requested()) break;
      if (!result.ok()) {
        failure = result.status().In(cells[i].path);
        break;
      }
      INFER_TRY(Add(context, *std::move(result)));
    }
    context.Progress("measure", static_cast<int64_t>(cells.size()),
                     static_cast<int64_t>(cells.size()));
    return End(context, std::move(failure));
  }

 private:
  /// The report without results, and what is said if the process is ended early.
  Status Begin(Context& context) {
    const Environment environment = CaptureEnvironment();
    for (std::string& w : Warnings(environment)) context.Warn(std::move(w));
    INFER_TRY(TellCompute(context, cell_.session.device));
    report_ = NewReport(context, "infer-bench/run@2");
    report_["schema_version"] = 2;
    report_["environment"] = ToJson(environment);
    if (probe_cores_) {
      context.Step("probe cores");
      INFER_ASSIGN(const auto pairs, ProbeCores(environment.affinity));
      report_["environment"]["core_pairs"] = ToJson(pairs);
      for (const CorePair& p : pairs)
        if (p.shares_core())
          context.Warn(Cat("processors ", p.a, " and ", p.b, " slow each other (x ", p.slowdown,
                           "): two threads of one core"));
    }
    report_["device"] = cell_.session.device.device;
    report_["settings"] = {{"min_runs", cell_.sampling.min_runs},
                           {"runs", cell_.sampling.runs},
                           {"min_time_s", cell_.sampling.min_time_s},
                           {"max_time_s", cell_.sampling.max_time_s},
                           {"max_warmup_s", cell_.sampling.max_warmup_s},
                           {"warmup", cell_.sampling.fixed_warmup_runs},
                           {"cold", cell_.cold},
                           {"level", cell_.session.device.level},
                           {"compute", cell_.session.device.compute},
                           {"memory", cell_.session.device.memory},
                           {"pin", cell_.session.device.pin}};
    report_["results"] = Json::array();
    if (format_ == "jsonl") {
      Json head = report_;
      head.erase("results");
      INFER_TRY(context.Stream(JsonLine("begin", head)));
    }
    KeepLastWords(context);
    return {};
  }

  /// What a cell needs too much memory for is that cell's failure.
  Result<CellResult> Measure(Context& context, const Cell& cell) {
    try {
      return MeasureCell(context, cell, cell_);
    } catch (const std::bad_alloc&) {
      return ResourceExhausted("out of memory");
    }
  }

  Status Add(Context& context, CellResult result) {
    if (format_ == "jsonl") INFER_TRY(context.Stream(JsonLine("result", result.entry)));
    report_["results"].push_back(std::move(result.entry));
    if (result.profile) {
      profiles_.push_back(*std::move(result.profile));
      profiled_.push_back(report_["results"].size() - 1);
    }
    KeepLastWords(context);
    return {};
  }

  /// Tells the cells so far, and returns `failure`, which ended the others, unless it is ok.
  Result<ExitCode> End(Context& context, Status failure) {
    report_["interrupted"] = context.stop().stop_requested();
    report_["error"] = failure.ok() ? Json() : Json(failure.message());
    if (!failure.ok() && report_["results"].empty()) {  // there is only the failure to tell
      SetLastWords({});
      if (format_ == "jsonl") INFER_TRY(context.Stream(LastLine(context, report_)));
      return failure;
    }
    const Status told = Tell(context);
    if (failure.ok()) INFER_TRY(told);
    if (!told.ok()) context.Warn(told.message());
    if (!failure.ok()) return failure;
    return kExitOk;
  }

  Status Tell(Context& context) {
    // Last, since it takes memory that the models' own would be mixed up with.
    std::vector<Json*> reports;
    for (size_t i : profiled_) reports.push_back(&report_["results"][i]);
    report_["warnings"] = context.warnings();
    if (format_ == "table") context.PrintStyled(RunTable(report_, ColourOnStdout()));
    if (!report_["interrupted"].get<bool>())
      INFER_TRY(ShowProfiles(context, profile_, profiles_, reports));
    if (format_ == "csv") context.PrintStyled(RunCsv(report_));
    if (format_ == "markdown") context.PrintStyled(RunMarkdown(report_));
    if (format_ == "gbench") context.PrintStyled(RunGbench(report_));
    if (format_ == "json") context.PrintStyled(ReportText(context, report_));
    SetLastWords({});
    if (format_ == "jsonl") INFER_TRY(context.Stream(LastLine(context, report_)));
    INFER_TRY(html_.Write(context, report_));
    return WriteReport(context, std::move(report_));
  }

  static std::string LastLine(const Context& context, const Json& report) {
    return JsonLine("end", {{"interrupted", report["interrupted"]},
                            {"error", report["error"]},
                            {"results", report["results"].size()},
                            {"warnings", context.warnings()}});
  }

  /// Should a run that takes longer than a signal waits be cut off, the cells so far are reported.
  void KeepLastWords(const Context& context) {
    Json partial = report_;
    partial["interrupted"] = true;
    partial["error"] = nullptr;
    partial["warnings"] = context.warnings();
    const std::string stream = format_ == "jsonl"         ? LastLine(context, partial)
                               : format_ == "json"        ? ReportText(context, partial)
                               : format_ == "gbench"      ? RunGbench(partial)
                               : context.json_path == "-" ? ReportText(context, partial)
                                                          : "";
    const std::string path = context.json_path == "-" ? "" : context.json_path;
    SetLastWords([stream, path, text = ReportText(context, partial),
                  page = html_.LastWords(context, partial)] {
      if (!stream.empty()) (void)WriteStream(stdout, stream);
      if (page) page();
      if (!path.empty()) (void)WriteFileAtomically(path, text);
    });
  }

  std::vector<std::string> paths_;
  CellOptions cell_;
  GridOptions grid_;
  bool probe_cores_ = false;
  std::string format_ = "table";
  ProfileOptions profile_;
  HtmlOption html_;
  Json report_;
  std::vector<ModelProfile> profiles_;
  std::vector<size_t> profiled_;  // which result each is of
};

}  // namespace

std::unique_ptr<Command> MakeBenchRunCommand() { return std::make_unique<BenchRunCommand>(); }

}  // namespace infer
