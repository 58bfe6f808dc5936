/// infer-bench kernels: micro-benchmarks of the cpu backend's kernels on the steps of models, each
/// checked against the reference kernels before it is timed.
#include "runtime/cpu/kernels/common/kernels.h"

#include <chrono>
#include <optional>

#include "lib/support/file.h"
#include "lib/support/measure.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/bench/machine_watch.h"
#include "tools/common/signals.h"
#include "tools/common/streams.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/kernels/kernels_report.h"
#include "tools/infer_bench/kernels/sources.h"

namespace infer {
namespace {

constexpr double kLastWordsMs = 1000;  // between two reports that are kept

using namespace bench;  // NOLINT(google-build-using-namespace): the command is a part of it

class KernelsCommand : public Command {
 public:
  std::string_view name() const override { return "kernels"; }
  std::string_view help() const override {
    return "Check and time the kernels of the cpu backend on the steps of models";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench kernels model.onnx --threads 1\n"
           "  infer-bench kernels --zoo resnet50,bert-base --filter 'Conv*' --json kernels.json\n"
           "  infer-bench kernels model.onnx --alternatives --filter 'MatMul*'\n"
           "  infer-bench kernels --zoo all --examples --list\n"
           "  infer-bench kernels model.onnx --format gbench > a.json\n";
  }
  void Declare(Options& o) override {
    sources_.Declare(o);
    o.Section("Options");
    o.Value("--filter", &options_.filter, "Only cases whose name this glob fits");
    o.Flag("--alternatives", &options_.alternatives,
           "Also the kernels that accept a step and are not chosen for it");
    o.Flag("--list", &options_.list, "Only say which cases there are: nothing is checked or timed");
    o.Value("--threads", &options_.threads, "Threads; 0: one per core");
    o.Value("--level", &options_.level, "How far steps are fused and kernels may round otherwise");
    o.Value("--min-time", &options_.timer.min_time_s, "Seconds of each repetition");
    o.Value("--repetitions", &options_.timer.repetitions, "Repetitions of each case", 1);
    o.Choice("--format", &format_, {"table", "json", "gbench"}, "What goes to standard output");
  }

  Result<ExitCode> Run(Context& context) override {
    if (options_.timer.min_time_s <= 0) return InvalidArgument("--min-time: more than 0");
    if (format_ != "table" && context.json_path == "-")
      return InvalidArgument(Cat("--format ", format_, " and --json - both want standard output"));
    if (format_ == "gbench" && options_.list)
      return InvalidArgument("--list times nothing that --format gbench could tell");
    INFER_TRY(CheckedOptions());
    if (options_.threads > 0) SetLaneBudget(options_.threads);
    options_.stop = context.stop();
    const Environment environment = CaptureEnvironment();
    for (std::string& w : Warnings(environment)) context.Warn(std::move(w));
    report_ = NewReport(context, "infer-bench/kernels@1");
    report_["environment"] = ToJson(environment);
    report_["settings"] = {{"min_time_s", options_.timer.min_time_s},
                           {"repetitions", options_.timer.repetitions},
                           {"threads", LaneBudget()},
                           {"level", options_.level},
                           {"filter", options_.filter},
                           {"alternatives", options_.alternatives},
                           {"list", options_.list},
                           {"seed", sources_.inputs.seed}};
    return Measure(context);
  }

 private:
  Status CheckedOptions() const {
    constexpr int kMostThreads = 4096, kHighestLevel = 2;
    if (options_.threads < 0 || options_.threads > kMostThreads)
      return InvalidArgument(Cat("--threads ", options_.threads, ": out of range"));
    if (options_.level < 0 || options_.level > kHighestLevel)
      return InvalidArgument(Cat("--level ", options_.level, ": 0, 1 or 2"));
    return {};
  }

  Result<ExitCode> Measure(Context& context) {
    std::optional<KernelBench> kept;
    std::optional<std::chrono::steady_clock::time_point> said;
    options_.on_case = [&] {
      if (said && MsSince(*said) < kLastWordsMs) return;
      KeepLastWords(context, *kept);
      said = std::chrono::steady_clock::now();
    };
    KernelBench& bench = kept.emplace(CpuKernels(), options_);
    const MachineWatch watch;
    INFER_TRY(
        ForEachSource(context, sources_,
                      [&](const std::string& name, Graph graph, const std::vector<Datum>& inputs) {
                        return bench.Add(name, std::move(graph), inputs);
                      }));
    if (bench.cases().empty() && options_.filter != "*" && !context.stop().stop_requested())
      context.Warn(
          Cat("--filter ", options_.filter, ": no case has such a name; --list names them"));
    const Watched watched = watch.Finish();
    report_["watch"] = ToJson(watched);
    if (!options_.list)
      for (std::string& w : Warnings(watched)) context.Warn(std::move(w));
    report_["interrupted"] = context.stop().stop_requested();
    AddKernels(report_, bench);
    report_["warnings"] = context.warnings();
    if (format_ == "table") context.PrintStyled(KernelsTable(report_));
    if (format_ == "gbench") context.PrintStyled(bench.Gbench());
    if (format_ == "json") context.PrintStyled(ReportText(context, report_));
    SetLastWords({});
    INFER_TRY(WriteReport(context, std::move(report_)));
    const int64_t wrong = WrongCases(bench);
    if (wrong > 0 && format_ != "table") context.Warn(Cat(wrong, " kernels are wrong"));
    return wrong > 0 ? kExitGateFailed : kExitOk;
  }

  /// Should a step take longer than a signal waits, what was measured before it is reported.
  void KeepLastWords(const Context& context, const KernelBench& bench) const {
    if (context.json_path.empty() && format_ == "table") return;
    Json partial = report_;
    partial["watch"] = nullptr;
    partial["interrupted"] = true;
    AddKernels(partial, bench);
    std::string text = ReportText(context, std::move(partial));
    std::string stream = format_ == "json" || context.json_path == "-" ? text
                         : format_ == "gbench"                         ? bench.Gbench()
                                                                       : "";
    const std::string path = context.json_path == "-" ? "" : context.json_path;
    SetLastWords([stream = std::move(stream), path, text = std::move(text)] {
      if (!stream.empty()) (void)WriteStream(stdout, stream);
      if (!path.empty()) (void)WriteFileAtomically(path, text);
    });
  }

  KernelSources sources_;
  KernelBenchOptions options_;
  std::string format_ = "table";
  Json report_;
};

}  // namespace

std::unique_ptr<Command> MakeKernelsCommand() { return std::make_unique<KernelsCommand>(); }

}  // namespace infer
