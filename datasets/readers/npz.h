#pragma once
/// .npz: a ZIP archive (PKWARE APPNOTE 6.3.10, with ZIP64) of .npy files, stored or deflated.
/// Names are array names, never paths.
#include <vector>

#include "datasets/readers/npy.h"

namespace infer {

/// Every array, in the order of the archive, its name without ".npy". Stored arrays are read where
/// they lie; deflated ones are unpacked now, and all of them together within the limits.
Result<std::vector<StoredArray>> ParseNpz(DataBytesPtr source, const ReadLimits& limits = {});
Result<std::vector<StoredArray>> OpenNpz(const std::string& path, const ReadLimits& limits = {});

}  // namespace infer
