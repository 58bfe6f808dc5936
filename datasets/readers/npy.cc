#include "datasets/readers/npy.h"

#include <algorithm>
#include <cstring>

#include "lib/support/strings.h"
#include "lib/support/utf8.h"

namespace infer {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Kind {
  std::string_view code;  // NumPy type string without the byte order
  DType dtype;
};
constexpr Kind kKinds[] = {{"f4", DType::kF32}, {"f8", DType::kF64},  {"f2", DType::kF16},
                           {"i1", DType::kI8},  {"i2", DType::kI16},  {"i4", DType::kI32},
                           {"i8", DType::kI64}, {"u1", DType::kU8},   {"u2", DType::kU16},
                           {"u4", DType::kU32}, {"u8", DType::kU64},  {"b1", DType::kBool},
                           {"c8", DType::kC64}, {"c16", DType::kC128}};

/// The header's Python literal. Exactly the three keys, in any order.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  /// "" or what is wrong.
  std::string Parse(std::string& descr, bool& fortran, Dims& dims) {
    int seen = 0;
    if (!Eat('{')) return "no '{'";
    while (!Eat('}')) {
      std::string key;
      if (!String(key) || !Eat(':')) return "expected a key";
      const int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (bit == 0 || (seen & bit)) return Cat("unexpected key '", key, "'");
      seen |= bit;
      if (bit == 1 && !String(descr)) return "structured types (descr is a list) are not tensors";
      if (bit == 2 && !Bool(fortran)) return "fortran_order is neither True nor False";
      if (bit == 4 && !Tuple(dims)) return "shape is no tuple of extents";
      if (!Eat(',') && Peek() != '}') return "expected ',' or '}'";
    }
    Space();
    if (at_ != text_.size()) return "text after '}'";
    return seen == 7 ? "" : "descr, fortran_order or shape is missing";
  }

 private:
  void Space() {
    while (at_ < text_.size() && std::strchr(" \t\n\r", text_[at_]) && text_[at_]) ++at_;
  }
  char Peek() {
    Space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Eat(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  bool String(std::string& out) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) return false;
    out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }
  bool Bool(bool& out) {
    Space();
    out = text_.substr(at_, 4) == "True";
    if (!out && text_.substr(at_, 5) != "False") return false;
    at_ += out ? 4 : 5;
    return true;
  }
  bool Tuple(Dims& dims) {
    if (!Eat('(')) return false;
    while (!Eat(')')) {
      Space();
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      const std::optional<int64_t> d = ParseInt(text_.substr(begin, at_ - begin));
      if (!d || dims.size() > 64) return false;
      if (Peek() == 'L') ++at_;  // written by Python 2
      dims.push_back(*d);
      if (!Eat(',') && Peek() != ')') return false;
    }
    return true;
  }
  std::string_view text_;
  size_t at_ = 0;
};

Status SetType(StoredArray& a, std::string_view descr, const std::string& path) {
  const char order = descr.empty() ? '\0' : descr[0];
  const bool has_order = order != '\0' && std::strchr("<>|=", order);
  const std::string_view code = descr.substr(has_order ? 1 : 0);
  if (code.starts_with('O'))
    return InvalidModel(Cat(path,
                            ": holds Python objects (a pickle), which are never loaded; save "
                            "plain numbers or texts, e.g. numpy.save(f, x.astype('float32')), "
                            "x.astype(str)"));
  if (code.starts_with('U') || code.starts_with('S')) {
    a.utf32 = code[0] == 'U';
    const std::optional<int64_t> length = ParseInt(code.substr(1));
    constexpr int64_t kMost = int64_t{1} << 32;
    if (!length || *length < 1 || *length > kMost)
      return InvalidModel(
          Cat(path, ": element type '", descr, "' is no text of at least one byte"));
    a.dtype = DType::kString;
    a.big_endian = order == '>';
    a.text_bytes = *length * (a.utf32 ? 4 : 1);
    return {};
  }
  for (const Kind& k : kKinds)
    if (k.code == code) {
      a.dtype = k.dtype;
      a.big_endian = order == '>';
      return {};
    }
  return Unsupported(Cat(path, ": element type '", descr,
                         "' is not a tensor's (bool, integers, "
                         "float16/32/64, complex and texts are)"));
}

