#include "lib/onnx/attribute_proto.h"

#include "lib/onnx/type_proto.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {

using onnx::AttributeProto;

AttributeProto::AttributeType KindOf(const AttributeProto& p) {
  if (p.type() != AttributeProto::UNDEFINED) return p.type();
  if (p.has_f()) return AttributeProto::FLOAT;
  if (p.has_i()) return AttributeProto::INT;
  if (p.has_s()) return AttributeProto::STRING;
  if (p.has_t()) return AttributeProto::TENSOR;
  if (p.has_g()) return AttributeProto::GRAPH;
  if (p.floats_size() > 0) return AttributeProto::FLOATS;
  if (p.ints_size() > 0) return AttributeProto::INTS;
  if (p.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

Result<AttrValue> FromAttribute(const AttributeProto& p, const TensorReader& tensors,
                                int64_t max_rank) {
  switch (KindOf(p)) {
    case AttributeProto::FLOAT: return AttrValue(p.f());
    case AttributeProto::INT: return AttrValue(int64_t{p.i()});
    case AttributeProto::STRING: return AttrValue(p.s());
    case AttributeProto::FLOATS:
      return AttrValue(std::vector<float>(p.floats().begin(), p.floats().end()));
    case AttributeProto::INTS:
      return AttrValue(std::vector<int64_t>(p.ints().begin(), p.ints().end()));
    case AttributeProto::STRINGS:
      return AttrValue(std::vector<std::string>(p.strings().begin(), p.strings().end()));
    case AttributeProto::TENSOR: {
      INFER_ASSIGN(Tensor t, tensors.Read(p.t()));
      return AttrValue(std::move(t));
    }
    case AttributeProto::SPARSE_TENSOR: {
      INFER_ASSIGN(Tensor t, tensors.Read(p.sparse_tensor()));
      return AttrValue(std::move(t));
    }
    case AttributeProto::TYPE_PROTO: {
      INFER_ASSIGN(ValueType t, FromTypeProto(p.tp(), max_rank));
      return AttrValue(std::move(t));
    }
    case AttributeProto::UNDEFINED:
      return InvalidModel(Cat("attribute '", p.name(), "' has no type or an unknown one"));
    default: break;
  }
  return Unsupported(Cat("attribute '", p.name(), "' is a list of tensors, graphs or types"));
}

void FillAttribute(std::string_view name, const AttrValue& value, AttributeProto& p) {
  p.set_name(std::string(name));
  std::visit(
      [&]<typename T>(const T& x) {
        if constexpr (std::is_same_v<T, int64_t>) {
          p.set_type(AttributeProto::INT);
          p.set_i(x);
        } else if constexpr (std::is_same_v<T, float>) {
          p.set_type(AttributeProto::FLOAT);
          p.set_f(x);
        } else if constexpr (std::is_same_v<T, std::string>) {
          p.set_type(AttributeProto::STRING);
          p.set_s(x);
        } else if constexpr (std::is_same_v<T, Tensor>) {
          p.set_type(AttributeProto::TENSOR);
          FillTensorProto(x, *p.mutable_t());
        } else if constexpr (std::is_same_v<T, ValueType>) {
          p.set_type(AttributeProto::TYPE_PROTO);
          ToTypeProto(x, *p.mutable_tp());
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
          p.set_type(AttributeProto::INTS);
          for (int64_t v : x) p.add_ints(v);
        } else if constexpr (std::is_same_v<T, std::vector<float>>) {
          p.set_type(AttributeProto::FLOATS);
          for (float v : x) p.add_floats(v);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          p.set_type(AttributeProto::STRINGS);
          for (const std::string& v : x) p.add_strings(v);
        }
      },
      value);
}

Tensor ConstantOf(const AttrValue& value) {
  if (auto* t = std::get_if<Tensor>(&value)) return *t;
  if (auto* i = std::get_if<int64_t>(&value)) return Tensor::Scalar<int64_t>(*i);
  if (auto* f = std::get_if<float>(&value)) return Tensor::Scalar<float>(*f);
  if (auto* s = std::get_if<std::string>(&value)) return Tensor::OfStrings({}, {*s});
  if (auto* v = std::get_if<std::vector<int64_t>>(&value)) return Tensor::Int64s(*v);
  if (auto* v = std::get_if<std::vector<float>>(&value))
    return Tensor::Of<float>({static_cast<int64_t>(v->size())}, *v);
  if (auto* v = std::get_if<std::vector<std::string>>(&value))
    return Tensor::OfStrings({static_cast<int64_t>(v->size())}, *v);
  return {};
}

}  // namespace infer::onnx_io
