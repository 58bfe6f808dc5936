#include "lib/onnx/export.h"

#include <algorithm>
#include <set>

#include "lib/onnx/file_layout.h"
#include "lib/onnx/functions.h"
#include "lib/onnx/graph_writer.h"
#include "lib/onnx/opset.h"
#include "lib/onnx/sparse_constants.h"
#include "lib/onnx/type_proto.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace onnx_io;  // NOLINT: as import.cc

/// For graphs that were not imported: what every runtime of today takes.
constexpr int64_t kDefaultOpset = 17;
constexpr int64_t kFirstIrVersion = 3;  // that models in use have
constexpr int64_t kMinIrVersion = 4;    // since then initializers need not be graph inputs
constexpr int64_t kFunctionIrVersion = 8;

Status ListInexpressible(const std::vector<Inexpressible>& list, int64_t opset) {
  constexpr size_t kShown = 12;
  std::set<std::string> lines;
  int64_t needed = 0;
  for (const Inexpressible& x : list) {
    lines.insert(Cat("\n  ", x.node, ": ", x.why));
    needed = std::max(needed, x.opset);
  }
  std::string out = Cat("opset ", opset, " cannot express ", lines.size(),
                        lines.size() == 1 ? " thing" : " things", "; opset ", needed, " can:");
  size_t shown = 0;
  for (const std::string& line : lines)
    if (++shown <= kShown) out += line;
  if (lines.size() > kShown) out += Cat("\n  and ", lines.size() - kShown, " more");
  return Unsupported(std::move(out));
}

/// Writes the graph at the opset asked for, or at the lowest that can, from the input's on.
Result<WrittenModel> WriteAtOpset(const Model& model, const ExportOptions& options,
                                  ExportReport& report) {
  INFER_TRY(CheckOpset(options.opset));
  const auto it = model.info.opsets.find("");
  const bool given = it != model.info.opsets.end();
  // A model whose nodes are all functions may say any opset.
  const int64_t from = given ? std::min<int64_t>(it->second, kNewestOpset) : kDefaultOpset;
  report.opset = options.opset > 0 ? options.opset : static_cast<int>(from);
  report.opset_reason = options.opset > 0 ? options.opset_reason : given ? "input's" : "default";
  bool fixed = options.opset > 0 || options.keep_versions;
  for (;;) {
    if (options.opset == 0 && options.max_opset > 0 && report.opset > options.max_opset) {
      fixed = true;
      report.opset = options.max_opset;
      report.opset_reason = "the target's newest";
    }
    // Only where somebody asks for an opset: else a higher one keeps what was fused.
    INFER_ASSIGN(WrittenModel written,
                 WriteGraph(model.graph, model.info.opsets,
                            {report.opset, options.target, fixed, options.ort_minor}));
    if (written.inexpressible.empty()) return written;
    const auto worst = std::max_element(
        written.inexpressible.begin(), written.inexpressible.end(),
        [](const Inexpressible& a, const Inexpressible& b) { return a.opset < b.opset; });
    if (fixed || worst->opset <= report.opset)
      return ListInexpressible(written.inexpressible, report.opset);
    report.opset = static_cast<int>(worst->opset);
    report.opset_reason = worst->node;
  }
}

/// That of the input where the file is to stay below it and says no more than the input did.
int64_t IrVersionFor(const ModelInfo& info, const WrittenModel& written,
                     const ExportOptions& options) {
  const int64_t limit = options.max_ir_version;
  const int64_t given = limit > 0 ? std::min(info.ir_version, limit) : info.ir_version;
  const int64_t opset = written.opsets.at("");
  const auto it = info.opsets.find("");
  const bool is_newer = it == info.opsets.end() || opset > it->second;
  const int64_t functions = written.functions.empty() ? 0 : kFunctionIrVersion;
  const bool stays = options.keep_versions || options.opset > 0;
  if (stays && !is_newer && given >= kFirstIrVersion) return std::max(given, functions);
  return std::max({given, IrVersionOf(opset), kMinIrVersion, functions});
}

