#include "lib/onnx/value_info.h"

#include "lib/ir/inference.h"
#include "lib/onnx/type_proto.h"

namespace infer::onnx_io {

void FillInterface(const Value& v, const std::string& name, onnx::ValueInfoProto& out) {
  out.set_name(name);
  onnx::TypeProto type;
  if (ToTypeProto(v.type(), type)) *out.mutable_type() = std::move(type);
}

void FillValueInfo(const Graph& g, const std::unordered_set<const Value*>& interface,
                   onnx::GraphProto& out) {
  Graph inferred = g.Clone();
  const bool known = InferTypes(inferred).ok();
  for (const auto& v : g.values()) {
    if (v->is_constant() || !v->producer() || interface.contains(v.get())) continue;
    const Value* other = known ? inferred.FindValue(v->name()) : nullptr;
    if (other && other->type() == v->type()) continue;
    onnx::TypeProto type;
    if (!ToTypeProto(v->type(), type)) continue;
    onnx::ValueInfoProto& info = *out.add_value_info();
    info.set_name(v->name());
    *info.mutable_type() = std::move(type);
  }
}

}  // namespace infer::onnx_io
