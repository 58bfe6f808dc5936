#pragma once
/// The binary formats of two classic image sets: IDX (MNIST; LeCun, Cortes and Burges, "The MNIST
/// database") and the CIFAR-10/100 binary version (Krizhevsky, "Learning Multiple Layers of
/// Features from Tiny Images", 2009).
#include "datasets/readers/stored_array.h"

namespace infer {

/// Magic 0 0 TYPE RANK, then RANK big-endian u32 extents, then big-endian elements. A gzip file is
/// unpacked into memory first.
Result<StoredArray> ParseIdx(DataBytesPtr source, const ReadLimits& limits = {});
Result<StoredArray> OpenIdx(const std::string& path, const ReadLimits& limits = {});

struct CifarFile {
  StoredArray images;  ///< u8 [n, 3, 32, 32], RGB planes
  StoredArray labels;  ///< u8 [n]; of CIFAR-100 the fine label
};
/// Records of `label_bytes` (1: CIFAR-10, 2: CIFAR-100) labels and 3072 pixels; 0 decides by the
/// size of the file. InvalidModel when it is no whole number of records.
Result<CifarFile> OpenCifar(const std::string& path, int label_bytes = 0);

}  // namespace infer
