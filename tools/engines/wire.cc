#include "tools/engines/wire.h"

#include <cstring>

#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tools/common/json_names.h"

namespace infer::peers {

Result<Json> WriteTensor(const Tensor& t, const std::string& name, const std::string& file) {
  if (t.dtype() == DType::kString || t.dtype() == DType::kUndefined)
    return Unsupported(
        Cat("'", name, "' is a tensor of ", Name(t.dtype()), ": engines are compared on numbers"));
  const auto bytes = t.bytes();
  INFER_TRY(WriteFileAtomically(
      file, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
  return Json{{"name", name}, {"dtype", Name(t.dtype())}, {"dims", t.dims()}, {"file", file}};
}

Result<Tensor> ReadTensor(const Json& described) {
  if (!described.is_object()) return InvalidModel("no description of a tensor");
  const std::string name = described.value("name", "");
  const auto dtype = ParseDType(described.value("dtype", ""));
  Dims dims;
  for (const Json& d : described.value("dims", Json::array())) {
    if (!d.is_number_integer() || d.get<int64_t>() < 0)
      return InvalidModel(Cat("tensor '", name, "': ", CompactJson(d), " is no extent"));
    dims.push_back(d.get<int64_t>());
  }
  const auto count = CheckedNumElements(dims);
  if (!dtype || BitWidth(*dtype) == 0 || !count)
    return InvalidModel(Cat("tensor '", name, "': type ", described.value("dtype", "?"),
                            ToString(dims), " is not known"));
  INFER_ASSIGN(const auto file, InputFile::Open(described.value("file", "")));
  const auto size = static_cast<uint64_t>(PackedBytes(*dtype, *count));
  if (file->size() != size)
    return InvalidModel(
        Cat("tensor '", name, "': ", file->size(), " bytes for ", Name(*dtype), ToString(dims)));
  Tensor t(*dtype, dims);
  if (size > 0) INFER_TRY(file->Read(0, t.mutable_raw(), size));
  return t;
}

Result<Json> WriteNumbersOrText(const Tensor& t, const std::string& name, const std::string& file) {
  if (t.dtype() != DType::kString) return WriteTensor(t, name, file);
  std::string bytes;
  for (const std::string& text : t.strings()) {
    const uint64_t size = text.size();
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(size >> (8 * i));
    bytes += text;
  }
  INFER_TRY(WriteFileAtomically(file, bytes));
  return Json{{"name", name}, {"dtype", Name(t.dtype())}, {"dims", t.dims()}, {"file", file}};
}

namespace {

/// Texts of a file, each behind its number of bytes.
Result<std::vector<std::string>> TextsIn(const std::string& bytes) {
  std::vector<std::string> texts;
  for (size_t at = 0; at < bytes.size();) {
    if (bytes.size() - at < 8) return InvalidModel("texts that end early");
    uint64_t size = 0;
    for (size_t i = 0; i < 8; ++i) size |= uint64_t{static_cast<uint8_t>(bytes[at + i])} << (8 * i);
    at += 8;
    if (size > bytes.size() - at) return InvalidModel("texts that end early");
    texts.push_back(bytes.substr(at, size));
    at += size;
  }
  return texts;
}

Result<Tensor> ReadNumbersOrText(const Json& described) {
  if (!described.is_object() || described.value("dtype", "") != Name(DType::kString))
    return ReadTensor(described);
  Dims dims;
  for (const Json& d : described.value("dims", Json::array()))
    dims.push_back(d.is_number_integer() ? d.get<int64_t>() : -1);
  const auto count = CheckedNumElements(dims);
  INFER_ASSIGN(const std::string bytes, ReadFile(described.value("file", "")));
  INFER_ASSIGN(auto texts, TextsIn(bytes));
  if (!count || *count != static_cast<int64_t>(texts.size()))
    return InvalidModel(Cat(texts.size(), " texts for ", ToString(dims)));
  return Tensor::OfStrings(dims, std::move(texts));
}

/// Element i of a tensor as one without axes.
Tensor ElementOf(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kString)
    return Tensor::OfStrings({}, {t.strings()[static_cast<size_t>(i)]});
  Tensor one(t.dtype(), {});
  const auto width = static_cast<size_t>(BitWidth(t.dtype()) / 8);
  std::memcpy(one.mutable_raw(), t.bytes().data() + static_cast<size_t>(i) * width, width);
  return one;
}

/// Elements [begin, end) of a tensor of rank 1.
Tensor PartOf(const Tensor& t, int64_t begin, int64_t end) {
  if (t.dtype() == DType::kString)
    return Tensor::OfStrings({end - begin},
                             {t.strings().begin() + begin, t.strings().begin() + end});
  Tensor part(t.dtype(), {end - begin});
  for (int64_t i = begin; i < end; ++i) part.SetInt(i - begin, t.IntAt(i));
  return part;
}

Result<std::vector<Datum>> ReadMaps(const Json& described) {
  if (!described.is_object()) return InvalidModel("no description of maps");
  INFER_ASSIGN(const Tensor lengths, ReadTensor(described.value("lengths", Json())));
  INFER_ASSIGN(const Tensor keys, ReadNumbersOrText(described.value("keys", Json())));
  INFER_ASSIGN(const Tensor values, ReadNumbersOrText(described.value("values", Json())));
  if (lengths.dtype() != DType::kI64 || keys.num_elements() != values.num_elements() ||
      (keys.dtype() != DType::kString && !IsInteger(keys.dtype())))
    return InvalidModel("no description of maps");
  std::vector<Datum> maps;
  int64_t at = 0;
  for (int64_t m = 0; m < lengths.num_elements(); ++m) {
    const int64_t length = lengths.IntAt(m);
    if (length < 0 || length > keys.num_elements() - at)
      return InvalidModel("maps of more pairs than came");
    SequenceDatum held;
    for (int64_t i = at; i < at + length; ++i) held.elements.emplace_back(ElementOf(values, i));
    maps.emplace_back(
        MapDatum{PartOf(keys, at, at + length), std::make_shared<const Datum>(std::move(held))});
    at += length;
  }
  return maps;
}

}  // namespace

Result<Datum> ReadValue(const Json& described) {
  if (!described.is_object()) return InvalidModel("no description of a value");
  if (described.contains("left_out")) return Datum();
  if (described.contains("optional")) {
    const Json& held = described["optional"];
    if (held.is_null()) return Datum(OptionalDatum{});
    INFER_ASSIGN(Datum d, ReadValue(held));
    return Datum(OptionalDatum{std::make_shared<const Datum>(std::move(d))});
  }
  if (described.contains("maps")) {
    INFER_ASSIGN(std::vector<Datum> maps, ReadMaps(described["maps"]));
    return Datum(SequenceDatum{std::move(maps)});
  }
  if (described.contains("map")) {
    INFER_ASSIGN(std::vector<Datum> maps, ReadMaps(described["map"]));
    if (maps.size() != 1) return InvalidModel("no description of a map");
    return maps[0];
  }
  if (described.contains("sequence")) {
    SequenceDatum sequence;
    for (const Json& element : described["sequence"]) {
      INFER_ASSIGN(Datum d, ReadValue(element));
      sequence.elements.push_back(std::move(d));
    }
    return Datum(std::move(sequence));
  }
  INFER_ASSIGN(Tensor t, ReadNumbersOrText(described));
  return Datum(std::move(t));
}

}  // namespace infer::peers
