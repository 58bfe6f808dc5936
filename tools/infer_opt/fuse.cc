/// infer-opt fuse: simplify and fuse a model, prove it against the model as it came, write it.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "lib/onnx/export.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tools/common/accuracy_report.h"
#include "tools/common/export_options.h"
#include "tools/common/input_values.h"
#include "tools/common/verification.h"
#include "tools/infer_opt/commands.h"

namespace infer {
namespace {

constexpr size_t kMaxRefusals = 10;  // lines for people

Json ToJson(const GraphStatistics& s) {
  Json operators = Json::object();
  for (const auto& [op, n] : s.operators) operators[op] = n;
  return {{"nodes", s.nodes},
          {"operators", operators},
          {"constant_bytes", s.constant_bytes},
          {"cost", infer::ToJson(s.cost)}};
}

std::string_view OutcomeName(MatchRecord::Outcome o) {
  switch (o) {
    case MatchRecord::Outcome::kApplied: return "applied";
    case MatchRecord::Outcome::kRefused: return "refused";
    case MatchRecord::Outcome::kNoMatch: return "no match";
  }
  return "?";
}

Json ToJson(const OptimizeReport& r) {
  Json j = {{"before", ToJson(r.before)}, {"after", ToJson(r.after)}, {"rewrites", r.rewrites}};
  j["verified_matches"] = r.verified;
  j["not_evaluated_matches"] = r.not_evaluated;
  j["ms"] = r.ms;
  j["verify_ms"] = r.verify_ms;
  j["rules"] = Json::array();
  for (const auto& [name, s] : r.rules)
    if (s.matched > 0)
      j["rules"].push_back({{"rule", name},
                            {"matched", s.matched},
                            {"applied", s.applied},
                            {"refused", s.refused},
                            {"max_error", s.max_error < 0 ? Json() : JsonNumber(s.max_error)}});
  j["matches"] = Json::array();
  for (const MatchRecord& m : r.records)
    j["matches"].push_back({{"rule", m.rule},
                            {"at", m.at},
                            {"nodes", m.nodes},
                            {"outcome", OutcomeName(m.outcome)},
                            {"reason", m.reason},
                            {"error", m.error < 0 ? Json() : JsonNumber(m.error)}});
  j["notes"] = r.notes;
  return j;
}

class FuseCommand : public Command {
 public:
  std::string_view name() const override { return "fuse"; }
  std::string_view help() const override {
    return "Simplify and fuse a model; every rewrite is checked";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt fuse model.onnx -o fused.onnx\n"
           "  infer-opt fuse model.onnx -o fused.onnx --disable 'fuse-gelu*' --json fuse.json\n"
           "  infer-opt fuse model.onnx --analyze --explain fuse-layernorm\n";
  }
  void Declare(Options& o) override {
    o.Positional("model", &path_, "The ONNX model (not needed for --list)", false, PathUse::kRead);
    export_.Declare(o);
    model_.Declare(o);
    o.Choice("--rewrites", &rewrites_, {kLevelNames.begin(), kLevelNames.end()},
             "simplify: the same operators, fewer of them; fuse: also fused layers; blocks: also "
             "attention, feed-forward nets, skip connections");
    o.Value("--level", &level_, "The same as a number: 0 none, ... 3 blocks; -1: as --rewrites",
            -1);
    o.Values("--patterns", &options_.only, "Only rules of these names (globs)");
    o.Values("--disable", &options_.disable, "Not these rules (globs)");
    o.Values("--explain", &options_.explain, "RULE or RULE@NODE: say why it did not match");
    o.Value("--stop-after", &options_.stop_after, "Stop after so many rewrites; -1: never", -1);
    o.Flag("--analyze", &options_.analyze_only, "Show what would be rewritten; write nothing");
    o.Flag("--list", &list_, "List the rules and end");
    o.Flag("--no-verify", &no_verify_, "Do not compare with the model as it came");
    o.Flag("--keep-failed", &keep_failed_, "Write the model even if the check fails");
    o.Value("--runs", &runs_, "Without data: check on so many random inputs", 1);
    o.Value("--seed", &seed_, "Seed of random inputs");
    data_.Declare(o, "", "Samples to check on");
    device_.device = "cpu";
    device_.level = 0;  // what is judged is the rewritten graph, node by node
    o.Choice("--device", &device_.device, DeviceNames(), "Where to check");
    o.Value("--threads", &device_.threads, "Threads of the check; 0: the usable physical cores");
  }

