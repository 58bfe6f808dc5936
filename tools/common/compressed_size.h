#pragma once
/// What a file would take in a compressed archive or over the wire: zeros cost bytes in a file, and
/// next to none there.
#include <cstdint>
#include <optional>
#include <string_view>

namespace infer {

/// Bytes of `data` compressed as gzip does by default (zlib, level 6). nullopt: built without zlib.
std::optional<int64_t> CompressedBytes(std::string_view data);

}  // namespace infer
