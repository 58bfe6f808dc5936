/// infer-bench machine: what this machine can do, and what each kernel family costs on it: what
/// `predict` reads.
#include <algorithm>

#include "lib/support/file.h"
#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/infer_bench/commands.h"
#include "tools/infer_bench/predict/measure_cases.h"

namespace infer {
namespace {

using namespace bench;  // NOLINT(google-build-using-namespace): the command is a part of it

Json CasesJson(const MeasuredCases& measured, int threads) {
  Json list = Json::array();
  for (const FitCase& c : measured.cases) {
    Json amounts = Json::object();
    for (size_t i = 0; i < kNumColumns; ++i)
      if (c.features.x[i] > 0) amounts[kColumns[i]] = c.features.x[i];
    list.push_back({{"threads", threads},
                    {"program", c.program},
                    {"families", c.features.families},
                    {"us", c.us},
                    {"amounts", std::move(amounts)}});
  }
  return list;
}

class MachineCommand : public Command {
 public:
  std::string_view name() const override { return "machine"; }
  std::string_view help() const override {
    return "Measure what this machine can do, for `predict`";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-bench machine -o machine.json\n"
           "  infer-bench machine -o machine.json --threads 1,2,4 --budget 120\n";
  }
  void Declare(Options& o) override {
    o.Value("-o,--output", &output_, "The profile to write", PathUse::kWrite);
    o.Values("--threads", &threads_,
             "For each of these numbers of threads (default: 1 and all cores)");
    o.Value("--budget", &cases_.budget_s,
            "Seconds of generated programs for each number of threads", 0.1);
    o.Value("--first", &cases_.first, "Index of the first generated program");
    o.Value("--programs", &cases_.programs,
            "At most so many generated programs; 0: as many as the budget allows");
    o.Value("--cases", &cases_path_, "Write every measured step with its amounts, as JSON",
            PathUse::kWrite);
  }

  Result<ExitCode> Run(Context& context) override {
    if (output_.empty()) return InvalidArgument("-o FILE is missing");
    INFER_ASSIGN(const std::vector<int> threads, Threads());
    const Environment environment = CaptureEnvironment();
    for (std::string& w : Warnings(environment)) context.Warn(std::move(w));
    Json report = NewReport(context, "infer-bench/machine@1");
    report["environment"] = ToJson(environment);
    report["settings"] = {
        {"budget_s", cases_.budget_s}, {"first", cases_.first}, {"programs", cases_.programs}};
    report["profiles"] = Json::array();
    const MachineWatch watch;
    Json steps = Json::array();
    for (int n : threads) {
      INFER_ASSIGN(const LaneProfile p, Measure(context, n, steps));
      if (context.stop().stop_requested()) return Cancelled("stopped; no profile was written");
      report["profiles"].push_back(ToJson(p));
      Show(context, p);
    }
    const Watched watched = watch.Finish();
    for (std::string& w : Warnings(watched)) context.Warn(std::move(w));
    report["watch"] = ToJson(watched);
    if (!cases_path_.empty()) INFER_TRY(WriteFileAtomically(cases_path_, JsonText(steps, -1)));
    INFER_TRY(WriteFileAtomically(output_, ReportText(context, report)));
    INFER_TRY(WriteReport(context, std::move(report)));
    return kExitOk;
  }

 private:
  Result<std::vector<int>> Threads() const {
    if (threads_.empty()) {
      const int all = AvailableCores();
      return all > 1 ? std::vector<int>{1, all} : std::vector<int>{1};
    }
    std::vector<int> list;
    for (const std::string& text : threads_) {
      const auto n = ParseInt(text);
      if (!n || *n < 1 || *n > 4096)
        return InvalidArgument(Cat("--threads ", text, ": a whole number from 1 to 4096"));
      list.push_back(static_cast<int>(*n));
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }

  Result<LaneProfile> Measure(Context& context, int threads, Json& steps) {
    const std::string step = Cat(threads, threads == 1 ? " thread" : " threads");
    context.Step(step);
    SetLaneBudget(threads);
    LaneProfile p;
    p.lanes = threads;
    p.roofline = MeasuredRoofline(threads);
    cases_.threads = threads;
    cases_.stop = context.stop();
    cases_.progress = [&](double share) {
      context.Progress(step, static_cast<int64_t>(1e3 * std::min(share, 0.999)), 1000);
    };
    const MeasuredCases measured = MeasureCases(context.ops(), p.roofline, cases_);
    for (const std::string& f : measured.failures) context.Warn(f);
    context.Progress(step, 1000, 1000);
    p.families = FitFamilies(measured.cases);
    FitOverheads(measured.runs, p);
    p.programs = static_cast<int>(measured.runs.size());
    p.steps = static_cast<int>(measured.cases.size());
    if (p.families.empty() && !context.stop().stop_requested())
      return InvalidArgument(
          Cat("--budget ", cases_.budget_s, ": not enough for a single family; give it more"));
    if (!cases_path_.empty())
      for (Json& c : CasesJson(measured, threads)) steps.push_back(std::move(c));
    return p;
  }

  static void Show(Context& context, const LaneProfile& p) {
    context.PrintLine(
        Cat(p.lanes, p.lanes == 1 ? " thread: " : " threads: ", p.roofline.ToString()));
    context.PrintLine(Cat(p.steps, " steps of ", p.programs, " generated programs; a run costs ",
                          Fixed(p.run_us, 2), " us beside its steps, measuring a step ",
                          Fixed(p.step_profile_us, 3), " us"));
    std::vector<std::vector<std::string>> rows = {
        {"family", "steps", "left out", "error %", "p90 %"}};
    for (const auto& [name, f] : p.families)
      rows.push_back({name, Cat(f.cases), Cat(f.held_out),
                      f.held_out > 0 ? Fixed(100 * f.regret_median, 1) : "-",
                      f.held_out > 0 ? Fixed(100 * f.regret_p90, 1) : "-"});
    context.Print(TextTable(std::move(rows)));
  }

  std::string output_, cases_path_;
  std::vector<std::string> threads_;
  CaseOptions cases_;
};

}  // namespace

std::unique_ptr<Command> MakeMachineCommand() { return std::make_unique<MachineCommand>(); }

}  // namespace infer
