#include "tools/common/export_options.h"

#include "lib/support/strings.h"

namespace infer {

void ExportFlags::Declare(Options& options) {
  options.Value("-o,--output", &output, "The ONNX file to write", PathUse::kWrite);
  options.Choice("--target", &target, {"onnx", "ort", "infer"},
                 "onnx: standard operators; ort: also com.microsoft ones; infer: everything");
  options.Value("--opset", &opset, "Opset of the file; 0: the input's, or what the nodes need");
  options.Flag("--external-data", &external_data, "Put weights into a file beside the model");
}

ExportOptions ExportFlags::Chosen() const {
  ExportOptions o;
  o.target = target == "ort"     ? ExportTarget::kOrt
             : target == "infer" ? ExportTarget::kInfer
                                 : ExportTarget::kOnnx;
  o.opset = opset;
  o.force_external = external_data;
  return o;
}

Result<int64_t> ExportFlags::Size(const Model& model) const {
  INFER_ASSIGN(const std::string bytes, ExportModelBytes(model, Chosen()));
  return static_cast<int64_t>(bytes.size());
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
