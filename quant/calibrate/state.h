#pragma once
/// How observers write down what they have seen: numbers in 7-bit groups, least first, and doubles
/// as their bits in eight bytes, least first. The same on every machine.
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace infer {

inline void PutNumber(std::string& out, uint64_t v) {
  for (; v >= 128; v >>= 7) out += static_cast<char>(v | 128);
  out += static_cast<char>(v);
}
/// False when `in` ends too early; so are all that follow.
inline bool TakeNumber(std::string_view& in, uint64_t& v) {
  v = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (in.empty()) return false;
    const auto byte = static_cast<uint8_t>(in.front());
    in.remove_prefix(1);
    v |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

inline void PutDouble(std::string& out, double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  for (int k = 0; k < 8; ++k) out += static_cast<char>(bits >> (8 * k));
}
inline bool TakeDouble(std::string_view& in, double& x) {
  if (in.size() < 8) return false;
  uint64_t bits = 0;
  for (size_t k = 0; k < 8; ++k)
    bits |= static_cast<uint64_t>(static_cast<uint8_t>(in[k])) << (8 * k);
  in.remove_prefix(8);
  x = std::bit_cast<double>(bits);
  return true;
}

inline void PutText(std::string& out, std::string_view text) {
  PutNumber(out, text.size());
  out += text;
}
inline bool TakeText(std::string_view& in, std::string& text) {
  uint64_t n = 0;
  if (!TakeNumber(in, n) || n > in.size()) return false;
  text = in.substr(0, n);
  in.remove_prefix(n);
  return true;
}

}  // namespace infer
