#include "lib/onnx/tensor_proto.h"

#include <sys/mman.h>

#include <cstring>

#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

/// The typed field of TensorProto that holds a type's elements when raw_data does not.
enum class TypedField : uint32_t {
  kFloat = 4,
  kInt32 = 5,
  kString = 6,
  kInt64 = 7,
  kDouble = 10,
  kUint64 = 11,
};

TypedField TypedFieldOf(DType t) {
  switch (t) {
    case DType::kF32:
    case DType::kC64: return TypedField::kFloat;
    case DType::kF64:
    case DType::kC128: return TypedField::kDouble;
    case DType::kI64: return TypedField::kInt64;
    case DType::kU32:
    case DType::kU64: return TypedField::kUint64;
    case DType::kString: return TypedField::kString;
    default: return TypedField::kInt32;
  }
}

/// Bytes per entry of the integer fields: packed types hold one byte of elements per entry.
int64_t EntryBytes(DType t) { return std::max(1, BitWidth(t) / 8); }

Status SizeMismatch(DType dtype, const Dims& dims, int64_t wanted, uint64_t found,
                    std::string_view unit) {
  return InvalidModel(Cat(Name(dtype), ToString(dims), " needs ", wanted, " ", unit, ", but ",
                          found, " are given"));
}

/// Anything but 0 and 1 in a bool would be undefined behaviour to read.
void NormalizeBools(Tensor& t) {
  if (t.dtype() != DType::kBool) return;
  std::byte* p = t.mutable_raw();
  for (int64_t i = 0; i < t.num_elements(); ++i) p[i] = std::byte{p[i] != std::byte{0}};
}

/// Writes entry i of an integer field.
void PutEntry(Tensor& t, int64_t i, int64_t entry_bytes, uint64_t v) {
  std::memcpy(t.mutable_raw() + i * entry_bytes, &v, static_cast<size_t>(entry_bytes));
}

template <typename Field>
Result<Tensor> FromIntegers(const Field& field, DType dtype, Dims dims) {
  const int64_t width = EntryBytes(dtype);
  const int64_t wanted = PackedBytes(dtype, NumElements(dims)) / width;
  if (field.size() != wanted)
    return SizeMismatch(dtype, dims, wanted, static_cast<uint64_t>(field.size()), "entries");
  Tensor t(dtype, std::move(dims));
  for (int64_t i = 0; i < wanted; ++i)
    PutEntry(t, i, width, static_cast<uint64_t>(field[static_cast<int>(i)]));
  NormalizeBools(t);
  return t;
}

template <typename Field>
Result<Tensor> FromFloats(const Field& field, DType dtype, Dims dims) {
  const int64_t wanted = PackedBytes(dtype, NumElements(dims));
  const uint64_t found = static_cast<uint64_t>(field.size()) * sizeof(*field.data());
  if (found != static_cast<uint64_t>(wanted))
    return SizeMismatch(dtype, dims, wanted, found, "bytes");
  Tensor t(dtype, std::move(dims));
  if (found > 0) std::memcpy(t.mutable_raw(), field.data(), found);
  return t;
}

/// A tensor of zeros that takes no memory until somebody writes beside it: pages of nothing.
Result<Tensor> Absent(DType dtype, Dims dims) {
  const auto bytes = static_cast<size_t>(PackedBytes(dtype, NumElements(dims)));
  if (bytes == 0) return Tensor(dtype, std::move(dims));
  void* p = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return ResourceExhausted(Cat("no address space for ", HumanBytes(static_cast<int64_t>(bytes))));
  std::shared_ptr<const void> owner(
      p, [bytes](const void* q) { ::munmap(const_cast<void*>(q), bytes); });
  return Tensor(dtype, std::move(dims), Buffer::Borrow(p, bytes, std::move(owner)));
}

}  // namespace

Result<DType> CheckedDType(int number) {
  if (number == 0) return InvalidModel("a tensor without an element type");
  if (number < 0 || number >= kNumDTypes)
    return Unsupported(Cat("element type number ", number,
                           " is newer than this program; convert the model to a known type"));
  return static_cast<DType>(number);
}

Result<Dims> CheckedDims(const google::protobuf::RepeatedField<int64_t>& dims, DType dtype,
                         int64_t max_rank) {
  if (dims.size() > max_rank)
    return InvalidModel(Cat("rank ", dims.size(), " is over the limit of ", max_rank));
  Dims out(dims.begin(), dims.end());
  int64_t bytes = std::max(1, BitWidth(dtype) / 8);
  for (int64_t d : out) {
    if (d < 0) return InvalidModel(Cat("extent ", d, " is negative"));
    // The product of the other extents must fit even when one is 0.
    if (d > 0 && __builtin_mul_overflow(bytes, d, &bytes))
      return InvalidModel(Cat("extents ", ToString(out), " overflow"));
  }
  if (!CheckedNumElements(out)) return InvalidModel(Cat("extents ", ToString(out), " overflow"));
  return out;
}

