/// TensorProto, SequenceProto and OptionalProto files: the data sets of ONNX's backend tests.
#include <onnx/onnx-data_pb.h>

#include <type_traits>

#include "lib/onnx/import.h"
#include "lib/onnx/tensor_proto.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace onnx_io;  // NOLINT: as import.cc

/// Parses a slimmed message and turns it into a value. A message of another kind mostly parses,
/// too, with its fields unknown.
template <typename Proto, typename Convert>
Result<Datum> Parse(const SlimMessage& slim, const char* what, const Convert& convert) {
  Proto proto;
  if (!proto.ParseFromArray(slim.bytes.data(), static_cast<int>(slim.bytes.size())))
    return InvalidModel("the protobuf message does not parse");
  // A later ONNX may give tensors more fields.
  if (!std::is_same_v<Proto, onnx::TensorProto> && !proto.unknown_fields().empty())
    return InvalidModel(Cat("holds no ", what));
  return convert(proto);
}

class DatumReader {
 public:
  explicit DatumReader(const TensorReader& tensors) : tensors_(tensors) {}

  Result<Datum> operator()(const onnx::TensorProto& p) const {
    INFER_ASSIGN(Tensor t, tensors_.Read(p));
    return Datum(std::move(t));
  }

  Result<Datum> operator()(const onnx::SequenceProto& p) const {
    SequenceDatum out;
    auto append = [&](const auto& list) -> Status {
      for (const auto& x : list) {
        INFER_ASSIGN(Datum d, (*this)(x));
        out.elements.push_back(std::move(d));
      }
      return {};
    };
    switch (p.elem_type()) {
      case onnx::SequenceProto::TENSOR: INFER_TRY(append(p.tensor_values())); break;
      case onnx::SequenceProto::SEQUENCE: INFER_TRY(append(p.sequence_values())); break;
      case onnx::SequenceProto::OPTIONAL: INFER_TRY(append(p.optional_values())); break;
      case onnx::SequenceProto::MAP: INFER_TRY(append(p.map_values())); break;
      case onnx::SequenceProto::SPARSE_TENSOR: INFER_TRY(append(p.sparse_tensor_values())); break;
      default: INFER_TRY(append(p.tensor_values())); break;
    }
    return Datum(std::move(out));
  }

  Result<Datum> operator()(const onnx::OptionalProto& p) const {
    auto wrap = [](Result<Datum> d) -> Result<Datum> {
      if (!d.ok()) return d.status();
      return Datum(OptionalDatum{std::make_shared<const Datum>(*std::move(d))});
    };
    if (p.has_tensor_value()) return wrap((*this)(p.tensor_value()));
    if (p.has_sequence_value()) return wrap((*this)(p.sequence_value()));
    if (p.has_map_value()) return wrap((*this)(p.map_value()));
    if (p.has_optional_value()) return wrap((*this)(p.optional_value()));
    if (p.has_sparse_tensor_value()) return wrap((*this)(p.sparse_tensor_value()));
    return Datum(OptionalDatum{});
  }

  Result<Datum> operator()(const onnx::MapProto& p) const {
    INFER_ASSIGN(Datum values, (*this)(p.values()));
    INFER_ASSIGN(const DType key, CheckedDType(p.key_type()));
    MapDatum out;
    if (key == DType::kString) {
      out.keys = Tensor::OfStrings({p.string_keys_size()},
                                   {p.string_keys().begin(), p.string_keys().end()});
    } else {
      if (!IsInteger(key)) return InvalidModel(Cat("a map with keys of type ", Name(key)));
      out.keys = Tensor(key, {p.keys_size()});
      for (int i = 0; i < p.keys_size(); ++i) out.keys.SetInt(i, p.keys(i));
    }
    if (values.sequence().size() != static_cast<size_t>(out.keys.num_elements()))
      return InvalidModel("a map with unequal numbers of keys and values");
    out.values = std::make_shared<const Datum>(std::move(values));
    return Datum(std::move(out));
  }