/// Before IR version 4 an initializer was the default of an input.
void AddInitializersToInputs(WrittenModel& written) {
  for (const PendingTensor& t : written.initializers) {
    onnx::TypeProto type;
    if (!ToTypeProto(t.tensor.type(), type)) continue;
    onnx::ValueInfoProto& input = *written.graph.add_input();
    input.set_name(t.name);
    *input.mutable_type() = std::move(type);
  }
}

Result<onnx::ModelProto> HeaderOf(const ModelInfo& info, const WrittenModel& written,
                                  int64_t ir_version) {
  onnx::ModelProto m;
  if (!m.ParseFromString(info.extra)) return InvalidModel("the model's kept fields do not parse");
  m.set_ir_version(ir_version);
  for (const auto& [domain, version] : written.opsets) {
    auto* o = m.add_opset_import();
    o->set_domain(domain);
    o->set_version(version);
  }
  if (!info.producer_name.empty()) m.set_producer_name(info.producer_name);
  if (!info.producer_version.empty()) m.set_producer_version(info.producer_version);
  if (!info.domain.empty()) m.set_domain(info.domain);
  if (!info.doc_string.empty()) m.set_doc_string(info.doc_string);
  if (info.model_version != 0) m.set_model_version(info.model_version);
  for (const auto& [key, value] : info.metadata) {
    auto* e = m.add_metadata_props();
    e->set_key(key);
    e->set_value(value);
  }
  for (const onnx::FunctionProto& f : written.functions) *m.add_functions() = f;
  return m;
}

struct Prepared {
  FileParts parts;
  ExportReport report;
};

Result<Prepared> Prepare(const Model& model, const ExportOptions& options) {
  Prepared p;
  WrittenModel& written = p.parts.written;
  INFER_ASSIGN(written, WriteAtOpset(model, options, p.report));
  p.report.ir_version = IrVersionFor(model.info, written, options);
  if (options.sparse_constants) {
    p.report.sparse = WriteSparseConstants(written);
    if (p.report.sparse.sparse > 0)
      p.report.ir_version = std::max(p.report.ir_version, kSparseIrVersion);
  }
  if (p.report.ir_version < kMinIrVersion) AddInitializersToInputs(written);
  INFER_ASSIGN(p.parts.header, HeaderOf(model.info, written, p.report.ir_version));
  for (const std::string& op : written.decomposed) ++p.report.decomposed[op];
  for (const std::string& op : written.expanded) ++p.report.expanded[op];
  p.report.whole_opset = written.whole_opset;
  p.report.nodes = onnx_io::CountNodes(written.graph);
  for (const auto& f : written.functions)
    p.report.functions.push_back(Cat(f.domain(), "::", f.name()));
  return p;
}

}  // namespace

Status CheckOpset(int opset) {
  if (opset >= 0 && opset <= kNewestOpset) return {};
  return InvalidArgument(Cat("opset ", opset, ": there are 1 to ", kNewestOpset,
                             " (0: the input's, or what the nodes need)"));
}

Result<ExportReport> ExportModel(const Model& model, const std::string& path,
                                 const ExportOptions& options) {
  INFER_ASSIGN(Prepared p, Prepare(model, options));
  INFER_TRY(WriteFileOf(p.parts, path, model.info.source_files, options, p.report));
  return std::move(p.report);
}

Result<ExportReport> PlanExport(const Model& model, const ExportOptions& options) {
  INFER_ASSIGN(Prepared p, Prepare(model, options));
  return std::move(p.report);
}

Result<std::string> ExportModelBytes(const Model& model, const ExportOptions& options) {
  INFER_ASSIGN(const Prepared p, Prepare(model, options));
  return BytesOfFile(p.parts);
}

namespace onnx_io {
Result<FileParts> FilePartsOf(const Model& model, const ExportOptions& options) {
  INFER_ASSIGN(Prepared p, Prepare(model, options));
  return std::move(p.parts);
}
}  // namespace onnx_io

}  // namespace infer
