#pragma once
/// Random-access bytes: a regular file read with pread (constant memory, and a file that shrinks is
/// an error, not SIGBUS), or memory. Not for writing, and not for streams that cannot seek.
#include <cstdint>
#include <memory>
#include <string>

#include "lib/image/decode.h"
#include "lib/support/status.h"

namespace infer {

/// What a reader refuses before it allocates. Numbers in files are never trusted beyond these.
struct ReadLimits {
  int max_rank = 32;
  int64_t max_header_bytes = int64_t{1} << 20;  ///< .npy header
  int64_t max_entries = 10'000;                 ///< arrays of one .npz
  /// Everything that one file may unpack to.
  int64_t max_unpacked_bytes = int64_t{4} << 30;
  /// Unpacked / packed, for more than `free_unpacked_bytes`; deflate itself cannot exceed 1032.
  int64_t max_ratio = 200;
  int64_t free_unpacked_bytes = int64_t{1} << 20;
  int64_t max_pixels = kMaxPixels;  ///< of one image
};

class DataBytes {
 public:
  /// Io when the file cannot be opened or is not a regular file.
  static Result<std::shared_ptr<const DataBytes>> Open(const std::string& path);
  static std::shared_ptr<const DataBytes> OfMemory(std::string bytes, std::string name);
  ~DataBytes();
  DataBytes(const DataBytes&) = delete;
  DataBytes& operator=(const DataBytes&) = delete;

  int64_t size() const { return size_; }
  const std::string& name() const { return name_; }  ///< the path: what messages begin with
  /// InvalidModel when [offset, offset + n) is not inside; Io when the system refuses. Thread-safe.
  Status Read(int64_t offset, int64_t n, void* out) const;
  /// The bytes [offset, offset + n) as a string. Checked before it allocates.
  Result<std::string> ReadString(int64_t offset, int64_t n) const;

 private:
  DataBytes() = default;
  std::string name_, memory_;
  int64_t size_ = 0;
  int fd_ = -1;
};

using DataBytesPtr = std::shared_ptr<const DataBytes>;

}  // namespace infer
