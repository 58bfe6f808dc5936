#include "datasets/readers/stored_array.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "lib/support/strings.h"
#include "lib/support/utf8.h"

namespace infer {
namespace {

/// Bytes of the unit that byte order is about: one part of a complex number.
size_t SwapUnit(DType t) {
  const size_t bytes = static_cast<size_t>(BitWidth(t)) / 8;
  return t == DType::kC64 || t == DType::kC128 ? bytes / 2 : bytes;
}

/// File bytes -> host values, in place.
void ToHost(DType dtype, bool big_endian, std::byte* data, size_t bytes) {
  if (big_endian) {
    const size_t unit = SwapUnit(dtype);
    for (size_t i = 0; unit > 1 && i + unit <= bytes; i += unit)
      std::reverse(data + i, data + i + unit);
  }
  if (dtype == DType::kBool)  // any other byte than 0 and 1 in a bool is undefined behaviour
    for (size_t i = 0; i < bytes; ++i) data[i] = std::byte{data[i] != std::byte{0}};
}

/// Elements of `size` bytes, column-major -> row-major.
void FromFortran(const Dims& dims, size_t size, const std::byte* in, std::byte* out) {
  const size_t rank = dims.size();
  Dims stride(rank, 1), index(rank, 0);
  for (size_t d = 1; d < rank; ++d) stride[d] = stride[d - 1] * dims[d - 1];
  int64_t from = 0;
  for (int64_t i = 0; i < NumElements(dims); ++i) {
    std::memcpy(out + static_cast<size_t>(i) * size, in + static_cast<size_t>(from) * size, size);
    for (size_t d = rank; d-- > 0;) {
      from += stride[d];
      if (++index[d] < dims[d]) break;
      from -= stride[d] * dims[d];
      index[d] = 0;
    }
  }
}

/// A text from its field; nothing where the field holds none.
std::optional<std::string> TextOf(std::span<const std::byte> field, bool utf32, bool big_endian) {
  std::string text;
  if (!utf32) {
    text.assign(reinterpret_cast<const char*>(field.data()), field.size());
    text.resize(text.find_last_not_of('\0') + 1);
    return IsUtf8(text) ? std::optional(std::move(text)) : std::nullopt;
  }
  size_t zeros = 0;  // behind what was read: kept where a character follows
  for (size_t i = 0; i + 4 <= field.size(); i += 4) {
    char32_t code = 0;
    for (size_t k = 0; k < 4; ++k)
      code = code << 8 | std::to_integer<char32_t>(field[i + (big_endian ? k : 3 - k)]);
    if (code == 0) {
      ++zeros;
      continue;
    }
    text.append(std::exchange(zeros, 0), '\0');
    if (!AppendCharacter(code, text)) return std::nullopt;
  }
  return text;
}

}  // namespace

Status StoredArray::Check(const ReadLimits& limits) const {
  const auto fail = [&](std::string_view what) {
    return InvalidModel(Cat(source->name(), name.empty() ? "" : ": array ", name, ": ", what));
  };
  if (static_cast<int>(dims.size()) > limits.max_rank)
    return fail(Cat("rank ", dims.size(), " is above the limit of ", limits.max_rank));
  const std::optional<int64_t> count = CheckedNumElements(dims);
  if (!count) return fail(Cat("impossible extents ", ToString(dims)));
  const int64_t width = element_bytes();
  INFER_CHECK(width > 0 && offset >= 0);
  const int64_t available = source->size() - offset;
  if (*count > available / width)
    return fail(Cat("truncated: ", ToString(dims), " of ", Name(dtype), " needs ", *count,
                    " elements of ", width, " bytes, ", std::max<int64_t>(available, 0),
                    " bytes are there"));
  if (row_stride_bytes > 0 && *count > 0) {
    const int64_t row = *count / dims[0] * width;
    if (dims[0] - 1 > (available - row) / row_stride_bytes) return fail("truncated records");
  }
  return {};
}

Result<Tensor> StoredArray::Load() const {
  const int64_t count = NumElements(dims), bytes = count * element_bytes();
  if (count == 0) return Tensor(dtype, dims);
  if (row_stride_bytes > 0) {
    Tensor t(dtype, dims);
    const int64_t row = bytes / dims[0];
    for (int64_t i = 0; i < dims[0]; ++i)
      INFER_TRY(source->Read(offset + i * row_stride_bytes, row, t.mutable_raw() + i * row));
    ToHost(dtype, big_endian, t.mutable_raw(), static_cast<size_t>(bytes));
    return t;
  }
  return LoadDense(dims, offset, fortran_order && dims.size() > 1);
}

Result<Tensor> StoredArray::LoadRow(int64_t i) const {
  INFER_CHECK(streams() && i >= 0 && i < rows());
  const Dims row = row_dims();
  const int64_t bytes = NumElements(row) * element_bytes();
  return LoadDense(row, offset + i * (row_stride_bytes > 0 ? row_stride_bytes : bytes), false);
}

Result<Tensor> StoredArray::LoadDense(const Dims& extents, int64_t at, bool fortran) const {
  const auto width = static_cast<size_t>(element_bytes());
  const auto bytes = static_cast<size_t>(NumElements(extents)) * width;
  Tensor t = dtype == DType::kString ? Tensor(DType::kU8, {static_cast<int64_t>(bytes)})
                                     : Tensor(dtype, extents);
  if (bytes > 0) INFER_TRY(source->Read(at, static_cast<int64_t>(bytes), t.mutable_raw()));
  if (fortran) {
    Tensor ordered(t.dtype(), t.dims());
    FromFortran(extents, width, t.raw(), ordered.mutable_raw());
    t = std::move(ordered);
  }
  if (dtype != DType::kString) {
    ToHost(dtype, big_endian, t.mutable_raw(), bytes);
    return t;
  }
  std::vector<std::string> texts;
  texts.reserve(static_cast<size_t>(NumElements(extents)));
  for (size_t i = 0; i < bytes; i += width) {
    auto text = TextOf(std::span(t.raw() + i, width), utf32, big_endian);
    if (!text)
      return InvalidModel(Cat(source->name(), ": element ", i / width, " is no text of ",
                              utf32 ? "Unicode characters" : "UTF-8"));
    texts.push_back(*std::move(text));
  }
  return Tensor::OfStrings(extents, std::move(texts));
}

Result<StoredArray> OpenRaw(const std::string& path, DType dtype, const Dims& sample_dims) {
  const std::optional<int64_t> count = CheckedNumElements(sample_dims);
  if (!count || *count == 0 || BitWidth(dtype) < 8 || *count > INT64_MAX / 16)
    return InvalidArgument(Cat(path,
                               ": a raw file needs the type of one sample with at least one "
                               "element of 8 bits or more, e.g. f32[3,224,224]"));
  INFER_ASSIGN(DataBytesPtr source, DataBytes::Open(path));
  const int64_t sample_bytes = *count * (BitWidth(dtype) / 8);
  if (source->size() % sample_bytes != 0)
    return InvalidModel(Cat(path, ": ", source->size(), " bytes are no multiple of ", sample_bytes,
                            ", the bytes of one ", Name(dtype), ToString(sample_dims)));
  StoredArray a{.source = source, .dtype = dtype, .dims = {source->size() / sample_bytes}};
  a.dims.insert(a.dims.end(), sample_dims.begin(), sample_dims.end());
  INFER_TRY(a.Check());
  return a;
}

Result<std::pair<DType, Dims>> ParseRawType(std::string_view text) {
  const auto fail = [&] {
    return InvalidArgument(Cat("'", text, "' is no type of a sample (example: f32[3,224,224])"));
  };
  const size_t open = text.find('[');
  if (open == text.npos || text.back() != ']') return fail();
  const std::optional<DType> dtype = ParseDType(text.substr(0, open));
  if (!dtype || BitWidth(*dtype) < 8) return fail();
  Dims dims;
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  if (!inside.empty())
    for (const std::string& piece : Split(inside, ',')) {
      const std::optional<int64_t> d = ParseInt(Trim(piece));
      if (!d || *d < 1) return fail();
      dims.push_back(*d);
    }
  if (!CheckedNumElements(dims)) return fail();
  return std::pair(*dtype, std::move(dims));
}

}  // namespace infer
