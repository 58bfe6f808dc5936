#include "lib/onnx/model_file.h"

#include <google/protobuf/unknown_field_set.h>

#include "lib/onnx/functions.h"
#include "lib/onnx/model_file_state.h"
#include "lib/onnx/tensor_proto.h"
#include "lib/onnx/wire.h"
#include "lib/support/exceptions.h"
#include "lib/support/similar.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace onnx_io;  // NOLINT: this file is its public face

/// Puts tensor data, which the scan left in the file, back where it stood.
class DataFiller {
 public:
  explicit DataFiller(const TensorReader& tensors) : tensors_(tensors) {}

  Status Fill(onnx::TensorProto& t) const {
    if (t.data_type() == onnx::TensorProto::STRING) return {};
    INFER_ASSIGN(const Tensor data, tensors_.Read(t));
    ClearData(t);
    t.set_raw_data(data.raw(), static_cast<size_t>(data.byte_size()));
    return {};
  }
  Status Fill(onnx::SparseTensorProto& t) const {
    INFER_TRY(Fill(*t.mutable_values()));
    return Fill(*t.mutable_indices());
  }
  Status Fill(onnx::AttributeProto& a) const {
    if (a.has_t()) INFER_TRY(Fill(*a.mutable_t()));
    if (a.has_sparse_tensor()) INFER_TRY(Fill(*a.mutable_sparse_tensor()));
    if (a.has_g()) INFER_TRY(Fill(*a.mutable_g()));
    INFER_TRY(FillAll(*a.mutable_tensors()));
    INFER_TRY(FillAll(*a.mutable_sparse_tensors()));
    return FillAll(*a.mutable_graphs());
  }
  Status Fill(onnx::NodeProto& n) const { return FillAll(*n.mutable_attribute()); }
  Status Fill(onnx::GraphProto& g) const {
    INFER_TRY(FillAll(*g.mutable_node()));
    INFER_TRY(FillAll(*g.mutable_initializer()));
    return FillAll(*g.mutable_sparse_initializer());
  }
  Status Fill(onnx::FunctionProto& f) const {
    INFER_TRY(FillAll(*f.mutable_node()));
    // Defaults of attributes: a field younger than our classes.
    constexpr int kAttributeProto = 11;
    auto& fields = *f.GetReflection()->MutableUnknownFields(&f);
    for (int i = 0; i < fields.field_count(); ++i) {
      auto& field = *fields.mutable_field(i);
      if (field.number() != kAttributeProto ||
          field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
        continue;
      onnx::AttributeProto a;
      if (!a.ParseFromString(field.length_delimited()))
        return InvalidModel(Cat("function '", f.name(), "': an attribute does not parse"));
      INFER_TRY(Fill(a));
      field.set_length_delimited(a.SerializeAsString());
    }
    return {};
  }
  template <typename List>
  Status FillAll(List& list) const {
    for (auto& x : list) INFER_TRY(Fill(x));
    return {};
  }
  static void ClearData(onnx::TensorProto& t) {
    t.clear_float_data();
    t.clear_int32_data();
    t.clear_int64_data();
    t.clear_double_data();
    t.clear_uint64_data();
    t.clear_string_data();
    t.clear_raw_data();
    t.clear_external_data();
    t.clear_data_location();
  }

 private:
  const TensorReader& tensors_;
};

/// Takes the initializers of the main graph out of it.
Status TakeInitializers(onnx::GraphProto& g, const TensorReader& tensors,
                        std::vector<PendingTensor>& out) {
  for (onnx::TensorProto& t : *g.mutable_initializer()) {
    INFER_ASSIGN(Tensor data, tensors.Read(t));
    PendingTensor pending{t.name(), std::move(data)};
    DataFiller::ClearData(t);
    t.clear_dims();
    t.clear_data_type();
    t.clear_name();
    pending.extra = t.SerializeAsString();
    out.push_back(std::move(pending));
  }
  g.clear_initializer();
  return {};
}

Status ReadParts(const ByteSource& source, ExternalData& external, const ImportOptions& options,
                 FileParts& parts) {
  ScanLimits limits;
  limits.max_nodes = options.limits.max_nodes;
  limits.max_functions = options.limits.max_functions;
  limits.max_graph_depth = options.limits.max_subgraph_depth;
  INFER_ASSIGN(const SlimMessage slim, Scan(source, Message::kModel, limits));
  onnx::ModelProto& proto = parts.header;
  if (!proto.ParseFromArray(slim.bytes.data(), static_cast<int>(slim.bytes.size())))
    return InvalidModel("not an ONNX model (the protobuf message does not parse)");
  if (!proto.has_graph()) return InvalidModel("not an ONNX model (it has no graph)");
  const TensorReader tensors(source, slim, external, options);
  const DataFiller filler(tensors);
  INFER_TRY(TakeInitializers(*proto.mutable_graph(), tensors, parts.written.initializers));
  INFER_TRY(filler.Fill(*proto.mutable_graph()));
  INFER_TRY(filler.FillAll(*proto.mutable_functions()));
  parts.written.graph.Swap(proto.mutable_graph());
  proto.clear_graph();
  return {};
}

Status ReadOrRefuse(const ByteSource& source, ExternalData& external, const ImportOptions& options,
                    FileParts& parts) {
  try {
    return ReadParts(source, external, options, parts);
  } catch (...) {
    return StatusOfException("while reading");
  }
}

}  // namespace