Result<const Blob*> TensorReader::BlobOf(const onnx::TensorProto& proto) const {
  uint64_t index = UINT64_MAX;
  if (proto.raw_data().size() == 8) {
    index = 0;
    for (size_t i = 0; i < 8; ++i)
      index |= uint64_t{static_cast<uint8_t>(proto.raw_data()[i])} << (8 * i);
  }
  if (index >= slim_.blobs.size()) return InvalidModel("tensor data in an unexpected place");
  return &slim_.blobs[index];
}

Result<Tensor> TensorReader::ReadBlob(const Blob& blob, DType dtype, Dims dims) const {
  constexpr uint32_t kRawData = 9;
  if (dtype == DType::kString) return InvalidModel("strings cannot stand in raw_data");
  if (blob.field != kRawData && blob.field != static_cast<uint32_t>(TypedFieldOf(dtype)))
    return InvalidModel(
        Cat("the data of a ", Name(dtype), " tensor is in the field of another type"));
  const int64_t bytes = PackedBytes(dtype, NumElements(dims));
  if (blob.kind == Blob::Kind::kRaw) {
    if (blob.size != static_cast<uint64_t>(bytes))
      return SizeMismatch(dtype, dims, bytes, blob.size, "bytes");
    Tensor t(dtype, std::move(dims));
    if (bytes > 0) INFER_TRY(source_.Read(blob.offset, t.mutable_raw(), blob.size));
    NormalizeBools(t);
    return t;
  }
  const int64_t width = EntryBytes(dtype);
  const int64_t wanted = bytes / width;
  if (static_cast<uint64_t>(wanted) > blob.size)
    return SizeMismatch(dtype, dims, wanted, blob.size, "entries at most");
  Tensor t(dtype, std::move(dims));
  std::string chunk(size_t{1} << 16, '\0');
  uint64_t value = 0;
  int shift = 0;
  int64_t found = 0;
  for (uint64_t at = 0; at < blob.size; at += chunk.size()) {
    chunk.resize(static_cast<size_t>(std::min<uint64_t>(chunk.size(), blob.size - at)));
    INFER_TRY(source_.Read(blob.offset + at, chunk.data(), chunk.size()));
    for (const char c : chunk) {
      if (shift > 63) return InvalidModel("a number in packed tensor data does not end");
      value |= uint64_t{static_cast<uint8_t>(c) & 0x7fu} << shift;
      shift += 7;
      if (static_cast<uint8_t>(c) >= 0x80) continue;
      if (found < wanted) PutEntry(t, found, width, value);
      ++found;
      value = 0;
      shift = 0;
    }
  }
  if (found != wanted || shift != 0)
    return SizeMismatch(t.dtype(), t.dims(), wanted, static_cast<uint64_t>(found), "entries");
  NormalizeBools(t);
  return t;
}

Result<Tensor> TensorReader::ReadExternal(const onnx::TensorProto& proto, DType dtype,
                                          Dims dims) const {
  if (dtype == DType::kString) return InvalidModel("strings cannot stand in external data");
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& e : proto.external_data()) entries.emplace_back(e.key(), e.value());
  INFER_ASSIGN(const ExternalLocation where, ParseExternal(entries));
  const auto bytes = static_cast<uint64_t>(PackedBytes(dtype, NumElements(dims)));
  if (where.has_length && where.length != bytes)
    return SizeMismatch(dtype, dims, static_cast<int64_t>(bytes), where.length, "bytes");
  if (!options_.load_external_data) return Absent(dtype, std::move(dims));
  INFER_ASSIGN(const InputFile* file, external_.Open(where.location));
  if (where.offset > file->size() || bytes > file->size() - where.offset)
    return InvalidModel(Cat("external data '", where.location, "' has ", file->size(),
                            " bytes; the tensor wants ", bytes, " at ", where.offset));
  const ExternalRegions::Region region{file->id(), where.offset, bytes, dtype == DType::kBool};
  if (auto shared = regions_.Find(region)) return Tensor(dtype, std::move(dims), std::move(shared));
  if (bytes == 0) return Tensor(dtype, std::move(dims));
  INFER_TRY(regions_.Reserve(region, external_.bytes()));
  Tensor t(dtype, std::move(dims));
  INFER_TRY(file->Read(where.offset, t.mutable_raw(), bytes));
  NormalizeBools(t);
  regions_.Add(region, t.buffer());
  return t;
}

