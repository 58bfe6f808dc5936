#include "lib/onnx/import.h"

#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx-data_pb.h>

#include "lib/ir/verify.h"
#include "lib/onnx/attribute_proto.h"
#include "lib/onnx/fused_names.h"
#include "lib/onnx/graph_builder.h"
#include "lib/onnx/graph_writer.h"
#include "lib/support/exceptions.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace onnx_io;  // NOLINT: this file is its public face

ScanLimits LimitsOfScan(const ImportLimits& limits) {
  ScanLimits out;
  out.max_nodes = limits.max_nodes;
  out.max_functions = limits.max_functions;
  out.max_graph_depth = limits.max_subgraph_depth;
  return out;
}

/// Recognises functions that are one of our own fused operators: those that export would write for
/// the operator and the call's attributes, to the byte. Any other body means what it says.
class FusedOperators {
 public:
  FusedOperators(const OpRegistry& ops, const TensorReader& tensors, int64_t max_rank)
      : ops_(ops), tensors_(tensors), max_rank_(max_rank) {}

  std::string operator()(const onnx::FunctionProto& f, const onnx::NodeProto& call) const {
    constexpr int kMaxNodes = 10'000;
    const std::string name = FusedName(f.name());
    const OpDef* def = f.domain() == kFusedDomain ? ops_.Find(kFusedDomain, name) : nullptr;
    if (!def || def->body.empty() || f.node_size() > kMaxNodes) return "";
    AttrMap attrs;
    for (const auto& a : call.attribute()) {
      const AttrDef* known = def->FindAttr(a.name());
      auto value = FromAttribute(a, tensors_, max_rank_);
      if (!known || !value.ok() || known->kind == AttrKind::kGraph) return "";
      attrs[a.name()] = *std::move(value);
    }
    const auto opsets = OpsetsOf(f.opset_import());
    auto opset = opsets.find("");
    if (opset == opsets.end()) return "";
    const auto wanted = FunctionOf(*def, attrs, ops_, opset->second);
    const auto found = WithData(f);
    return wanted.ok() && found.ok() && wanted->SerializeAsString() == found->SerializeAsString()
               ? name
               : "";
  }

 private:
  /// The function with its constants' data, which the scan left out.
  Result<onnx::FunctionProto> WithData(onnx::FunctionProto f) const {
    for (auto& node : *f.mutable_node())
      for (auto& a : *node.mutable_attribute())
        if (a.has_t()) {
          INFER_ASSIGN(const Tensor t, tensors_.Read(a.t()));
          a.clear_t();
          FillTensorProto(t, *a.mutable_t());
        }
    return f;
  }

  const OpRegistry& ops_;
  const TensorReader& tensors_;
  int64_t max_rank_;
};

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
  return info;
}

Status CheckOpsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  Opsets seen;
  for (const auto& o : imports) {
    const auto [it, fresh] = seen.emplace(CanonicalDomain(o.domain()), o.version());
    if (!fresh && it->second != o.version())
      return InvalidModel(Cat("opset imports of domain '", o.domain(), "' contradict: ", it->second,
                              " and ", o.version()));
  }
  return {};
}

/// As ONNX's checker, but for a version that is absent: the operators mean the same without it.
Status CheckVersions(const onnx::ModelProto& m) {
  constexpr int64_t kNewest = 14;
  if (m.ir_version() < 0) return InvalidModel(Cat("IR version ", m.ir_version()));
  if (m.ir_version() > kNewest)
    return Unsupported(
        Cat("IR version ", m.ir_version(), "; the newest that we know is ", kNewest));
  INFER_TRY(CheckOpsets(m.opset_import()));
  for (const auto& f : m.functions())
    INFER_TRY(CheckOpsets(f.opset_import()).In(Cat("function '", f.name(), "'")));
  return {};
}

Result<Model> BuildModel(const ByteSource& source, ExternalData& external, const OpRegistry& ops,
                         const ImportOptions& options) {
  INFER_ASSIGN(const SlimMessage slim, Scan(source, Message::kModel, LimitsOfScan(options.limits)));
  onnx::ModelProto proto;
  if (!proto.ParseFromArray(slim.bytes.data(), static_cast<int>(slim.bytes.size())))
    return InvalidModel("not an ONNX model (the protobuf message does not parse)");
  if (!proto.has_graph()) return InvalidModel("not an ONNX model (it has no graph)");

  INFER_TRY(CheckVersions(proto));

  const ImportLimits& limits = options.limits;
  const TensorReader tensors(source, slim, external, options);
  INFER_ASSIGN(FunctionTable functions,
               FunctionTable::Of(proto, limits, FusedOperators(ops, tensors, limits.max_rank)));
  const Opsets opsets = OpsetsOf(proto.opset_import());
  INFER_ASSIGN(auto prepared, PrepareGraph(proto.graph(), opsets, functions, limits));
  if (!prepared->free.empty()) {
    const size_t n = prepared->free.size();
    return InvalidModel(Cat("'", prepared->free[0], "', which ", prepared->free_readers[0],
                            " reads, is defined nowhere",
                            n > 1 ? Cat(" (and ", n - 1, " more such names)") : ""));
  }
  BuildContext ctx{ops, tensors, options};
  if (proto.ir_version() == 0) ctx.warnings.push_back(Cat("the model has no IR version"));
  auto graph = BuildGraph(*prepared, ctx);
  if (!ctx.unsupported.empty()) return ctx.unsupported.ToStatus();
  if (!graph.ok()) return graph.status();
  // Types were inferred while building, and what is dead is for passes to remove.
  INFER_TRY(Verify(*graph, {.types = false, .live = false}));
  Model model(*std::move(graph));
  model.info = InfoOf(proto);
  model.info.warnings = std::move(ctx.warnings);
  return model;
}

Result<Model> BuildOrRefuse(const ByteSource& source, ExternalData& external, const OpRegistry& ops,
                            const ImportOptions& options) {
  try {
    return BuildModel(source, external, ops, options);
  } catch (...) {
    return StatusOfException("while importing");
  }
}

}  // namespace

Result<Model> ImportModel(const std::string& path, const OpRegistry& ops,
                          const ImportOptions& options) {
  INFER_ASSIGN(const auto file, InputFile::Open(path));
  ExternalData external = ExternalData::ForModel(path, options.external_root);
  external.RefuseModel(file->id());
  auto model = BuildOrRefuse(*file, external, ops, options);
  if (!model.ok()) return model.status().In(path);
  INFER_ASSIGN(model->info.sha256, Sha256Of(*file));
  model->info.file_bytes = static_cast<int64_t>(file->size() + external.bytes());
  model->info.source_files = external.ids();
  model->info.source_files.push_back(file->id());
  return model;
}

Result<Model> ImportModelBytes(std::string_view bytes, const OpRegistry& ops,
                               const ImportOptions& options, const std::string& base_dir) {
  ExternalData external =
      base_dir.empty() ? ExternalData() : ExternalData::ForFolder(base_dir, options.external_root);
  return BuildOrRefuse(MemorySource(bytes), external, ops, options);
}

}  // namespace infer
