#include "lib/onnx/kept_fields.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace infer::onnx_io {
namespace {

using ProtoMessage = google::protobuf::Message;

/// Number of metadata_props in messages that have them only since ONNX 1.16: unknown to our
/// classes.
constexpr int kValueMetadata = 4, kNodeMetadata = 9, kTensorMetadata = 16;

const google::protobuf::UnknownFieldSet& UnknownOf(const ProtoMessage& m) {
  return m.GetReflection()->GetUnknownFields(m);
}
void KeepUnknown(const ProtoMessage& from, ProtoMessage& to) {
  to.GetReflection()->MutableUnknownFields(&to)->MergeFrom(UnknownOf(from));
}
/// metadata_props has another number in each message.
void MoveMetadata(const ProtoMessage& from, int from_number, ProtoMessage& to, int to_number) {
  const auto& fields = UnknownOf(from);
  for (int i = 0; i < fields.field_count(); ++i)
    if (fields.field(i).number() == from_number &&
        fields.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      to.GetReflection()->MutableUnknownFields(&to)->AddLengthDelimited(
          to_number, fields.field(i).length_delimited());
}

/// Collects one description per name, as a ValueInfoProto without a type.
class Collector {
 public:
  explicit Collector(onnx::GraphProto& out) : out_(out) {}

  void Add(const onnx::ValueInfoProto& x) {
    onnx::ValueInfoProto d;
    if (x.has_doc_string()) d.set_doc_string(x.doc_string());
    KeepUnknown(x, d);
    Put(x.name(), std::move(d));
  }
  void Add(const std::string& name, const onnx::TensorProto& t) {
    onnx::ValueInfoProto d;
    if (t.has_doc_string()) d.set_doc_string(t.doc_string());
    MoveMetadata(t, kTensorMetadata, d, kValueMetadata);
    Put(name, std::move(d));
  }
  /// A Constant node becomes an initializer, which says what the node said.
  void AddConstant(const onnx::NodeProto& n) {
    if (n.output_size() != 1 || n.attribute_size() != 1) return;
    Add(n.output(0), n.attribute(0).t());
    onnx::ValueInfoProto d;
    if (n.has_doc_string()) d.set_doc_string(n.doc_string());
    MoveMetadata(n, kNodeMetadata, d, kValueMetadata);
    Put(n.output(0), std::move(d));
  }

 private:
  void Put(const std::string& name, onnx::ValueInfoProto d) {
    if (d.ByteSizeLong() == 0 || name.empty() || !seen_.insert(name).second) return;
    d.set_name(name);
    *out_.add_value_info() = std::move(d);
  }

  onnx::GraphProto& out_;
  std::unordered_set<std::string> seen_;
};

/// The tensors that annotations name: no node need read them.
void KeepParameters(const onnx::GraphProto& g, const TensorReader& tensors,
                    onnx::GraphProto& kept) {
  std::unordered_set<std::string> wanted;
  for (const auto& a : g.quantization_annotation())
    for (const auto& p : a.quant_parameter_tensor_names()) wanted.insert(p.value());
  for (const auto& x : g.initializer()) {
    if (wanted.erase(x.name()) == 0) continue;
    const auto t = tensors.Read(x);
    if (!t.ok()) continue;  // of a type that we do not know; told where the model is built
    onnx::TensorProto& copy = *kept.add_initializer();
    FillTensorProto(*t, copy);
    copy.set_name(x.name());
  }
}

void DescribeTensor(const onnx::ValueInfoProto& d, PendingTensor& t) {
  onnx::TensorProto extra;
  if (d.has_doc_string()) extra.set_doc_string(d.doc_string());
  MoveMetadata(d, kValueMetadata, extra, kTensorMetadata);
  t.extra = extra.SerializeAsString();
}

/// Every mention of a value outside nodes: as input, output or in value_info.
using Mentions = std::unordered_multimap<std::string, onnx::ValueInfoProto*>;

void DescribeValue(onnx::ValueInfoProto d, const std::string& name, Mentions& mentions,
                   onnx::GraphProto& out) {
  if (!mentions.contains(name)) {
    onnx::ValueInfoProto* info = out.add_value_info();
    info->set_name(name);
    mentions.emplace(name, info);
  }
  d.clear_name();
  const auto [begin, end] = mentions.equal_range(name);
  for (auto it = begin; it != end; ++it) it->second->MergeFrom(d);
}

const std::string* WrittenName(const Graph& g, const std::string& name, const KeptTarget& target) {
  const Value* v = g.FindValue(name);
  return v ? target.name_of(*v) : nullptr;
}

/// Of a parameter that some node reads, too. A value that is not constant only took over the name.
const std::string* Parameter(const Graph& g, const std::string& name, const KeptTarget& target) {
  const Value* v = g.FindValue(name);
  return v && v->is_constant() ? target.name_of(*v) : nullptr;
}

void RestoreDescriptions(const Graph& g, const onnx::GraphProto& kept, const KeptTarget& target) {
  onnx::GraphProto& out = target.graph;
  Mentions mentions;
  for (auto* list : {out.mutable_input(), out.mutable_output(), out.mutable_value_info()})
    for (onnx::ValueInfoProto& x : *list) mentions.emplace(x.name(), &x);
  for (const onnx::ValueInfoProto& d : kept.value_info()) {
    const std::string* name = WrittenName(g, d.name(), target);
    if (!name) continue;
    const Value& v = *g.FindValue(d.name());
    if (PendingTensor* t = v.is_constant() ? target.initializer(*name) : nullptr)
      DescribeTensor(d, *t);
    if (!v.is_constant() || v.is_output()) DescribeValue(d, *name, mentions, out);
  }
}

/// An annotation stays while its tensor and all its parameters do.
void RestoreAnnotations(const Graph& g, onnx::GraphProto& kept, const KeptTarget& target) {
  std::unordered_map<std::string, onnx::TensorProto*> unread;
  for (auto& t : *kept.mutable_initializer()) unread[t.name()] = &t;
  std::unordered_map<std::string, std::string> placed;  // parameters that no node reads
  for (onnx::TensorAnnotation& a : *kept.mutable_quantization_annotation()) {
    const std::string* name = WrittenName(g, a.tensor_name(), target);
    const auto& parameters = a.quant_parameter_tensor_names();
    const bool complete = std::all_of(parameters.begin(), parameters.end(), [&](const auto& p) {
      return unread.contains(p.value()) || Parameter(g, p.value(), target);
    });
    if (!name || !complete) continue;
    a.set_tensor_name(*name);
    for (auto& p : *a.mutable_quant_parameter_tensor_names()) {
      if (const std::string* read = Parameter(g, p.value(), target)) {
        p.set_value(*read);
        continue;
      }
      const auto [it, fresh] = placed.try_emplace(p.value(), "");
      if (fresh) {
        it->second = target.fresh(p.value());
        onnx::TensorProto& t = *target.graph.add_initializer();
        t.Swap(unread.at(p.value()));
        t.set_name(it->second);
      }
      p.set_value(it->second);
    }
    *target.graph.add_quantization_annotation() = a;
  }
}

}  // namespace

std::string KeptFields(const onnx::GraphProto& g,
                       const std::vector<const onnx::NodeProto*>& constants,
                       const TensorReader& tensors) {
  onnx::GraphProto kept;
  if (g.has_doc_string()) kept.set_doc_string(g.doc_string());
  *kept.mutable_quantization_annotation() = g.quantization_annotation();
  KeepUnknown(g, kept);
  KeepParameters(g, tensors, kept);
  Collector all(kept);
  for (const auto& x : g.initializer()) all.Add(x.name(), x);
  for (const auto& x : g.sparse_initializer()) all.Add(x.values().name(), x.values());
  for (const onnx::NodeProto* n : constants) all.AddConstant(*n);
  for (const auto* list : {&g.input(), &g.output(), &g.value_info()})
    for (const auto& x : *list) all.Add(x);
  return kept.SerializeAsString();
}

std::string KeptFields(const onnx::NodeProto& node) {
  if (!node.has_doc_string() && UnknownOf(node).field_count() == 0) return "";
  onnx::NodeProto kept;
  if (node.has_doc_string()) kept.set_doc_string(node.doc_string());
  KeepUnknown(node, kept);
  return kept.SerializeAsString();
}

Status RestoreKeptFields(const Graph& g, const KeptTarget& target) {
  onnx::GraphProto kept;
  if (!kept.ParseFromString(g.extra())) return InvalidModel("the graph's kept fields do not parse");
  RestoreDescriptions(g, kept, target);
  RestoreAnnotations(g, kept, target);
  if (kept.has_doc_string()) target.graph.set_doc_string(kept.doc_string());
  KeepUnknown(kept, target.graph);
  return {};
}

}  // namespace infer::onnx_io
