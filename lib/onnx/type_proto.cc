#include "lib/onnx/type_proto.h"

#include <algorithm>
#include <string_view>

#include "lib/onnx/tensor_proto.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

constexpr std::string_view kAnyNames[] = {"", "?", "-1", "None", "none", "unknown", "Unknown"};

Result<ValueType> FromTensorType(const onnx::TypeProto::Tensor& proto, int64_t max_rank) {
  TensorType out;
  if (proto.elem_type() != 0) {
    INFER_ASSIGN(out.dtype, CheckedDType(proto.elem_type()));
  }
  if (!proto.has_shape()) return ValueType(out);
  if (proto.shape().dim_size() > max_rank)
    return InvalidModel(Cat("rank ", proto.shape().dim_size(), " is over the limit of ", max_rank));
  std::vector<Dim> dims;
  for (const auto& d : proto.shape().dim()) {
    // -1 stands for an open extent in many exporters' files; nothing else below 0 means anything.
    if (d.has_dim_value() && d.dim_value() < -1)
      return InvalidModel(Cat("extent ", d.dim_value(), " is negative"));
    if (d.has_dim_value() && d.dim_value() >= 0)
      dims.push_back(d.dim_value());
    else if (std::find(std::begin(kAnyNames), std::end(kAnyNames), d.dim_param()) !=
             std::end(kAnyNames))
      dims.push_back(Dim());
    else
      dims.push_back(Dim::Symbol(d.dim_param()));
  }
  out.shape = Shape(std::move(dims));
  if (!out.shape.CanExist())
    return InvalidModel(Cat("shape ", out.shape.ToString(), " has more than 2^56 elements"));
  return ValueType(out);
}

}  // namespace

Result<ValueType> FromTypeProto(const onnx::TypeProto& proto, int64_t max_rank) {
  switch (proto.value_case()) {
    case onnx::TypeProto::VALUE_NOT_SET: return ValueType();
    case onnx::TypeProto::kTensorType: return FromTensorType(proto.tensor_type(), max_rank);
    case onnx::TypeProto::kSequenceType: {
      INFER_ASSIGN(auto e, FromTypeProto(proto.sequence_type().elem_type(), max_rank));
      return ValueType::Sequence(std::move(e));
    }
    case onnx::TypeProto::kOptionalType: {
      INFER_ASSIGN(auto e, FromTypeProto(proto.optional_type().elem_type(), max_rank));
      return ValueType::Optional(std::move(e));
    }
    case onnx::TypeProto::kMapType: {
      INFER_ASSIGN(const DType key, CheckedDType(proto.map_type().key_type()));
      INFER_ASSIGN(auto e, FromTypeProto(proto.map_type().value_type(), max_rank));
      return ValueType::Map(key, std::move(e));
    }
    default:
      return Unsupported(
          "a sparse or opaque value; only tensors, sequences, optionals and "
          "maps are supported");
  }
}

bool ToTypeProto(const ValueType& type, onnx::TypeProto& proto) {
  switch (type.kind()) {
    case ValueType::Kind::kTensor: {
      const TensorType& t = type.tensor();
      if (t.dtype == DType::kUndefined && !t.shape.has_rank()) return false;
      auto* out = proto.mutable_tensor_type();
      out->set_elem_type(static_cast<int>(t.dtype));
      if (!t.shape.has_rank()) return true;
      auto* shape = out->mutable_shape();
      for (const Dim& d : t.shape.dims()) {
        auto* dim = shape->add_dim();
        if (d.is_static())
          dim->set_dim_value(d.value());
        else if (d.is_symbolic())
          dim->set_dim_param(d.ToString());
      }
      return true;
    }
    // The kind is worth writing where the element is unknown.
    case ValueType::Kind::kSequence:
      ToTypeProto(type.element(), *proto.mutable_sequence_type()->mutable_elem_type());
      return true;
    case ValueType::Kind::kOptional:
      ToTypeProto(type.element(), *proto.mutable_optional_type()->mutable_elem_type());
      return true;
    case ValueType::Kind::kMap:
      proto.mutable_map_type()->set_key_type(static_cast<int>(type.key()));
      ToTypeProto(type.element(), *proto.mutable_map_type()->mutable_value_type());
      return true;
  }
  return false;
}

}  // namespace infer::onnx_io
