#pragma once
/// StoredArray: where an array lies in a file, and how: what every array format (npy, npz, IDX,
/// CIFAR, raw) parses to. Reading it is then the same for all of them.
#include <string>
#include <vector>

#include "datasets/readers/data_bytes.h"
#include "lib/tensor/tensor.h"

namespace infer {

struct StoredArray {
  std::string name;  ///< of the array inside its file; "" where the format has none
  DataBytesPtr source;
  int64_t offset = 0;  ///< of the first element
  DType dtype = DType::kUndefined;
  Dims dims;
  bool fortran_order = false;  ///< first index fastest
  bool big_endian = false;
  /// Of texts (dtype kString), which NumPy keeps in fields of one width, filled up with zeros:
  int64_t text_bytes = 0;  ///< of a field
  bool utf32 = false;      ///< characters are numbers of four bytes; else bytes of UTF-8
  /// Bytes from one index of axis 0 to the next; 0: dense. CIFAR keeps labels between images.
  int64_t row_stride_bytes = 0;

  /// Bytes of an element.
  int64_t element_bytes() const {
    return dtype == DType::kString ? text_bytes : BitWidth(dtype) / 8;
  }
  /// Number of samples when axis 0 counts them. Pre: rank >= 1.
  int64_t rows() const { return dims[0]; }
  Dims row_dims() const { return Dims(dims.begin() + 1, dims.end()); }
  /// Rows can be read one by one in constant memory.
  bool streams() const { return !dims.empty() && !(fortran_order && dims.size() > 1); }
  /// InvalidModel unless the extents are sane and all of the data lies inside the source.
  Status Check(const ReadLimits& limits = {}) const;
  /// The whole array, row-major, in this machine's byte order. InvalidModel for a text whose bytes
  /// are no characters. Pre: Check() passed.
  Result<Tensor> Load() const;
  /// Element i of axis 0, extents row_dims(). Pre: Check() passed, streams(), 0 <= i < rows().
  Result<Tensor> LoadRow(int64_t i) const;

  /// `extents` dense elements from byte `at` on.
  Result<Tensor> LoadDense(const Dims& extents, int64_t at, bool fortran) const;
};

/// `path` without structure: dims of one sample, and as many samples as the file holds.
/// InvalidModel when the size is no multiple.
Result<StoredArray> OpenRaw(const std::string& path, DType dtype, const Dims& sample_dims);
/// "f32[3,224,224]" -> type and extents: how a raw file is declared.
Result<std::pair<DType, Dims>> ParseRawType(std::string_view text);

}  // namespace infer
