#pragma once
/// Files for reader tests: written to a folder of the test's own, removed with it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace infer::testing {

class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "infer-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string Path(std::string_view name) const { return path_ + "/" + std::string(name); }
  std::string Write(std::string_view name, std::string_view bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string FromHex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return out;
}

/// A .npy file of version 1 with this header literal and data.
inline std::string Npy(std::string_view header, std::string_view data) {
  std::string out("\x93NUMPY\1\0", 8);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out += data;
  return out;
}

/// Bytes that `h = 31 h + byte` folds to one number; the expected ones come from Pillow.
template <typename Bytes>
uint32_t Fold31(const Bytes& bytes) {
  uint32_t h = 0;
  for (const auto b : bytes) h = h * 31 + static_cast<uint8_t>(b);
  return h;
}

}  // namespace infer::testing