  Result<Datum> operator()(const onnx::SparseTensorProto& p) const {
    INFER_ASSIGN(Tensor t, tensors_.Read(p));
    return Datum(std::move(t));
  }

 private:
  const TensorReader& tensors_;
};

Message RootOf(ValueType::Kind kind) {
  switch (kind) {
    case ValueType::Kind::kTensor: return Message::kTensor;
    case ValueType::Kind::kSequence: return Message::kSequence;
    case ValueType::Kind::kOptional: return Message::kOptional;
    case ValueType::Kind::kMap: return Message::kMap;
  }
  return Message::kTensor;
}

/// The file read as a message of this kind.
Result<Datum> ReadAs(const ByteSource& source, ValueType::Kind kind) {
  INFER_ASSIGN(const SlimMessage slim, Scan(source, RootOf(kind), {}));
  ExternalData none;
  const ImportOptions options;
  const TensorReader tensors(source, slim, none, options);
  const DatumReader reader(tensors);
  switch (kind) {
    case ValueType::Kind::kTensor: return Parse<onnx::TensorProto>(slim, "tensor", reader);
    case ValueType::Kind::kSequence: return Parse<onnx::SequenceProto>(slim, "sequence", reader);
    case ValueType::Kind::kOptional: return Parse<onnx::OptionalProto>(slim, "optional", reader);
    case ValueType::Kind::kMap: return Parse<onnx::MapProto>(slim, "map", reader);
  }
  return Internal("value kind");
}

/// The kind that an OptionalProto names for its value; kind optional where it names none.
ValueType::Kind KindIn(const onnx::OptionalProto& p) {
  switch (p.elem_type()) {
    case onnx::OptionalProto::TENSOR:
    case onnx::OptionalProto::SPARSE_TENSOR: return ValueType::Kind::kTensor;
    case onnx::OptionalProto::SEQUENCE: return ValueType::Kind::kSequence;
    case onnx::OptionalProto::MAP: return ValueType::Kind::kMap;
    default: return ValueType::Kind::kOptional;
  }
}

/// Whether the file is an optional of `element`, not the element itself. Sequences and optionals
/// have the same fields: what they say that they hold tells them apart.
bool IsOptionalOf(const ByteSource& source, ValueType::Kind element) {
  const auto slim = Scan(source, Message::kOptional, {});
  if (!slim.ok()) return false;
  bool is = false;
  (void)Parse<onnx::OptionalProto>(*slim, "optional",
                                   [&](const onnx::OptionalProto& p) -> Result<Datum> {
                                     const ValueType::Kind kind = KindIn(p);
                                     is = kind == element || kind == ValueType::Kind::kOptional;
                                     return Datum();
                                   });
  return is;
}

/// The value of an optional input may lie in a file as an optional or by itself.
Result<Datum> ReadDatum(const ByteSource& source, const ValueType& type) {
  if (type.kind() != ValueType::Kind::kOptional) return ReadAs(source, type.kind());
  if (IsOptionalOf(source, type.element().kind()))
    return ReadAs(source, ValueType::Kind::kOptional);
  return ReadDatum(source, type.element());
}

}  // namespace

Result<Datum> ReadDatumPb(const std::string& path, const ValueType& type) {
  INFER_ASSIGN(const auto file, InputFile::Open(path));
  auto datum = ReadDatum(*file, type);
  if (!datum.ok()) return datum.status().In(path);
  return datum;
}

Status WriteTensorPb(const Tensor& t, const std::string& path, const std::string& name) {
  onnx::TensorProto proto;
  if (t.byte_size() > INT32_MAX - 4096)
    return Unsupported(Cat(path, ": a TensorProto holds less than 2 GiB"));
  if (!name.empty()) proto.set_name(name);
  FillTensorProto(t, proto);
  return WriteFileAtomically(path, proto.SerializeAsString()).In(path);
}

}  // namespace infer
