#include "lib/onnx/import.h"

#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx-data_pb.h>

#include "lib/onnx/graph_builder.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace onnx_io;  // NOLINT: this file is its public face

constexpr std::string_view kFusedDomain = "infer";

ScanLimits LimitsOfScan(const ImportLimits& limits) {
  ScanLimits out;
  out.max_nodes = limits.max_nodes;
  out.max_functions = limits.max_functions;
  out.max_graph_depth = limits.max_subgraph_depth;
  return out;
}

/// A descriptive copy of graph inputs and outputs: what we keep of them beside the type.
void KeepDescriptions(const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& from,
                      google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& to) {
  for (const auto& x : from) {
    if (!x.has_doc_string() && x.GetReflection()->GetUnknownFields(x).field_count() == 0) continue;
    auto* kept = to.Add();
    *kept = x;
    kept->clear_type();
  }
}

ModelInfo InfoOf(const onnx::ModelProto& m) {
  ModelInfo info;
  info.ir_version = m.ir_version();
  info.opsets = OpsetsOf(m.opset_import());
  info.producer_name = m.producer_name();
  info.producer_version = m.producer_version();
  info.domain = m.domain();
  info.doc_string = m.doc_string();
  info.model_version = m.model_version();
  for (const auto& e : m.metadata_props()) info.metadata.emplace_back(e.key(), e.value());
  onnx::ModelProto extra;
  *extra.mutable_training_info() = m.training_info();
  extra.GetReflection()->MutableUnknownFields(&extra)->MergeFrom(
      m.GetReflection()->GetUnknownFields(m));
  info.extra = extra.SerializeAsString();
  const onnx::GraphProto& g = m.graph();
  onnx::GraphProto graph_extra;
  if (g.has_doc_string()) graph_extra.set_doc_string(g.doc_string());
  *graph_extra.mutable_quantization_annotation() = g.quantization_annotation();
  KeepDescriptions(g.input(), *graph_extra.mutable_input());
  KeepDescriptions(g.output(), *graph_extra.mutable_output());
  graph_extra.GetReflection()
      ->MutableUnknownFields(&graph_extra)
      ->MergeFrom(g.GetReflection()->GetUnknownFields(g));
  info.graph_extra = graph_extra.SerializeAsString();
  return info;
}

Result<Model> BuildModel(const ByteSource& source, ExternalData& external, const OpRegistry& ops,
                         const ImportOptions& options) {
  INFER_ASSIGN(const SlimMessage slim, Scan(source, Message::kModel, LimitsOfScan(options.limits)));
  onnx::ModelProto proto;
  if (!proto.ParseFromArray(slim.bytes.data(), static_cast<int>(slim.bytes.size())))
    return InvalidModel("not an ONNX model (the protobuf message does not parse)");
  if (!proto.has_graph()) return InvalidModel("not an ONNX model (it has no graph)");

  const ImportLimits& limits = options.limits;
  INFER_ASSIGN(FunctionTable functions,
               FunctionTable::Of(proto, limits, [&](const onnx::FunctionProto& f) {
                 return f.domain() == kFusedDomain && ops.Find(f.domain(), f.name());
               }));
  const Opsets opsets = OpsetsOf(proto.opset_import());
  INFER_ASSIGN(auto prepared, PrepareGraph(proto.graph(), opsets, functions, limits));
  if (!prepared->free.empty()) {
    const size_t n = prepared->free.size();
    return InvalidModel(Cat("'", prepared->free[0], "', which ", prepared->free_readers[0],
                            " reads, is defined nowhere",
                            n > 1 ? Cat(" (and ", n - 1, " more such names)") : ""));
  }
  const TensorReader tensors(source, slim, external, options);
  BuildContext ctx{ops, tensors, options};
  auto graph = BuildGraph(*prepared, ctx);
  if (!ctx.unsupported.empty()) return ctx.unsupported.ToStatus();
  if (!graph.ok()) return graph.status();
  Model model(*std::move(graph));
  model.info = InfoOf(proto);
  model.info.warnings = std::move(ctx.warnings);
  return model;
}

}  // namespace

Result<Model> ImportModel(const std::string& path, const OpRegistry& ops,
                          const ImportOptions& options) {
  INFER_ASSIGN(const auto file, InputFile::Open(path));
  ExternalData external = ExternalData::ForModel(path, options.external_root);
  auto model = BuildModel(*file, external, ops, options);
  if (!model.ok()) return model.status().In(path);
  INFER_ASSIGN(model->info.sha256, Sha256Of(*file));
  model->info.source_files = external.ids();
  model->info.source_files.push_back(file->id());
  return model;
}

Result<Model> ImportModelBytes(std::string_view bytes, const OpRegistry& ops,
                               const ImportOptions& options, const std::string& base_dir) {
  ExternalData external =
      base_dir.empty() ? ExternalData() : ExternalData::ForFolder(base_dir, options.external_root);
  return BuildModel(MemorySource(bytes), external, ops, options);
}

}  // namespace infer
