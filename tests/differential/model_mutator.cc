#include "tests/differential/model_mutator.h"

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <map>

namespace infer {
namespace {

constexpr std::array<int64_t, 24> kExtremes = {
    15,        16,        31,        32,        64,        127,       128,        255,
    256,       65536,     1 << 24,   INT32_MAX, INT32_MIN, 1ll << 31, UINT32_MAX, 1ll << 32,
    1ll << 40, 1ll << 55, 1ll << 62, INT64_MAX, INT64_MIN, -128,      -65536,     -(1ll << 40)};
constexpr std::array kStrangeNumbers = {0.0f,
                                        -0.0f,
                                        1e-45f,
                                        1e-38f,
                                        1e38f,
                                        -1e38f,
                                        std::numeric_limits<float>::infinity(),
                                        -std::numeric_limits<float>::infinity(),
                                        std::numeric_limits<float>::quiet_NaN(),
                                        65504.0f};

/// Bytes of an element in raw_data; 0: packed or strings.
size_t BytesOf(int type) {
  if (type <= 0 || type >= kNumDTypes) return 0;
  return static_cast<size_t>(BitWidth(static_cast<DType>(type)) / 8);
}

}  // namespace

ModelMutator::ModelMutator(onnx::ModelProto& model, Random& random, const OpRegistry& ops)
    : model_(model), random_(random), ops_(ops) {}

int64_t ModelMutator::Integer() {
  return Coin(3) ? kExtremes[random_.Below(kExtremes.size())]
                 : static_cast<int64_t>(random_.Below(13)) - 4;
}

float ModelMutator::Number() {
  return Coin(3) ? kStrangeNumbers[random_.Below(kStrangeNumbers.size())]
                 : static_cast<float>(random_.Normal());
}

onnx::GraphProto& ModelMutator::AnyGraph() {
  onnx::GraphProto* graph = model_.mutable_graph();
  while (graph->node_size() > 0) {
    onnx::NodeProto& node = *graph->mutable_node(Index(graph->node_size()));
    if (node.attribute_size() == 0) break;
    onnx::AttributeProto& a = *node.mutable_attribute(Index(node.attribute_size()));
    if (!a.has_g() || Coin()) break;
    graph = a.mutable_g();
  }
  return *graph;
}

std::vector<std::string> ModelMutator::Names(const onnx::GraphProto& graph) const {
  std::vector<std::string> names;
  for (const auto& i : graph.input()) names.push_back(i.name());
  for (const auto& t : graph.initializer()) names.push_back(t.name());
  for (const auto& n : graph.node())
    for (const std::string& o : n.output()) names.push_back(o);
  if (names.empty()) names.emplace_back();
  return names;
}

void ModelMutator::Change(onnx::TypeProto& type) {
  if (Coin(12)) {  // another kind of value
    const onnx::TypeProto element = type;
    (Coin() ? type.mutable_sequence_type()->mutable_elem_type()
            : type.mutable_optional_type()->mutable_elem_type())
        ->CopyFrom(element);
    return;
  }
  auto& tensor = *type.mutable_tensor_type();
  if (Coin(6)) return tensor.set_elem_type(Index(kNumDTypes));
  auto& shape = *tensor.mutable_shape();
  if (Coin(8)) return tensor.clear_shape();
  if (shape.dim_size() == 0 || Coin(6)) {
    shape.add_dim()->set_dim_value(Integer());
  } else if (Coin(6)) {
    shape.mutable_dim()->RemoveLast();
  } else {
    auto& dim = *shape.mutable_dim(Index(shape.dim_size()));
    if (Coin(3))
      dim.set_dim_param(Coin() ? "N" : "M");
    else
      dim.set_dim_value(Integer());
  }
}

bool ModelMutator::OutputType() {
  onnx::GraphProto& graph = AnyGraph();
  if (graph.output_size() == 0) return false;
  Change(*graph.mutable_output(Index(graph.output_size()))->mutable_type());
  return true;
}

bool ModelMutator::InputType() {
  onnx::GraphProto& graph = AnyGraph();
  if (graph.input_size() == 0) return false;
  Change(*graph.mutable_input(Index(graph.input_size()))->mutable_type());
  return true;
}

/// A value inside is declared as something else is.
bool ModelMutator::InnerType() {
  onnx::GraphProto& graph = AnyGraph();
  const auto names = Names(graph);
  onnx::ValueInfoProto info;
  if (graph.output_size() > 0) info = graph.output(Index(graph.output_size()));
  if (graph.input_size() > 0 && Coin()) info = graph.input(Index(graph.input_size()));
  info.set_name(names[random_.Below(static_cast<uint32_t>(names.size()))]);
  Change(*info.mutable_type());
  *graph.add_value_info() = info;
  return true;
}

void ModelMutator::Change(onnx::AttributeProto& a) {
  const auto change = [&](auto& list, auto value) {
    if (list.empty() || Coin(4))
      list.Add(value);
    else if (Coin(4))
      list.RemoveLast();
    else
      list.Set(Index(list.size()), value);
  };
  switch (a.type()) {
    case onnx::AttributeProto::INT: a.set_i(Integer()); break;
    case onnx::AttributeProto::FLOAT: a.set_f(Number()); break;
    case onnx::AttributeProto::STRING: a.set_s(a.s().substr(0, a.s().size() / 2)); break;
    case onnx::AttributeProto::INTS: change(*a.mutable_ints(), Integer()); break;
    case onnx::AttributeProto::FLOATS: change(*a.mutable_floats(), Number()); break;
    case onnx::AttributeProto::STRINGS:
      if (a.strings_size() > 0 && Coin())
        a.mutable_strings()->RemoveLast();
      else
        a.add_strings("a");
      break;
    default: break;
  }
}

/// One of the node is changed, removed, or one of its schema given.
bool ModelMutator::Attribute() {
  onnx::GraphProto& graph = AnyGraph();
  if (graph.node_size() == 0) return false;
  onnx::NodeProto& node = *graph.mutable_node(Index(graph.node_size()));
  const OpDef* def = ops_.Find(node.domain(), node.op_type());
  if (node.attribute_size() > 0 && !Coin(4)) {
    const int at = Index(node.attribute_size());
    if (Coin(6))
      node.mutable_attribute()->DeleteSubrange(at, 1);
    else
      Change(*node.mutable_attribute(at));
    return true;
  }
  if (!def || def->attrs.empty()) return false;
  const AttrDef& attr = def->attrs[random_.Below(static_cast<uint32_t>(def->attrs.size()))];
  static const std::map<AttrKind, onnx::AttributeProto::AttributeType> kTypes = {
      {AttrKind::kInt, onnx::AttributeProto::INT},
      {AttrKind::kFloat, onnx::AttributeProto::FLOAT},
      {AttrKind::kInts, onnx::AttributeProto::INTS},
      {AttrKind::kFloats, onnx::AttributeProto::FLOATS},
      {AttrKind::kStrings, onnx::AttributeProto::STRINGS}};
  const auto type = kTypes.find(attr.kind);
  if (type == kTypes.end()) return false;
  onnx::AttributeProto& a = *node.add_attribute();
  a.set_name(std::string(attr.name));
  a.set_type(type->second);
  for (int i = Index(4); i >= 0; --i) Change(a);
  return true;
}

bool ModelMutator::Operand() {
  onnx::GraphProto& graph = AnyGraph();
  if (graph.node_size() == 0) return false;
  onnx::NodeProto& node = *graph.mutable_node(Index(graph.node_size()));
  const auto names = Names(graph);
  const std::string name = Coin(6) ? "" : names[random_.Below(static_cast<uint32_t>(names.size()))];
  if (Coin(6)) {
    node.add_output(Fresh());
    *graph.add_output() = onnx::ValueInfoProto();
    graph.mutable_output(graph.output_size() - 1)->set_name(node.output(node.output_size() - 1));
  } else if (node.input_size() == 0 || Coin(4)) {
    node.add_input(name);
  } else if (Coin(6)) {
    node.mutable_input()->RemoveLast();
  } else {
    node.set_input(Index(node.input_size()), name);
  }
  return true;
}

bool ModelMutator::Operator() {
  onnx::GraphProto& graph = AnyGraph();
  if (graph.node_size() == 0) return false;
  const OpDef& def = *ops_.all()[random_.Below(static_cast<uint32_t>(ops_.all().size()))];
  onnx::NodeProto& node = *graph.mutable_node(Index(graph.node_size()));
  node.set_op_type(std::string(def.name));
  node.set_domain(std::string(def.domain));
  return true;
}

bool ModelMutator::Repeat() {
  onnx::GraphProto& graph = AnyGraph();
  if (graph.node_size() == 0 || graph.node_size() > 64) return false;
  onnx::NodeProto node = graph.node(Index(graph.node_size()));
  for (std::string& o : *node.mutable_output()) o = Fresh();
  if (node.output_size() > 0) graph.add_output()->set_name(node.output(0));
  *graph.add_node() = node;
  return true;
}

bool ModelMutator::Remove() {
  onnx::GraphProto& graph = AnyGraph();
  if (graph.node_size() < 2) return false;
  graph.mutable_node()->DeleteSubrange(Index(graph.node_size()), 1);
  return true;
}

/// An operator of one operand between a value and one of its readers.
bool ModelMutator::Insert() {
  static constexpr std::array kOps = {"Identity", "Relu",    "Neg",      "Shape", "Transpose",
                                      "Flatten",  "Squeeze", "NonZero",  "Size",  "Softmax",
                                      "Not",      "Unique",  "ReduceSum"};
  onnx::GraphProto& graph = AnyGraph();
  if (graph.node_size() == 0) return false;
  const int at = Index(graph.node_size());
  onnx::NodeProto& reader = *graph.mutable_node(at);
  if (reader.input_size() == 0) return false;
  std::string& operand = *reader.mutable_input(Index(reader.input_size()));
  onnx::NodeProto made;
  made.set_op_type(kOps[random_.Below(kOps.size())]);
  made.add_input(operand);
  made.add_output(Fresh());
  operand = made.output(0);
  *graph.add_node() = made;
  for (int i = graph.node_size() - 1; i > at; --i) graph.mutable_node()->SwapElements(i, i - 1);
  return true;
}

onnx::TensorProto* ModelMutator::AnyTensor() {
  onnx::GraphProto& graph = AnyGraph();
  if (graph.initializer_size() > 0 && !Coin(6))
    return graph.mutable_initializer(Index(graph.initializer_size()));
  if (graph.node_size() == 0) return nullptr;
  for (auto& a : *graph.mutable_node(Index(graph.node_size()))->mutable_attribute())
    if (a.has_t()) return a.mutable_t();
  return nullptr;
}

bool ModelMutator::Element() {
  onnx::TensorProto* t = AnyTensor();
  if (!t) return false;
  const size_t size = BytesOf(t->data_type()), count = size ? t->raw_data().size() / size : 0;
  if (count == 0) return false;
  std::array<char, 16> bytes{};
  const auto dtype = static_cast<DType>(t->data_type());
  const double number = static_cast<double>(Number());
  const int64_t integer = Integer();
  const float single = static_cast<float>(number);
  const uint16_t half = dtype == DType::kF16 ? FloatToF16(single) : FloatToBF16(single);
  if (dtype == DType::kF32)
    std::memcpy(bytes.data(), &single, 4);
  else if (dtype == DType::kF64)
    std::memcpy(bytes.data(), &number, 8);
  else if (dtype == DType::kF16 || dtype == DType::kBF16)
    std::memcpy(bytes.data(), &half, 2);
  else
    std::memcpy(bytes.data(), &integer, 8);
  const size_t at = random_.Below(static_cast<uint32_t>(count));
  t->mutable_raw_data()->replace(at * size, size, bytes.data(), size);
  return true;
}

/// Other extents; the data follow, or do not.
bool ModelMutator::TensorShape() {
  onnx::TensorProto* t = AnyTensor();
  if (!t) return false;
  if (t->dims_size() == 0 || Coin(4))
    t->add_dims(Coin() ? 1 : random_.Below(5));
  else if (Coin(4))
    t->mutable_dims()->RemoveLast();
  else
    t->set_dims(Index(t->dims_size()), random_.Below(9));
  if (Coin(12)) t->set_data_type(Index(kNumDTypes));
  size_t bytes = BytesOf(t->data_type());
  for (const int64_t d : t->dims()) bytes *= static_cast<size_t>(d);
  if (bytes > 0 && bytes < 65536 && !Coin(8)) {
    std::string data = t->raw_data().empty() ? std::string(1, '\0') : t->raw_data();
    while (data.size() < bytes) data += data;
    t->set_raw_data(data.substr(0, bytes));
  }
  return true;
}

bool ModelMutator::ConstantToInput() {
  onnx::GraphProto& graph = *model_.mutable_graph();
  if (graph.initializer_size() == 0) return false;
  const onnx::TensorProto& t = graph.initializer(Index(graph.initializer_size()));
  for (const auto& i : graph.input())
    if (i.name() == t.name()) return false;
  onnx::ValueInfoProto& input = *graph.add_input();
  input.set_name(t.name());
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(t.data_type());
  if (Coin(3)) return true;
  for (const int64_t d : t.dims()) {
    auto& dim = *type.mutable_shape()->add_dim();
    if (!Coin(3)) dim.set_dim_value(d);
  }
  return true;
}

bool ModelMutator::InputToConstant() {
  onnx::GraphProto& graph = *model_.mutable_graph();
  if (graph.input_size() == 0) return false;
  graph.mutable_input()->DeleteSubrange(Index(graph.input_size()), 1);
  return true;
}

bool ModelMutator::FurtherOutput() {
  onnx::GraphProto& graph = AnyGraph();
  const auto names = Names(graph);
  onnx::ValueInfoProto& output = *graph.add_output();
  if (graph.output_size() > 1 && Coin()) output = graph.output(0);
  output.set_name(names[random_.Below(static_cast<uint32_t>(names.size()))]);
  return true;
}

bool ModelMutator::Opset() {
  if (model_.opset_import_size() == 0) return false;
  model_.mutable_opset_import(0)->set_version(7 + Index(21));
  return true;
}

bool ModelMutator::Change() {
  using Way = bool (ModelMutator::*)();
  static constexpr std::array<Way, 22> kWays = {
      &ModelMutator::OutputType,      &ModelMutator::OutputType,
      &ModelMutator::InnerType,       &ModelMutator::InnerType,
      &ModelMutator::InputType,       &ModelMutator::InputType,
      &ModelMutator::Attribute,       &ModelMutator::Attribute,
      &ModelMutator::Attribute,       &ModelMutator::Operand,
      &ModelMutator::Operator,        &ModelMutator::Repeat,
      &ModelMutator::Remove,          &ModelMutator::Insert,
      &ModelMutator::Element,         &ModelMutator::Element,
      &ModelMutator::TensorShape,     &ModelMutator::ConstantToInput,
      &ModelMutator::ConstantToInput, &ModelMutator::InputToConstant,
      &ModelMutator::FurtherOutput,   &ModelMutator::Opset};
  return (this->*kWays[random_.Below(kWays.size())])();
}

void ModelMutator::Append(onnx::ModelProto other) {
  onnx::GraphProto& graph = *model_.mutable_graph();
  onnx::GraphProto& behind = *other.mutable_graph();
  const std::string prefix = Fresh();
  const auto names = Names(graph);
  const std::string joint =
      behind.input_size() ? behind.input(Index(behind.input_size())).name() : "";
  const std::string value = names[random_.Below(static_cast<uint32_t>(names.size()))];
  const std::function<void(onnx::GraphProto&)> rename = [&](onnx::GraphProto& g) {
    const auto to = [&](std::string* name) {
      if (!name->empty()) *name = *name == joint ? value : prefix + *name;
    };
    for (auto& i : *g.mutable_input()) to(i.mutable_name());
    for (auto& o : *g.mutable_output()) to(o.mutable_name());
    for (auto& v : *g.mutable_value_info()) to(v.mutable_name());
    for (auto& t : *g.mutable_initializer()) to(t.mutable_name());
    for (auto& n : *g.mutable_node()) {
      for (std::string& i : *n.mutable_input()) to(&i);
      for (std::string& o : *n.mutable_output()) to(&o);
      for (auto& a : *n.mutable_attribute())
        if (a.has_g()) rename(*a.mutable_g());
    }
  };
  rename(behind);
  for (int i = behind.input_size(); i-- > 0;)
    if (behind.input(i).name() == value) behind.mutable_input()->DeleteSubrange(i, 1);
  for (int i = behind.initializer_size(); i-- > 0;)
    if (behind.initializer(i).name() == value) behind.mutable_initializer()->DeleteSubrange(i, 1);
  graph.mutable_node()->MergeFrom(behind.node());
  graph.mutable_input()->MergeFrom(behind.input());
  graph.mutable_output()->MergeFrom(behind.output());
  graph.mutable_initializer()->MergeFrom(behind.initializer());
  for (const auto& o : other.opset_import()) {
    bool known = false;
    for (const auto& own : model_.opset_import()) known |= own.domain() == o.domain();
    if (!known) *model_.add_opset_import() = o;
  }
}

}  // namespace infer