ModelFile::ModelFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
ModelFile::ModelFile(ModelFile&&) noexcept = default;
ModelFile& ModelFile::operator=(ModelFile&&) noexcept = default;
ModelFile::~ModelFile() = default;

Result<ModelFile> ModelFile::Read(const std::string& path, const ImportOptions& options) {
  INFER_ASSIGN(const auto file, InputFile::Open(path));
  ExternalData external = ExternalData::ForModel(path, options.external_root);
  external.RefuseModel(file->id());
  auto state = std::make_unique<State>();
  INFER_TRY(ReadOrRefuse(*file, external, options, state->parts).In(path));
  state->source_files = external.ids();
  state->source_files.push_back(file->id());
  return ModelFile(std::move(state));
}

Result<ModelFile> ModelFile::ReadBytes(std::string_view bytes, const ImportOptions& options) {
  ExternalData external;
  auto state = std::make_unique<State>();
  INFER_TRY(ReadOrRefuse(MemorySource(bytes), external, options, state->parts));
  return ModelFile(std::move(state));
}

Result<ModelFile> ModelFile::Of(const Model& model, const ExportOptions& options) {
  auto state = std::make_unique<State>();
  INFER_ASSIGN(state->parts, FilePartsOf(model, options));
  state->source_files = model.info.source_files;
  return ModelFile(std::move(state));
}

bool ModelFile::State::IsInitializer(const std::string& name) const {
  for (const PendingTensor& t : parts.written.initializers)
    if (t.name == name) return true;
  for (const auto& t : graph().sparse_initializer())
    if (t.values().name() == name) return true;
  return false;
}

const onnx::ValueInfoProto* ModelFile::State::FindInfo(const std::string& name) const {
  for (const auto* list : {&graph().input(), &graph().output(), &graph().value_info()})
    for (const onnx::ValueInfoProto& x : *list)
      if (x.name() == name && x.type().value_case() != onnx::TypeProto::VALUE_NOT_SET) return &x;
  return nullptr;
}

std::vector<std::string> ModelFile::InputNames() const {
  std::unordered_set<std::string> initializers;
  for (const PendingTensor& t : state_->parts.written.initializers) initializers.insert(t.name);
  for (const auto& t : state_->graph().sparse_initializer()) initializers.insert(t.values().name());
  std::vector<std::string> names;
  for (const auto& x : state_->graph().input())
    if (!initializers.contains(x.name())) names.push_back(x.name());
  return names;
}

std::vector<std::string> ModelFile::OutputNames() const {
  std::vector<std::string> names;
  for (const auto& x : state_->graph().output()) names.push_back(x.name());
  return names;
}

std::vector<std::string> ModelFile::ValueNames() const {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && seen.insert(name).second) names.push_back(name);
  };
  for (const auto& x : state_->graph().input()) add(x.name());
  for (const PendingTensor& t : state_->parts.written.initializers) add(t.name);
  for (const auto& t : state_->graph().sparse_initializer()) add(t.values().name());
  for (const auto& n : state_->graph().node())
    for (const std::string& name : n.output()) add(name);
  return names;
}

std::vector<std::string> ModelFile::NodeNames() const {
  std::vector<std::string> names;
  for (const auto& n : state_->graph().node())
    names.push_back(n.name().empty() && n.output_size() > 0 ? n.output(0) : n.name());
  return names;
}

bool ModelFile::KnowsType(const std::string& value) const {
  const onnx::ValueInfoProto* info = state_->FindInfo(value);
  return info && (!info->type().has_tensor_type() || info->type().tensor_type().has_shape());
}
int64_t ModelFile::num_nodes() const { return onnx_io::CountNodes(state_->graph()); }
int64_t ModelFile::ir_version() const { return state_->parts.header.ir_version(); }
std::map<std::string, int64_t> ModelFile::opsets() const {
  return OpsetsOf(state_->parts.header.opset_import());
}

Result<ExportReport> ModelFile::Write(const std::string& path, const ExportOptions& options) const {
  ExportReport report;
  const auto versions = opsets();
  const auto opset = versions.find("");
  report.opset = opset == versions.end() ? 0 : static_cast<int>(opset->second);
  report.opset_reason = "input's";
  report.ir_version = ir_version();
  for (const auto& f : state_->parts.header.functions())
    report.functions.push_back(Cat(f.domain(), "::", f.name()));
  INFER_TRY(WriteFileOf(state_->parts, path, state_->source_files, options, report));
  return report;
}

Result<std::string> ModelFile::Bytes() const { return BytesOfFile(state_->parts); }

}  // namespace infer
