#include "tools/common/compressed_size.h"

#ifdef INFER_HAVE_ZLIB
#include <zlib.h>

#include <algorithm>
#include <vector>
#endif

namespace infer {

#ifdef INFER_HAVE_ZLIB
std::optional<int64_t> CompressedBytes(std::string_view data) {
  constexpr int kLevel = 6;
  constexpr size_t kPiece = size_t{1} << 20;
  z_stream z{};
  if (deflateInit(&z, kLevel) != Z_OK) return std::nullopt;
  std::vector<unsigned char> out(kPiece);
  int64_t bytes = 0;
  size_t at = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    const size_t count = std::min(kPiece, data.size() - at);
    // zlib reads through a pointer to non-const, and writes nothing there.
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data() + at));  // NOLINT
    z.avail_in = static_cast<uInt>(count);
    at += count;
    do {
      z.next_out = out.data();
      z.avail_out = static_cast<uInt>(out.size());
      state = deflate(&z, at == data.size() ? Z_FINISH : Z_NO_FLUSH);
      bytes += static_cast<int64_t>(out.size() - z.avail_out);
    } while (z.avail_out == 0 && state == Z_OK);
    if (state == Z_BUF_ERROR && at < data.size()) state = Z_OK;
  }
  deflateEnd(&z);
  return state == Z_STREAM_END ? std::optional(bytes) : std::nullopt;
}
#else
std::optional<int64_t> CompressedBytes(std::string_view) { return std::nullopt; }
#endif

}  // namespace infer
