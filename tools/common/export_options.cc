#include "tools/common/export_options.h"

#include <algorithm>

#include "lib/onnx/import.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"
#include "tools/common/target_text.h"

namespace infer {

void ExportFlags::Declare(Options& options) {
  options.Value("-o,--output", &output, "The ONNX file to write", PathUse::kWrite);
  std::vector<std::string> names = {"onnx", "ort"};
  for (const Target& t : Targets()) names.emplace_back(t.name);
  options.Choice("--target", &target, names,
                 "Who reads the file. onnx: standard operators; ort: also com.microsoft ones; "
                 "openvino: no functions; infer: everything. All but onnx are checked");
  options.Value("--opset", &opset, "Opset of the file; 0: the input's, or what the nodes need");
  options.Flag("--external-data", &external_data, "Put weights into a file beside the model");
}

ExportOptions ExportFlags::Chosen() const {
  ExportOptions o;
  o.opset = opset > 0 ? opset : fitting_opset_;
  if (const Target* t = FindTarget(target)) {
    o.target = t->runtime == TargetRuntime::kOnnxRuntime ? ExportTarget::kOrt
               : t->runtime == TargetRuntime::kOpenVino  ? ExportTarget::kPlain
                                                         : ExportTarget::kInfer;
    o.max_opset = t->opset;
    o.max_ir_version = t->ir_version;
  }
  o.force_external = external_data;
  return o;
}

Result<std::string> ExportFlags::Bytes(const Model& model) const {
  return ExportModelBytes(model, Chosen());
}

RewriteFor ExportFlags::Reader() const {
  switch (Chosen().target) {
    case ExportTarget::kOrt: return RewriteFor::kOnnxRuntime;
    case ExportTarget::kPlain: return RewriteFor::kPlain;
    default: return RewriteFor::kAll;
  }
}

Result<int64_t> ExportFlags::Size(const Model& model) const {
  INFER_ASSIGN(const std::string bytes, Bytes(model));
  return static_cast<int64_t>(bytes.size());
}

Result<TargetReport> ExportFlags::CheckAs(Context& context, const Model& model,
                                          const Target& t) const {
  const auto backend = MakeCpuBackend();
  const auto bytes = ExportModelBytes(model, Chosen());
  if (bytes.status().code() == Code::kUnsupported && !bytes.ok()) {
    // Over 2 GiB, or an opset that cannot express the nodes, which is for Write to tell.
    const auto it = model.info.opsets.find("");
    const int64_t given = it == model.info.opsets.end() ? 0 : it->second;
    return CheckTarget(model.graph, {std::min<int64_t>(given, t.opset), 0}, t, *backend);
  }
  INFER_TRY(bytes.status());
  INFER_ASSIGN(const Model written, ImportModelBytes(*bytes, context.ops()));
  return CheckTarget(written.graph, VersionsOf(written), t, *backend);
}

Result<bool> ExportFlags::Fits(Context& context, const Model& model, Json& report) {
  const Target* t = FindTarget(target);
  if (!t) return true;
  INFER_ASSIGN(TargetReport found, CheckAs(context, model, *t));
  // Versions read opsets whose newest operators they have no kernels for.
  constexpr int kOlder[] = {22, 21, 17, 13};
  for (const int older : kOlder) {
    if (found.errors() == 0 || opset > 0 || older >= t->opset) continue;
    fitting_opset_ = older;
    if (!ExportModelBytes(model, Chosen()).ok()) break;
    INFER_ASSIGN(TargetReport again, CheckAs(context, model, *t));
    if (again.errors() < found.errors()) {
      found = std::move(again);
      if (found.errors() == 0) break;
    }
    fitting_opset_ = 0;
  }
  if (found.errors() > 0) fitting_opset_ = 0;
  context.Print(ToText(found, *t));
  report["target"] = ToJson(found, *t);
  return found.errors() == 0;
}

Status ExportFlags::TellOtherReaders(Context& context, const Model& model) const {
  if (FindTarget(target)) return {};
  const Target& newest = *FindTarget("ort");
  INFER_ASSIGN(const TargetReport found, CheckAs(context, model, newest));
  if (found.errors() == 0) return {};
  const auto first =
      std::find_if(found.findings.begin(), found.findings.end(),
                   [](const TargetFinding& f) { return f.severity == Severity::kError; });
  context.Warn(Cat("the file is standard ONNX, but ", newest.name,
                   " refuses it: ", first->node.empty() ? "" : Cat(first->node, ": "), first->what,
                   found.errors() > 1 ? Cat(" (and ", found.errors() - 1, " more)") : "",
                   "; --target ", newest.name, " says all"));
  return {};
}

Result<ExportReport> ExportFlags::Write(Context& context, const Model& model) const {
  INFER_ASSIGN(ExportReport r, ExportModel(model, output, Chosen()));
  context.PrintLine(Cat("wrote ", output, ": ", HumanBytes(r.file_bytes),
                        r.external_bytes > 0
                            ? Cat(" and ", HumanBytes(r.external_bytes), " of external data")
                            : std::string(),
                        ", opset ", r.opset, " (", r.opset_reason, ")"));
  for (const auto& [op, count] : r.decomposed)
    context.PrintLine(Cat("opset ", r.opset, " has no ", op, ": ", count,
                          " written as the nodes that define it"));
  for (const std::string& file : r.stale_data)
    context.PrintLine(
        Cat("left ", file, ": data of an earlier ", output, ", which no longer reads it"));
  return r;
}

Result<ExitCode> ExportFlags::WriteJudged(Context& context, const Model& model, bool passed,
                                          bool keep_failed, Json& report) {
  context.Step("target");
  INFER_ASSIGN(const bool fits, Fits(context, model, report));
  passed = passed && fits;
  INFER_TRY(TellOtherReaders(context, model));
  report["passed"] = passed;
  if (passed || keep_failed) {
    context.Step("export");
    INFER_ASSIGN(const ExportReport written, Write(context, model));
    report["output"] = Report(written);
  } else {
    context.Note(
        "not written, because a gate failed or the target refuses it (--keep-failed writes it)");
  }
  return passed ? kExitOk : kExitGateFailed;
}

Json ExportFlags::Report(const ExportReport& r) const {
  return {{"path", output},
          {"opset", r.opset},
          {"opset_reason", r.opset_reason},
          {"bytes", r.file_bytes},
          {"external_bytes", r.external_bytes},
          {"functions", r.functions},
          {"decomposed", r.decomposed}};
}

}  // namespace infer