Result<Tensor> TensorReader::Read(const onnx::TensorProto& proto) const {
  auto read = [&]() -> Result<Tensor> {
    INFER_ASSIGN(const DType dtype, CheckedDType(proto.data_type()));
    INFER_ASSIGN(Dims dims, CheckedDims(proto.dims(), dtype, options_.limits.max_rank));
    if (proto.has_segment()) return InvalidModel("a tensor in segments");
    if (proto.data_location() == onnx::TensorProto::EXTERNAL)
      return ReadExternal(proto, dtype, std::move(dims));
    if (proto.has_raw_data()) {
      INFER_ASSIGN(const Blob* blob, BlobOf(proto));
      Tensor& known = read_[blob];
      if (!known.defined() || known.dtype() != dtype || known.dims() != dims) {
        INFER_ASSIGN(known, ReadBlob(*blob, dtype, std::move(dims)));
      }
      return known;
    }
    switch (TypedFieldOf(dtype)) {
      case TypedField::kFloat: return FromFloats(proto.float_data(), dtype, std::move(dims));
      case TypedField::kDouble: return FromFloats(proto.double_data(), dtype, std::move(dims));
      case TypedField::kInt32: return FromIntegers(proto.int32_data(), dtype, std::move(dims));
      case TypedField::kInt64: return FromIntegers(proto.int64_data(), dtype, std::move(dims));
      case TypedField::kUint64: return FromIntegers(proto.uint64_data(), dtype, std::move(dims));
      case TypedField::kString: break;
    }
    const int64_t wanted = NumElements(dims);
    if (proto.string_data_size() != wanted)
      return SizeMismatch(dtype, dims, wanted, static_cast<uint64_t>(proto.string_data_size()),
                          "strings");
    return Tensor::OfStrings(std::move(dims),
                             {proto.string_data().begin(), proto.string_data().end()});
  };
  Result<Tensor> out = read();
  if (!out.ok()) return out.status().In(Cat("tensor '", proto.name(), "'"));
  return out;
}

Result<Tensor> TensorReader::Read(const onnx::SparseTensorProto& proto) const {
  INFER_ASSIGN(const Tensor values, Read(proto.values()));
  INFER_ASSIGN(const Tensor indices, Read(proto.indices()));
  auto broken = [&](std::string_view why) {
    return InvalidModel(Cat("sparse tensor '", proto.values().name(), "': ", why));
  };
  const DType dtype = values.dtype();
  INFER_ASSIGN(const Dims dims, CheckedDims(proto.dims(), dtype, options_.limits.max_rank));
  if (values.rank() != 1 || indices.dtype() != DType::kI64)
    return broken("values must be a vector, indices int64");
  const int64_t n = values.dim(0);
  const bool linear = indices.dims() == Dims{n};
  if (!linear && indices.dims() != Dims{n, static_cast<int64_t>(dims.size())})
    return broken("indices must be [n] or [n, rank]");
  if (BitWidth(dtype) < 8) return broken(Cat("element type ", Name(dtype), " is not supported"));
  const int64_t count = NumElements(dims);
  const SparseKey key{values.buffer(), indices.buffer(), dims, dtype};
  if (const auto it = dense_.find(key); it != dense_.end()) return it->second;
  // A few bytes in the file must not become gigabytes, neither at once nor by many. Values that
  // several tensors share count once.
  const auto other = dense_.lower_bound({values.buffer(), nullptr, {}, DType::kUndefined});
  const bool counted = other != dense_.end() && std::get<0>(other->first) == values.buffer();
  const int64_t beyond = PackedBytes(dtype, count) - (counted ? 0 : 1000 * values.byte_size());
  if (beyond > sparse_left_)
    return InvalidModel(Cat("sparse tensor '", proto.values().name(), "' has ", n, " values but ",
                            count, " elements, over the limit of the model's sparse tensors"));
  sparse_left_ -= std::max<int64_t>(beyond, 0);
  Tensor out = Tensor::Zeros(dtype, dims);
  const auto width = static_cast<size_t>(BitWidth(dtype) / 8);
  const Dims strides = Strides(dims);
  const auto index = indices.data<int64_t>();
  for (int64_t i = 0; i < n; ++i) {
    int64_t at = linear ? index[static_cast<size_t>(i)] : 0;
    for (size_t k = 0; !linear && k < dims.size(); ++k) {
      const int64_t x = index[static_cast<size_t>(i) * dims.size() + k];
      if (x < 0 || x >= dims[k]) return broken("an index out of range");
      at += x * strides[k];
    }
    if (at < 0 || at >= count) return broken("an index out of range");
    std::memcpy(out.mutable_raw() + static_cast<size_t>(at) * width,
                values.raw() + static_cast<size_t>(i) * width, width);
  }
  dense_.emplace(key, out);
  return out;
}

void FillTensorHeader(const Tensor& t, onnx::TensorProto& proto) {
  proto.set_data_type(static_cast<int>(t.dtype()));
  for (int64_t d : t.dims()) proto.add_dims(d);
}

void FillTensorProto(const Tensor& t, onnx::TensorProto& proto) {
  FillTensorHeader(t, proto);
  if (t.dtype() == DType::kString) {
    for (const std::string& s : t.strings()) proto.add_string_data(s);
  } else {
    proto.set_raw_data(t.raw(), static_cast<size_t>(t.byte_size()));
  }
}

}  // namespace infer::onnx_io
