/// infer-opt check: what importers, inference, fusion and the readers of files have against models.
#include "quant/target/check.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/devices/devices.h"
#include "tools/common/model_options.h"
#include "tools/common/target_text.h"
#include "tools/infer_opt/check/findings.h"
#include "tools/infer_opt/commands.h"

namespace infer {
namespace {

using lint::Finding;
using lint::Findings;
using lint::Level;

/// Who is asked without --target. What they refuse is then a warning.
constexpr const char* kUsualReaders[] = {"ort", "openvino", "infer"};

class CheckCommand : public Command {
 public:
  std::string_view name() const override { return "check"; }
  std::string_view help() const override {
    return "Tell what importers, inference, fusion and runtimes have against models";
  }
  std::string_view examples() const override {
    return "Examples:\n"
           "  infer-opt check model.onnx\n"
           "  infer-opt check *.onnx --json findings.json --fail-on warning\n"
           "  infer-opt check model.onnx --target ort-1.22 --disable 'unnamed-node,near-miss'\n";
  }
  void Declare(Options& o) override {
    o.Positional("models", &paths_, "ONNX models", false, PathUse::kRead);
    o.Section("What to check");
    std::vector<std::string> names = {"ort"};
    for (const Target& t : Targets()) names.emplace_back(t.name);
    o.Values("--target NAMES", &targets_,
             Cat("Readers whose refusal is an error (", Join(names, ", "),
                 "); without it the newest ONNX Runtime, OpenVINO and infer are asked, and what "
                 "they refuse is a warning"));
    o.Offer(names);
    o.Values("--disable RULES", &disabled_, "Not these rules (globs)");
    o.Flag("--list", &list_, "List the rules and end");
    o.Choice("--fail-on", &fail_on_, {"error", "warning", "note", "never"},
             "Least severity that makes the exit code 1");
    model_.Declare(o);
  }

  Result<ExitCode> Run(Context& context) override {
    if (list_) return List(context);
    if (paths_.empty()) return InvalidArgument("models are required");
    for (const std::string& name : targets_)
      if (!FindTarget(name)) return InvalidArgument(Cat("--target ", name, ": no such reader"));
    Json report = NewReport(context, "infer-opt/check@1");
    report["models"] = Json::array();
    bool passed = true;
    for (const std::string& path : paths_) {
      if (context.stop().stop_requested()) return Cancelled("stopped");
      Json one = {{"path", path}};
      INFER_ASSIGN(Findings findings, FindingsOf(context, path));
      std::erase_if(findings, [&](const Finding& f) { return IsDisabled(f.rule); });
      std::stable_sort(findings.begin(), findings.end(),
                       [](const Finding& a, const Finding& b) { return a.level < b.level; });
      const bool fits = std::none_of(findings.begin(), findings.end(),
                                     [&](const Finding& f) { return f.level <= FailLevel(); });
      const bool fails = fail_on_ != "never" && !fits;
      context.PrintLine(Cat(path, ": ", Counts(findings)));
      context.Print(ToText(findings));
      for (const Level level : {Level::kError, Level::kWarning, Level::kNote})
        one[Cat(lint::Name(level), "s")] = Count(findings, level);
      one["passed"] = !fails;
      one["findings"] = ToJson(findings);
      report["models"].push_back(std::move(one));
      passed = passed && !fails;
    }
    report["passed"] = passed;
    INFER_TRY(WriteReport(context, std::move(report)));
    return passed ? kExitOk : kExitGateFailed;
  }

 private:
  static int64_t Count(const Findings& findings, Level level) {
    return std::count_if(findings.begin(), findings.end(),
                         [&](const Finding& f) { return f.level == level; });
  }
  static std::string Counts(const Findings& findings) {
    std::vector<std::string> parts;
    for (const Level level : {Level::kError, Level::kWarning, Level::kNote})
      if (const int64_t n = Count(findings, level); n > 0)
        parts.push_back(Cat(n, " ", lint::Name(level), n == 1 ? "" : "s"));
    return parts.empty() ? "nothing found" : Join(parts, ", ");
  }
  Level FailLevel() const {
    return fail_on_ == "note"      ? Level::kNote
           : fail_on_ == "warning" ? Level::kWarning
                                   : Level::kError;
  }
  bool IsDisabled(const std::string& rule) const {
    return std::any_of(disabled_.begin(), disabled_.end(),
                       [&](const std::string& glob) { return GlobMatch(glob, rule); });
  }

  /// A file that cannot be read is a failure, a broken one a finding.
  Result<Findings> FindingsOf(Context& context, const std::string& path) {
    Findings findings;
    ImportOptions import;
    import.external_root = model_.external_root;
    import.lenient = model_.lenient;
    context.Step("file");
    const auto file = ModelFile::Read(path, import);
    if (file.status().code() == Code::kIo && !file.ok()) return file.status();
    if (file.ok()) AddFileFacts(file->Facts(), findings);
    context.Step("import");
    auto model = ImportModel(path, context.ops(), import);
    if (!model.ok()) {
      if (model.status().code() == Code::kIo) return model.status();
      AddImportFailure(model.status(), findings);
      return findings;
    }
    AddImportWarnings(*model, findings);
    INFER_TRY(ApplyShapes(model->graph, model_));
    context.Step("inference");
    AddGraphFacts(model->graph, findings);
    context.Step("fusion");
    if (!IsDisabled("fusable") || !IsDisabled("near-miss"))
      INFER_TRY(AddFusions(model->graph, findings));
    context.Step("readers");
    if (!IsDisabled("reader")) INFER_TRY(AddReaders(*model, findings));
    return findings;
  }

  Status AddReaders(const Model& model, Findings& out) const {
    const bool asked = !targets_.empty();
    const std::vector<std::string> names =
        asked ? targets_
              : std::vector<std::string>(std::begin(kUsualReaders), std::end(kUsualReaders));
    INFER_ASSIGN(const auto cpu, MakeBackend("cpu"));
    for (const std::string& name : names) {
      const Target& t = *FindTarget(name);
      const auto found = CheckTarget(model.graph, VersionsOf(model), t, *cpu);
      if (!found.ok()) {
        out.push_back({"reader", asked ? Level::kError : Level::kWarning, "", "",
                       found.status().message(), "--device reference", std::string(t.name)});
        continue;
      }
      for (const TargetFinding& f : found->findings) {
        const Level level = f.severity == Severity::kError ? asked ? Level::kError : Level::kWarning
                            : f.severity == Severity::kDiffers ? Level::kWarning
                                                               : Level::kNote;
        const std::string where =
            f.processors.empty() ? "" : Cat(" (on processors with ", f.processors, ")");
        out.push_back({"reader", level, f.node, "", f.what + where, f.remedy, std::string(t.name)});
      }
    }
    return {};
  }

  static Result<ExitCode> List(Context& context) {
    std::vector<std::vector<std::string>> rows = {{"rule", "what it finds"}};
    for (const auto& [rule, what] : lint::ListedFindings()) rows.push_back({rule, what});
    context.Print(TextTable(rows));
    return kExitOk;
  }

  std::vector<std::string> paths_, targets_, disabled_;
  std::string fail_on_ = "error";
  ModelOptions model_;
  bool list_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeCheckCommand() { return std::make_unique<CheckCommand>(); }

}  // namespace infer