/// All before the data, which begins at a multiple of 64.
std::string Header(std::string_view descr, const Dims& dims) {
  std::string header = Cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (const int64_t d : dims) header += Cat(d, ",");
  header += "), }";
  // Magic, version and length take 10 bytes.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string out(kMagic);
  out += '\1';
  out += '\0';
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  return out + header;
}

/// Texts in fields of the longest one, in UTF-32.
Result<std::string> TextBytes(const Tensor& t) {
  size_t longest = 1;
  for (const std::string& text : t.strings()) {
    if (!IsUtf8(text)) return Unsupported(".npy has no texts that are no UTF-8");
    longest = std::max(longest, NumCharacters(text));
  }
  std::string out = Header(Cat("<U", longest), t.dims());
  for (std::string_view text : t.strings())
    for (size_t i = 0; i < longest; ++i) {
      const Utf8Character c = FirstCharacter(text);
      text.remove_prefix(c.bytes);
      for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(c.code >> shift & 255);
    }
  return out;
}

}  // namespace

Result<StoredArray> ParseNpy(DataBytesPtr source, int64_t offset, int64_t size,
                             const ReadLimits& limits) {
  const auto fail = [&](std::string_view what) {
    return InvalidModel(Cat(source->name(), ": not a sound .npy file: ", what));
  };
  unsigned char head[12] = {};
  if (size < 12) return fail("too short");
  INFER_TRY(source->Read(offset, 12, head));
  if (std::memcmp(head, kMagic.data(), kMagic.size()) != 0) return fail("no magic");
  const int version = head[6];
  if (version < 1 || version > 3 || head[7] != 0)
    return fail(Cat("version ", version, ".", int{head[7]}, " (1.0, 2.0 and 3.0 are known)"));
  const int64_t prefix = version == 1 ? 10 : 12;
  int64_t length = head[8] | head[9] << 8;
  if (version > 1) length |= static_cast<int64_t>(head[10]) << 16 | int64_t{head[11]} << 24;
  if (length > limits.max_header_bytes) return fail(Cat("header of ", length, " bytes"));
  if (length > size - prefix) return fail("truncated header");
  INFER_ASSIGN(const std::string text, source->ReadString(offset + prefix, length));

  StoredArray a{.source = source, .offset = offset + prefix + length};
  std::string descr;
  if (std::string error = HeaderParser(text).Parse(descr, a.fortran_order, a.dims); !error.empty())
    return fail(error);
  INFER_TRY(SetType(a, descr, source->name()));
  INFER_TRY(a.Check(limits));
  // Inside an .npz the array must also end inside its entry.
  if (NumElements(a.dims) * a.element_bytes() > size - prefix - length)
    return fail("truncated data");
  return a;
}

Result<StoredArray> OpenNpy(const std::string& path, const ReadLimits& limits) {
  INFER_ASSIGN(DataBytesPtr source, DataBytes::Open(path));
  return ParseNpy(source, 0, source->size(), limits);
}

Result<Tensor> ReadNpy(const std::string& path, const ReadLimits& limits) {
  INFER_ASSIGN(const StoredArray a, OpenNpy(path, limits));
  return a.Load();
}

Result<std::string> NpyBytes(const Tensor& t) {
  if (t.dtype() == DType::kString) return TextBytes(t);
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const Kind& k) { return k.dtype == t.dtype(); });
  if (kind == std::end(kKinds))
    return Unsupported(Cat(".npy has no element type ", Name(t.dtype()), "; convert it first"));
  std::string out = Header(Cat(BitWidth(t.dtype()) == 8 ? "|" : "<", kind->code), t.dims());
  out.append(reinterpret_cast<const char*>(t.raw()), static_cast<size_t>(t.byte_size()));
  return out;
}

}  // namespace infer
