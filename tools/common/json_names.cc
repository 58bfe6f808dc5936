#include "tools/common/json_names.h"

namespace infer {
namespace {

unsigned char ByteAt(std::string_view text, size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

/// Length of the UTF-8 character (Unicode 15, table 3-7) at the beginning; 0 where there is none.
size_t Utf8Length(std::string_view text) {
  const unsigned char first = ByteAt(text, 0), second = ByteAt(text, 1);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (size_t i = 1; i < length; ++i)
    if ((ByteAt(text, i) & 0xc0) != 0x80) return 0;
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0)) return 0;
  if ((first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90)) return 0;
  return length;
}

/// U+F780 to U+F7FF are EF 9E 80 to EF 9F BF.
bool IsPrivate(std::string_view text) {
  return ByteAt(text, 0) == 0xef && (ByteAt(text, 1) == 0x9e || ByteAt(text, 1) == 0x9f);
}

void PutPrivate(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);  // 0x80 to 0xff
  out += '\xef';
  out += byte < 0xc0 ? '\x9e' : '\x9f';
  out += static_cast<char>(0x80 | (byte & 0x3f));
}

}  // namespace

std::string JsonName(std::string_view name) {
  std::string out;
  out.reserve(name.size());
  while (!name.empty()) {
    const size_t length = IsPrivate(name) ? 0 : Utf8Length(name);
    if (length > 0)
      out += name.substr(0, length);
    else
      PutPrivate(out, name[0]);
    name.remove_prefix(length > 0 ? length : 1);
  }
  return out;
}

std::string NameOfJson(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const bool is_byte = IsPrivate(text) && text.size() >= 3;
    const int high = ByteAt(text, 1) == 0x9e ? 0x80 : 0xc0;
    out += is_byte ? static_cast<char>(high | (ByteAt(text, 2) & 0x3f)) : text[0];
    text.remove_prefix(is_byte ? 3 : 1);
  }
  return out;
}

std::string CompactJson(const Json& j) {
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace infer
