#include "tests/judge/shapes/variants.h"

#include <algorithm>
#include <functional>
#include <set>

namespace infer::judge {

std::vector<std::string> InputNames(const onnx::GraphProto& g) {
  std::set<std::string> given;
  for (const auto& t : g.initializer()) given.insert(t.name());
  for (const auto& t : g.sparse_initializer()) given.insert(t.values().name());
  std::vector<std::string> names;
  for (const auto& x : g.input())
    if (!given.contains(x.name())) names.push_back(x.name());
  return names;
}

namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::TensorProto;
using Dimension = onnx::TensorShapeProto::Dimension;

void DropShape(onnx::ValueInfoProto& v) {
  if (v.type().has_tensor_type()) v.mutable_type()->mutable_tensor_type()->clear_shape();
}

/// What a file says of inner values is no inference: bodies lose it too, element types stay.
void Strip(GraphProto& g, bool body = false) {
  g.clear_value_info();
  for (auto& output : *g.mutable_output()) DropShape(output);
  if (body)
    for (auto& input : *g.mutable_input()) DropShape(input);
  for (auto& node : *g.mutable_node())
    for (auto& a : *node.mutable_attribute())
      if (a.has_g()) Strip(*a.mutable_g(), true);
}

/// Calls f(position, its tensor type) for every tensor that a caller must give.
void ForInputs(GraphProto& g, const std::function<void(int, onnx::TypeProto::Tensor&)>& f) {
  const std::vector<std::string> names = InputNames(g);
  for (auto& input : *g.mutable_input()) {
    const auto it = std::find(names.begin(), names.end(), input.name());
    if (it != names.end() && input.type().has_tensor_type())
      f(static_cast<int>(it - names.begin()), *input.mutable_type()->mutable_tensor_type());
  }
}

/// Calls f(input's position, axis, extent) for every axis.
void ForExtents(GraphProto& g, const std::function<void(int, int, Dimension&)>& f) {
  ForInputs(g, [&](int i, onnx::TypeProto::Tensor& t) {
    for (int axis = 0; axis < t.shape().dim_size(); ++axis)
      f(i, axis, *t.mutable_shape()->mutable_dim(axis));
  });
}

/// A file's own symbols stay: together with ours they would only be more names.
void ShareSymbols(GraphProto& g) {
  ForExtents(g, [](int, int, Dimension& d) {
    if (d.has_dim_value() && d.dim_value() > 1)
      d.set_dim_param("d" + std::to_string(d.dim_value()));
  });
}

void AddInput(GraphProto& g, const TensorProto& t) {
  for (const auto& x : g.input())
    if (x.name() == t.name()) return;
  auto* input = g.add_input();
  input->set_name(t.name());
  auto* type = input->mutable_type()->mutable_tensor_type();
  type->set_elem_type(t.data_type());
  type->mutable_shape();
  for (int64_t d : t.dims()) type->mutable_shape()->add_dim()->set_dim_value(d);
}

/// The type (no data) of what a Constant makes; false for forms that only strings have.
bool ConstantType(const onnx::NodeProto& node, TensorProto& t) {
  if (node.op_type() != "Constant" || !node.domain().empty() || node.attribute_size() != 1)
    return false;
  const auto& a = node.attribute(0);
  if (a.name() == "value") {
    t = a.t();
  } else if (a.name() == "value_int" || a.name() == "value_ints") {
    t.set_data_type(TensorProto::INT64);
    if (a.name() == "value_ints") t.add_dims(a.ints_size());
  } else if (a.name() == "value_float" || a.name() == "value_floats") {
    t.set_data_type(TensorProto::FLOAT);
    if (a.name() == "value_floats") t.add_dims(a.floats_size());
  } else {
    return false;
  }
  t.set_name(node.output(0));
  return true;
}

void ConstantsToInputs(GraphProto& g) {
  for (const auto& t : g.initializer()) AddInput(g, t);
  g.clear_initializer();
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (auto& node : *g.mutable_node()) {
    TensorProto t;
    if (ConstantType(node, t))
      AddInput(g, t);
    else
      *nodes.Add() = node;
  }
  g.mutable_node()->Swap(&nodes);
}

bool IsSmall(const TensorProto& t) {
  int64_t n = 1;
  for (int64_t d : t.dims()) n *= d;
  return t.data_type() != 0 && t.dims_size() <= 1 && n <= 64;
}

void InputsToConstants(GraphProto& g, const std::vector<TensorProto>& data) {
  const std::vector<std::string> names = InputNames(g);
  std::set<std::string> constants;
  ForInputs(g, [&](int i, onnx::TypeProto::Tensor& type) {
    const auto at = static_cast<size_t>(i);
    if (at >= data.size() || !IsSmall(data[at]) || data[at].data_type() != type.elem_type()) return;
    TensorProto* t = g.add_initializer();
    *t = data[at];
    t->set_name(names[at]);
    constants.insert(names[at]);
  });
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs;
  for (const auto& x : g.input())
    if (!constants.contains(x.name())) *inputs.Add() = x;
  g.mutable_input()->Swap(&inputs);
}

}  // namespace

std::vector<Variant> VariantsOf(const ModelProto& model, const std::vector<TensorProto>& data) {
  std::vector<Variant> all = {{"as is", model}};
  ModelProto stripped = model;
  Strip(*stripped.mutable_graph());
  auto add = [&](const char* name, const std::function<void(GraphProto&)>& change) {
    Variant v{name, stripped};
    change(*v.model.mutable_graph());
    if (v.model.ir_version() < 4 && v.model.graph().initializer_size() > 0)
      v.model.set_ir_version(4);  // before, every initializer had to be an input
    const std::string inputs = v.model.SerializeAsString();
    for (const Variant& other : all)
      if (other.model.SerializeAsString() == inputs) return;
    all.push_back(std::move(v));
  };
  add("stripped", [](GraphProto&) {});
  add("symbols", [](GraphProto& g) {
    ForExtents(g, [](int i, int axis, Dimension& d) {
      d.set_dim_param("i" + std::to_string(i) + "_" + std::to_string(axis));
    });
  });
  add("shared", ShareSymbols);
  add("batch", [](GraphProto& g) {
    int64_t batch = -1;
    ForExtents(g, [&](int, int axis, Dimension& d) {
      if (axis != 0 || !d.has_dim_value()) return;
      if (batch < 0) batch = d.dim_value();
      if (batch == d.dim_value()) d.set_dim_param("N");
    });
  });
  add("unknown", [](GraphProto& g) { ForExtents(g, [](int, int, Dimension& d) { d.Clear(); }); });
  add("rankless", [](GraphProto& g) {
    ForInputs(g, [](int, onnx::TypeProto::Tensor& t) { t.clear_shape(); });
  });
  add("inputs", ConstantsToInputs);
  add("inputs+shared", [](GraphProto& g) {
    ConstantsToInputs(g);
    ShareSymbols(g);
  });
  add("constants", [&](GraphProto& g) { InputsToConstants(g, data); });
  add("constants+shared", [&](GraphProto& g) {
    InputsToConstants(g, data);
    ShareSymbols(g);
  });
  return all;
}

}  // namespace infer::judge
