#include "datasets/readers/inflate.h"

#include <algorithm>
#include <array>

#include "lib/support/strings.h"
#ifdef INFER_HAVE_ZLIB
#include <zlib.h>
#endif

namespace infer {

uint32_t Crc32(std::string_view bytes) {
  constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      table[i] = c;
    }
    return table;
  }();
  uint32_t crc = 0xFFFFFFFFu;
  for (const char b : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(b)) & 255] ^ (crc >> 8);
  return ~crc;
}

Status CheckUnpacked(int64_t packed_bytes, int64_t unpacked_bytes, const std::string& name,
                     const ReadLimits& limits) {
  if (unpacked_bytes > limits.max_unpacked_bytes)
    return InvalidModel(
        Cat(name, ": unpacks to more than ", HumanBytes(limits.max_unpacked_bytes)));
  if (unpacked_bytes > limits.free_unpacked_bytes &&
      unpacked_bytes / limits.max_ratio > packed_bytes)
    return InvalidModel(Cat(name, ": unpacks to more than ", limits.max_ratio,
                            " times its size; save it uncompressed if it is meant"));
  return {};
}

#ifdef INFER_HAVE_ZLIB
namespace {

/// Grows in steps, so that memory follows what the data really holds, not what a header promises.
Result<std::string> Inflate(std::string_view packed, int window_bits, int64_t expected_bytes,
                            const std::string& name, const ReadLimits& limits) {
  constexpr size_t kStep = size_t{1} << 20;
  const auto packed_bytes = static_cast<int64_t>(packed.size());
  z_stream z{};
  if (inflateInit2(&z, window_bits) != Z_OK) return ResourceExhausted("zlib: out of memory");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&z, inflateEnd);
  std::string out;
  size_t at = 0, done = 0;
  while (true) {
    if (z.avail_in == 0) {  // avail_in has 32 bits
      const size_t n = std::min(packed.size() - at, size_t{1} << 30);
      z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + at));
      z.avail_in = static_cast<uInt>(n);
      at += n;
    }
    if (done == out.size()) out.resize(out.size() + kStep);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    z.avail_out = static_cast<uInt>(std::min(out.size() - done, kStep));
    const size_t before = z.avail_out;
    const int rc = inflate(&z, Z_NO_FLUSH);
    done += before - z.avail_out;
    INFER_TRY(CheckUnpacked(packed_bytes, static_cast<int64_t>(done), name, limits));
    if (expected_bytes >= 0 && static_cast<int64_t>(done) > expected_bytes)
      return InvalidModel(Cat(name, ": unpacks to more than its header says"));
    if (rc == Z_STREAM_END) {
      const bool more = window_bits > 15 && (z.avail_in > 0 || at < packed.size());
      if (!more) break;
      if (inflateReset(&z) != Z_OK) return Internal("zlib: reset");
    } else if (rc == Z_MEM_ERROR) {
      return ResourceExhausted("zlib: out of memory");
    } else if (rc != Z_OK) {
      return InvalidModel(Cat(name, ": broken or truncated compressed data"));
    }
  }
  if (expected_bytes >= 0 && static_cast<int64_t>(done) != expected_bytes)
    return InvalidModel(Cat(name, ": unpacks to less than its header says"));
  out.resize(done);
  return out;
}

}  // namespace

Result<std::string> InflateRaw(std::string_view packed, int64_t unpacked_bytes,
                               const std::string& name, const ReadLimits& limits) {
  INFER_TRY(CheckUnpacked(static_cast<int64_t>(packed.size()), unpacked_bytes, name, limits));
  return Inflate(packed, -15, unpacked_bytes, name, limits);
}

Result<std::string> Gunzip(std::string_view packed, const std::string& name,
                           const ReadLimits& limits) {
  return Inflate(packed, 15 + 16, -1, name, limits);
}
#else
Result<std::string> InflateRaw(std::string_view, int64_t, const std::string& name,
                               const ReadLimits&) {
  return Unsupported(Cat(name,
                         ": compressed, and this build has no zlib; save it uncompressed "
                         "(numpy.savez)"));
}
Result<std::string> Gunzip(std::string_view, const std::string& name, const ReadLimits&) {
  return Unsupported(Cat(name, ": compressed, and this build has no zlib; gunzip it first"));
}
#endif

}  // namespace infer