  Result<ExitCode> Run(Context& context) override {
    if (list_) return List(context);
    if (level_ > kMaxLevel)
      return InvalidArgument(Cat("--level: ", level_, " is not in 0..", kMaxLevel));
    const auto word = std::find(kLevelNames.begin(), kLevelNames.end(), rewrites_);
    options_.level = level_ >= 0 ? level_ : static_cast<int>(word - kLevelNames.begin());
    if (path_.empty()) return InvalidArgument("model is required");
    if (export_.output.empty() && !options_.analyze_only)
      return InvalidArgument("-o FILE is missing (or --analyze)");
    INFER_TRY(export_.Check());
    context.Step("import");
    INFER_ASSIGN(Model model, LoadModel(context, path_, model_));
    const Graph golden = model.graph.Clone();
    Samples samples;
    Json extents = Json::object();
    if (!no_verify_) {
      context.Step("golden");
      INFER_ASSIGN(samples, ChooseSamples(context, golden, extents));
    }
    context.Step("fuse");
    INFER_ASSIGN(OptimizeReport done, Optimize(model.graph, std::move(options_)));
    // Costs of dynamic shapes are those of extents that fit, so that they can be compared.
    done.before.cost = StatisticsOf(WithFoundExtents(golden)).cost;
    done.after.cost = StatisticsOf(WithFoundExtents(model.graph)).cost;
    context.Print(Summary(done));

    Json report = NewReport(context, "infer-opt/fuse@1");
    report["model"] = infer::ToJson(model, path_);
    report["extents"] = extents;
    report["optimize"] = ToJson(done);
    bool passed = true;
    if (!no_verify_ && !options_.analyze_only) {
      INFER_ASSIGN(passed, Verify(context, golden, model.graph, samples, report));
    }
    report["passed"] = passed;
    if (!options_.analyze_only && (passed || keep_failed_)) {
      context.Step("export");
      INFER_ASSIGN(ExportReport written, export_.Write(context, model));
      report["output"] = export_.Report(written);
      const int64_t bytes = written.file_bytes + written.external_bytes;
      if (bytes - model.info.file_bytes > FoldingBudget(done.before))
        context.Warn(Cat("the file grew from ", HumanBytes(model.info.file_bytes), " to ",
                         HumanBytes(bytes), ": constants take ",
                         HumanBytes(done.after.constant_bytes), " instead of ",
                         HumanBytes(done.before.constant_bytes)));
    } else if (!passed) {
      context.Note("not written, because the check failed (--keep-failed writes it)");
    }
    INFER_TRY(WriteReport(context, std::move(report)));
    return passed ? kExitOk : kExitGateFailed;
  }

 private:
  /// The data, or random inputs on which the golden model runs. The values of the first sample's
  /// run, on reference kernels, go to options_: every match is checked alone on them.
  Result<Samples> ChooseSamples(Context& context, const Graph& golden, Json& extents) {
    if (data_.given()) {
      INFER_ASSIGN(auto data, OpenData(data_));
      INFER_ASSIGN(Samples samples,
                   MakeSamples(data, golden, FirstSamples(*data, data_.max_samples)));
      INFER_ASSIGN(auto inputs, samples.get(0));
      INFER_TRY(Capture(golden, inputs).status());
      return samples;
    }
    std::vector<Datum> captured;
    auto found =
        RandomSamples(context, golden, runs_, seed_, [&](const std::vector<Datum>& inputs) {
          captured = inputs;
          return Capture(golden, inputs);
        });
    if (found.status().code() == Code::kInvalidArgument)
      return found.status().In("the whole model cannot be checked (--no-verify does without)");
    if (!found.ok()) return found.status();
    // The last extents that were tried need not be the best.
    INFER_ASSIGN(const auto first, found->samples.get(0));
    if (ShapesOf(first) != ShapesOf(captured)) INFER_TRY(Capture(golden, first).status());
    extents = found->extents;
    return std::move(found->samples);
  }

