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

}  // namespace infer::peers
