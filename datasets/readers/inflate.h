#pragma once
/// Bounded decompression (zlib). Built without zlib, every call is Unsupported with the way out.
#include <string>
#include <string_view>

#include "datasets/readers/data_bytes.h"

namespace infer {

/// Raw DEFLATE (RFC 1951) of exactly `unpacked_bytes`; `name` begins messages. InvalidModel when
/// the data is broken, of another length, or over the limits.
Result<std::string> InflateRaw(std::string_view packed, int64_t unpacked_bytes,
                               const std::string& name, const ReadLimits& limits = {});
/// A gzip file (RFC 1952, members concatenated) of any length within the limits.
Result<std::string> Gunzip(std::string_view packed, const std::string& name,
                           const ReadLimits& limits = {});
/// CRC-32 (ITU-T V.42) as ZIP uses it. Own loop, so that stored entries need no zlib.
uint32_t Crc32(std::string_view bytes);
/// max_ratio and max_unpacked_bytes for one packed/unpacked pair.
Status CheckUnpacked(int64_t packed_bytes, int64_t unpacked_bytes, const std::string& name,
                     const ReadLimits& limits);

}  // namespace infer
