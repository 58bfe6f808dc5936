#include "tools/common/export_options.h"

#include <algorithm>

#include "lib/onnx/import.h"
#include "lib/support/strings.h"
#include "quant/target/forms.h"
#include "runtime/cpu/backend.h"
#include "tools/common/accuracy_report.h"
#include "tools/common/streams.h"
#include "tools/common/target_text.h"

namespace infer {
namespace {

constexpr std::string_view kInput = "input", kMax = "max", kStdout = "-";

int64_t OpsetOf(const Model& model) {
  const auto it = model.info.opsets.find("");
  return it == model.info.opsets.end() ? 0 : it->second;
}

std::string Counted(const std::map<std::string, int64_t>& operators) {
  std::vector<std::string> texts;
  for (const auto& [op, count] : operators) texts.push_back(Cat(count, " ", op));
  return Join(texts, ", ");
}

}  // namespace

void ExportFlags::Declare(Options& options) {
  options.Section("Output");
  options.FileOrStdout("-o,--output", &output, "The ONNX file to write, or - for stdout");
  DeclareTarget(options);
  opset_given_ = options.Group([&](Options& group) {
    group.Value("--opset N|max", &opset,
                "Opset of the file; input: no newer opset and IR version than the model came with; "
                "max: what the fused operators need");
    group.Offer({"input", "max"});
  });
  options.Flag("--external-data", &external_data, "Put weights into a file beside the model");
  options.Rarely();
  options.Flag("--functions", &functions,
               "Write fused operators that ONNX lacks as model-local functions of domain infer "
               "instead of as their nodes");
  options.Flag("--sparse-file", &sparse_file,
               "Write constants most of which is zero as values and places (sparse_initializer) "
               "where that is smaller: from 67 % zeros of f32 on, from 89 % of INT8");
}

void ExportFlags::DeclareTarget(Options& options) {
  std::vector<std::string> names = {"onnx", "ort"};
  for (const Target& t : Targets()) names.emplace_back(t.name);
  options.Choice(
      "--target", &target, names,
      "Who reads the file: chooses operators and formats, and is checked before anything "
      "is written. onnx: standard operators alone; ort: the newest ONNX Runtime");
}

int ExportFlags::OpsetNumber() const { return static_cast<int>(ParseInt(opset).value_or(0)); }

Status ExportFlags::Check(Context& context) const {
  context.model_to_stdout = output == kStdout;
  if (output == kStdout && context.json_path == kStdout)
    return InvalidArgument("-o - and --json - both write to stdout: give one of them a file");
  if (output == kStdout && external_data)
    return InvalidArgument("--external-data lie beside a file: -o FILE");
  const Target* const t = FindTarget(target);
  if (sparse_file && t && t->runtime == TargetRuntime::kOpenVino)
    return InvalidArgument(
        Cat("--sparse-file: OpenVINO ", kOpenVinoVersion, " reads no sparse constants"));
  if (opset == kInput || opset == kMax) return {};
  const auto number = ParseInt(opset);
  if (!number || *number > INT32_MAX)
    return InvalidArgument(Cat("--opset ", opset, ": write a number, max or input"));
  return CheckOpset(static_cast<int>(*number)).In("--opset");
}

ExportOptions ExportFlags::Chosen() const {
  ExportOptions o;
  const int number = OpsetNumber();
  o.opset = number > 0 ? number : fitting_opset_;
  if (!raised_because_.empty())
    o.opset_reason = raised_because_;
  else if (number == 0)
    o.opset_reason = "read by the target";
  o.target = functions ? ExportTarget::kOnnx : ExportTarget::kPlain;
  if (const Target* t = FindTarget(target)) {
    o.target = t->runtime == TargetRuntime::kOnnxRuntime ? ExportTarget::kOrt
               : t->runtime == TargetRuntime::kOpenVino  ? ExportTarget::kPlain
                                                         : ExportTarget::kInfer;
    o.ort_minor = t->minor;
    o.max_opset = t->opset;
    o.max_ir_version = t->ir_version;
  }
  // We read every version, and what stands in the file whole needs no finding again.
  o.keep_versions = opset != kMax && number == 0 && o.target != ExportTarget::kInfer;
  o.force_external = external_data;
  o.sparse_constants = sparse_file;
  return o;
}

int64_t ExportFlags::OpsetLimit(const Model& model) const {
  const ExportOptions o = Chosen();
  if (o.opset > 0) return o.opset;
  const int64_t given = OpsetOf(model);
  if (o.keep_versions && given > 0)
    return o.max_opset > 0 ? std::min<int64_t>(given, o.max_opset) : given;
  return o.max_opset;
}

bool ExportFlags::MayRaiseTo(int64_t wanted, const Model& model) const {
  if (opset != kInput || !opset_given_().empty()) return false;
  const ExportOptions o = Chosen();
  if (o.max_opset > 0 && o.max_opset < wanted) return false;
  ExportFlags raised = *this;
  raised.opset = Cat(wanted);
  return raised.CheckBefore(model).ok();
}

void ExportFlags::RaiseTo(int64_t wanted, std::string reason) {
  opset = Cat(wanted);
  raised_because_ = std::move(reason);
}

Result<std::optional<Model>> ExportFlags::InFormsOfTarget(const Model& model) const {
  const Target* const t = FindTarget(target);
  if (!t || !HasOtherForms(model.graph, *t)) return std::optional<Model>();
  Model other(model.graph.Clone());
  other.info = model.info;
  INFER_TRY(ToFormsOf(other.graph, *t));
  return std::optional<Model>(std::move(other));
}

Result<std::string> ExportFlags::Bytes(const Model& model) const {
  INFER_ASSIGN(const std::optional<Model> other, InFormsOfTarget(model));
  return ExportModelBytes(other ? *other : model, Chosen());
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

Status ExportFlags::CheckExpressible(const Model& model) const {
  Status s = PlanExport(model, Chosen()).status();
  if (s.code() != Code::kUnsupported || s.ok()) return s;
  return Unsupported(
      Cat(s.message(), opset == kMax ? "" : "\n  --opset max writes the opset that is needed"));
}

Status ExportFlags::CheckBefore(const Model& model) const {
  Status as_came = CheckExpressible(model);
  if (as_came.ok() || as_came.code() != Code::kUnsupported) return as_came;
  Model simple(model.graph.Clone());
  simple.info = model.info;
  constexpr int kSimplify = 1;
  INFER_TRY(Optimize(simple.graph, {.level = kSimplify}).status());
  return CheckExpressible(simple).ok() ? Status() : as_came;
}

Result<std::optional<Model>> ExportFlags::ReadBack(Context& context, const Model& model) const {
  const auto bytes = Bytes(model);
  // Over 2 GiB, or an opset that cannot express the nodes, which is for Write to tell.
  if (!bytes.ok() && bytes.status().code() == Code::kUnsupported) return std::optional<Model>();
  INFER_TRY(bytes.status());
  INFER_ASSIGN(Model written, ImportModelBytes(*bytes, context.ops()));
  return std::optional<Model>(std::move(written));
}

Result<TargetReport> ExportFlags::CheckAs(Context& context, const Model& model,
                                          const Target& t) const {
  const auto backend = MakeCpuBackend();
  INFER_ASSIGN(const std::optional<Model> written, ReadBack(context, model));
  if (!written)
    return CheckTarget(model.graph, {std::min<int64_t>(OpsetOf(model), t.opset), 0}, t, *backend);
  return CheckTarget(written->graph, VersionsOf(*written), t, *backend);
}

Result<std::string> ExportFlags::Refusal(Context& context, const Model& model) const {
  INFER_TRY(CheckExpressible(model));
  const Target* t = FindTarget(target);
  if (target == "onnx") return StandardRefusal(model.graph);
  if (!t || t->runtime == TargetRuntime::kOurs) return std::string();
  INFER_ASSIGN(const TargetReport found, CheckAs(context, model, *t));
  const TargetFinding* error = found.first_error();
  if (!error) return std::string();
  return Cat(t->name, " refuses it: ", error->node.empty() ? "" : Cat(error->node, ": "),
             error->what, "; try ", error->remedy);
}

Result<bool> ExportFlags::Fits(Context& context, const Model& model, Json& report) {
  if (target == "onnx") {
    const std::string refusal = StandardRefusal(model.graph);
    if (!refusal.empty()) context.Warn(refusal);
    return refusal.empty();
  }
  const Target* t = FindTarget(target);
  if (!t) return true;
  INFER_ASSIGN(TargetReport found, CheckAs(context, model, *t));
  // Versions read opsets whose newest operators they have no kernels for.
  constexpr int kOlder[] = {22, 21, 17, 13};
  for (const int older : kOlder) {
    if (found.errors() == 0 || OpsetNumber() > 0 || older >= t->opset) continue;
    if (older >= OpsetOf(model) && Chosen().keep_versions) continue;
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
  const TargetFinding* first = found.first_error();
  if (!first) return {};
  context.Warn(Cat("the file is standard ONNX, but ", newest.name,
                   " refuses it: ", first->node.empty() ? "" : Cat(first->node, ": "), first->what,
                   found.errors() > 1 ? Cat(" (and ", found.errors() - 1, " more)") : "",
                   "; --target ", newest.name, " says all"));
  return {};
}

std::string ExportFlags::CostsText(const ExportReport& r) {
  std::string text;
  if (!r.decomposed.empty())
    text += Cat("opset ", r.opset, " has no ", Counted(r.decomposed),
                ": written as the nodes that define them; --opset max (", r.whole_opset,
                ") keeps them whole\n");
  if (!r.expanded.empty())
    text += Cat("ONNX has no ", Counted(r.expanded),
                ": written as their nodes; --functions keeps them as functions, --target infer as "
                "operators\n");
  return text;
}

std::string ExportFlags::SparseText(const SparseConstants& done) {
  std::string text = "no constant is smaller as values and places\n";
  if (done.sparse > 0)
    text = Cat("constants as values and places: ", done.sparse, ", ", HumanBytes(done.saved_bytes),
               " less\n");
  if (done.dense > 0)
    text += Cat("constants of half zeros or more that stay whole: ", done.dense,
                "; a place costs 8 bytes, so that 67 % of f32 or 89 % of INT8 have to be zero\n");
  return text;
}

std::string ExportFlags::FindReaders(Context& context, const Model& model, bool has_sparse) {
  const auto written = ReadBack(context, model);
  if (!written.ok() || !*written) return "";  // written all the same
  readers_ = ReadersOf((*written)->graph, VersionsOf(**written));
  if (has_sparse) readers_->openvino.clear();
  return Cat("read by ", ToText(*readers_), "\n");
}

Result<ExportReport> ExportFlags::Write(Context& context, const Model& made) {
  INFER_ASSIGN(const std::optional<Model> other, InFormsOfTarget(made));
  const Model& model = other ? *other : made;
  INFER_ASSIGN(ExportReport r, PlanExport(model, Chosen()));
  // What can fail for want of memory comes before the file has its name.
  const std::string told = CostsText(r) + (sparse_file ? SparseText(r.sparse) : std::string()) +
                           FindReaders(context, model, r.sparse.sparse > 0);
  if (output == kStdout) {
    INFER_ASSIGN(const std::string bytes, Bytes(model));
    INFER_TRY(WriteStream(stdout, bytes));
    r.file_bytes = static_cast<int64_t>(bytes.size());
  } else {
    INFER_ASSIGN(r, ExportModel(model, output, Chosen()));
    context.written = &output;
  }
  context.PrintLine(Cat("wrote ", output == kStdout ? "the model to stdout" : output, ": ", r.nodes,
                        r.nodes == 1 ? " node, " : " nodes, ", HumanBytes(r.file_bytes),
                        r.external_bytes > 0
                            ? Cat(" and ", HumanBytes(r.external_bytes), " of external data")
                            : std::string(),
                        ", opset ", r.opset, " (", r.opset_reason, "), IR ", r.ir_version));
  context.Print(told);
  for (const std::string& file : r.stale_data)
    context.PrintLine(
        Cat("left ", file, ": data of an earlier ", output, ", which no longer reads it"));
  return r;
}

Result<ExportReport> ExportFlags::WriteTo(const Model& model, const std::string& path) const {
  INFER_ASSIGN(const std::optional<Model> other, InFormsOfTarget(model));
  return ExportModel(other ? *other : model, path, Chosen());
}

Result<ExitCode> ExportFlags::WriteJudged(Context& context, const Model& model, GateVerdict verdict,
                                          bool keep_failed, Json& report) {
  context.Step("target");
  INFER_ASSIGN(const bool fits, Fits(context, model, report));
  if (!fits) verdict = GateVerdict::kFailed;
  INFER_TRY(TellOtherReaders(context, model));
  report["passed"] = verdict == GateVerdict::kPassed;
  report["verdict"] = Name(verdict);
  if (verdict == GateVerdict::kPassed || keep_failed) {
    context.Step("export");
    INFER_ASSIGN(const ExportReport written, Write(context, model));
    report["output"] = Report(written);
  } else {
    context.Note(Cat("not written, because ",
                     verdict == GateVerdict::kInconclusive
                         ? "a gate is inconclusive (--allow-inconclusive takes it, "
                         : "a gate failed or the target refuses it (",
                     "--keep-failed writes it)"));
  }
  return GateFlags::ExitOf(verdict);
}

Json ExportFlags::Report(const ExportReport& r) const {
  return {{"path", output},
          {"opset", r.opset},
          {"opset_reason", r.opset_reason},
          {"ir_version", r.ir_version},
          {"nodes", r.nodes},
          {"bytes", r.file_bytes},
          {"external_bytes", r.external_bytes},
          {"functions", r.functions},
          {"decomposed", r.decomposed},
          {"expanded", r.expanded},
          {"sparse_constants", sparse_file ? Json({{"sparse", r.sparse.sparse},
                                                   {"dense", r.sparse.dense},
                                                   {"saved_bytes", r.sparse.saved_bytes}})
                                           : Json()},
          {"whole_opset", r.whole_opset > 0 ? Json(r.whole_opset) : Json()},
          {"readers", readers_ ? infer::ToJson(*readers_) : Json()}};
}

}  // namespace infer