  Result<std::vector<Datum>> Capture(const Graph& golden, const std::vector<Datum>& inputs) {
    std::vector<Datum> outputs;
    INFER_ASSIGN(options_.captured,
                 CapturedValues::Capture(golden, std::span(&inputs, 1), &outputs));
    return outputs;
  }

  static std::vector<Dims> ShapesOf(const std::vector<Datum>& values) {
    std::vector<Dims> shapes;
    for (const Datum& d : values) shapes.push_back(d.is_tensor() ? d.tensor().dims() : Dims());
    return shapes;
  }

  Result<bool> Verify(Context& context, const Graph& golden, const Graph& fused,
                      const Samples& samples, Json& report) {
    context.Step("verify");
    INFER_ASSIGN(AccuracyReport accuracy,
                 CompareGraphs(context, golden, fused, device_, samples, false));
    std::vector<GateResult> gates = CheckGates(accuracy, {.max_error_ratio = kRewriteTolerance});
    AddExactnessGates(accuracy, gates);
    context.Print("\n" + AccuracyText(accuracy) + "\n" + GateText(gates));
    report["accuracy"] = infer::ToJson(accuracy);
    report["gates"] = infer::ToJson(gates);
    return AllPassed(gates);
  }

  static std::string Summary(const OptimizeReport& r) {
    std::vector<std::vector<std::string>> rows = {
        {"rule", "matched", "applied", "refused", "max error"}};
    for (const auto& [name, s] : r.rules)
      if (s.matched > 0)
        rows.push_back({name, Cat(s.matched), Cat(s.applied), Cat(s.refused),
                        s.max_error < 0 ? "-" : Rounded(s.max_error, 3)});
    std::string out = rows.size() > 1 ? TextTable(rows) : "no rule matched\n";
    const auto moved = [](const Cost& c) {
      return Fixed(static_cast<double>(c.bytes_read + c.bytes_written) / 1e6, 2);
    };
    out += Cat("nodes ", r.before.nodes, " -> ", r.after.nodes, ", MFLOP ",
               Fixed(static_cast<double>(r.before.cost.flops) / 1e6, 2), " -> ",
               Fixed(static_cast<double>(r.after.cost.flops) / 1e6, 2), ", MB moved ",
               moved(r.before.cost), " -> ", moved(r.after.cost), "\n");
    return out + Refusals(r);
  }

  /// One line for all places where a rule refused for the same reason.
  static std::string Refusals(const OptimizeReport& r) {
    std::map<std::tuple<std::string_view, std::string, std::string>, std::set<std::string>> places;
    for (const MatchRecord& m : r.records)
      if (m.outcome != MatchRecord::Outcome::kApplied)
        places[{OutcomeName(m.outcome), m.rule, m.reason}].insert(m.at);
    std::string out;
    size_t shown = 0;
    for (const auto& [what, at] : places) {
      if (++shown > kMaxRefusals) break;
      const auto& [outcome, rule, reason] = what;
      const std::string more = at.size() > 1 ? Cat(" and ", at.size() - 1, " more") : "";
      out +=
          Printable(Cat(outcome, "  ", rule, " at '", *at.begin(), "'", more, ": ", reason)) + "\n";
    }
    if (places.size() > kMaxRefusals)
      out += Cat("... and ", places.size() - kMaxRefusals, " more (--json has them all)\n");
    return out;
  }

  static Result<ExitCode> List(Context& context) {
    std::vector<std::vector<std::string>> rows = {{"rule", "rewrites", "what it does"}};
    for (const ListedRule& r : AllRules())
      rows.push_back({r.rule.name, kLevelNames[static_cast<size_t>(r.level)], r.rule.doc});
    context.Print(TextTable(rows));
    return kExitOk;
  }

  std::string path_, rewrites_ = kLevelNames.back();
  OptimizeOptions options_;
  ExportFlags export_;
  ModelOptions model_;
  DeviceOptions device_;
  DataFlags data_;
  bool no_verify_ = false, keep_failed_ = false, list_ = false;
  int level_ = -1;
  int64_t runs_ = 3;
  uint64_t seed_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeFuseCommand() { return std::make_unique<FuseCommand>(); }

}  // namespace infer
