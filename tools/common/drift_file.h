#pragma once
/// A drift reference (runtime/engine/drift.h) in a file, so that the samples behind it need not be
/// run again:
///
///     {"schema": "infer/drift-reference@1",
///      "tensors": [{"name": "image", "parts": {"dtype": "f32", "axis": 1,
///                   "channels": 3, "groups": 3, "has_contrast": true}, "rows": [[0.1, ...],
///                   ...]}]}
///
/// A row has a number for each figure; infinities are the texts "inf" and "-inf". A tensor without
/// figures has neither parts nor rows.
#include <string>

#include "runtime/engine/drift.h"

namespace infer {

/// Whether the path names such a file: by its end, ".json".
bool IsDriftFile(const std::string& path);

/// Io. The file is there whole, or as it was before.
Status WriteDriftReference(const engine::DriftReference& reference, const std::string& path);

/// InvalidModel, with the path: another kind of file, or figures that do not fit. Io.
Result<engine::DriftReference> ReadDriftReference(const std::string& path);

}  // namespace infer
