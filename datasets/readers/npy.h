#pragma once
/// NumPy's .npy format, versions 1 to 3 (numpy.lib.format: magic, header length, a Python literal
/// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}, then the data). Arrays of texts
/// ('<U9', '|S9') are tensors of strings. Object arrays are pickles and never loaded; structured
/// arrays are refused.
#include "datasets/readers/stored_array.h"

namespace infer {

/// The array whose .npy image begins at `offset` and has `size` bytes. InvalidModel when broken,
/// Unsupported for element types that no tensor has.
Result<StoredArray> ParseNpy(DataBytesPtr source, int64_t offset, int64_t size,
                             const ReadLimits& limits = {});
Result<StoredArray> OpenNpy(const std::string& path, const ReadLimits& limits = {});
Result<Tensor> ReadNpy(const std::string& path, const ReadLimits& limits = {});
/// The .npy file (version 1.0, row-major) of `t`. Unsupported for types that NumPy lacks: bf16,
/// fp8 and packed, and for strings that are no UTF-8.
Result<std::string> NpyBytes(const Tensor& t);

}  // namespace infer
