#include "tools/infer_opt/quantize/way.h"

#include "lib/support/strings.h"
#include "quant/convert/widen.h"

namespace infer {
namespace {

/// A list of nodes as its head, its first node and its end (the way out).
std::string Shortened(const std::string& list) {
  std::vector<std::string> lines = Split(list, '\n');
  if (lines.size() <= 3) return Join(lines, "");
  return Cat(lines.front(), lines[1], "; ...; ", Trim(lines.back()));
}

/// Why nobody could read the file in that form; "": its reader takes it.
Result<std::string> RefusalOf(QuantizeJob job, const Model& model, QuantizeMode& mode,
                              const QuantizeWay& way, const ExportFlags& exported) {
  job.format = way.format;
  mode.Take(way);
  Model draft(model.graph.Clone());
  draft.info = model.info;
  const bool is_wanted = way.told.empty();
  if (const Status s = mode.Draft(job, draft.graph); !s.ok())
    return is_wanted || s.code() == Code::kCancelled ? Result<std::string>(s) : s.message();
  auto refusal = exported.Refusal(job.context, draft);
  if (!refusal.ok() && refusal.status().code() == Code::kUnsupported)
    return Shortened(refusal.status().message());
  return refusal;
}

}  // namespace

Result<bool> WidenFor(const QuantizeMode& mode, Graph& g) {
  if (!mode.wants_f32() || !HasHalfLayers(g)) return false;
  INFER_TRY(WidenFloats(g));
  return true;
}

std::string WithoutData(const std::string& mode, const std::string& model,
                        const std::string& output) {
  return Cat("--mode ", mode,
             " calibrates on data, which are missing: --data X [--labels Y], or "
             "--calib X --eval Z\n",
             "  with data:     infer-opt quantize ", model, " -o ", output,
             " --data images/ --preprocess resize=256,crop=224,scale=1/255,layout=nchw\n",
             "  without data:  infer-opt quantize ", model, " -o ", output,
             " --mode weight-only    (weights in 8 or 4 bits, f32 between)\n",
             "                 or --mode dynamic, fp16, bf16; their accuracy is not known without "
             "data");
}

void MakeFor(const std::string& target, QuantizeJob& job) {
  job.microsoft = !target.empty() && target != "onnx";
  job.standard_only = target == "onnx";
  job.target = FindTarget(target);
  job.for_ort = job.target && job.target->runtime == TargetRuntime::kOnnxRuntime;
}

Status ChooseWay(QuantizeJob& job, const Model& model, QuantizeMode& mode,
                 const ExportFlags& exported, bool keep_failed) {
  INFER_TRY(exported.CheckBefore(model));
  INFER_TRY(mode.CheckOpset(job));
  if (!mode.has_draft()) return {};
  const std::vector<QuantizeWay> ways = mode.Ways(job);
  if (ways.empty()) return InvalidArgument("--format: the target takes no such file");
  std::string first;
  for (const QuantizeWay& way : ways) {
    INFER_ASSIGN(const std::string refusal, RefusalOf(job, model, mode, way, exported));
    if (first.empty()) first = refusal;
    if (!refusal.empty()) continue;
    job.format = way.format;
    if (!way.told.empty()) job.context.Note(Cat("written otherwise: ", way.told, ", for ", first));
    return {};
  }
  if (!keep_failed)
    return Unsupported(Cat("nothing was quantized: ", first, mode.way_out().empty() ? "" : "; try ",
                           mode.way_out()));
  mode.Take(ways.front());
  job.format = ways.front().format;
  return {};
}

}  // namespace infer
