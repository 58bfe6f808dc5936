#pragma once
/// TensorProto and SparseTensorProto <-> Tensor. Internal to lib/onnx.
#include <onnx/onnx_pb.h>

#include <string>
#include <unordered_map>

#include "lib/onnx/external_data.h"
#include "lib/onnx/import.h"
#include "lib/onnx/wire.h"

namespace infer::onnx_io {

class TensorReader {
 public:
  /// `source` holds the blobs of `slim`. All must outlive the reader.
  TensorReader(const ByteSource& source, const SlimMessage& slim, ExternalData& external,
               const ImportOptions& options)
      : source_(source), slim_(slim), external_(external), options_(options) {}

  /// InvalidModel when dims, type and data do not agree (checked before anything is allocated);
  /// Unsupported for an element type that we do not know.
  Result<Tensor> Read(const onnx::TensorProto& proto) const;
  /// The dense tensor.
  Result<Tensor> Read(const onnx::SparseTensorProto& proto) const;

 private:
  Result<Tensor> ReadExternal(const onnx::TensorProto& proto, DType dtype, Dims dims) const;
  Result<Tensor> ReadBlob(const Blob& blob, DType dtype, Dims dims) const;
  Result<const Blob*> BlobOf(const onnx::TensorProto& proto) const;

  const ByteSource& source_;
  const SlimMessage& slim_;
  ExternalData& external_;
  const ImportOptions& options_;
  /// Data that several messages refer to (a function's constant, inlined at each call) is read
  /// once.
  mutable std::unordered_map<const Blob*, Tensor> read_;
  mutable ExternalRegions regions_;
  /// Sparse tensors by values, indices, extents and type: one in a function is made once.
  using SparseKey =
      std::tuple<std::shared_ptr<const Buffer>, std::shared_ptr<const Buffer>, Dims, DType>;
  mutable std::map<SparseKey, Tensor> dense_;
  /// Bytes that all of them may have beyond a thousand times their values.
  mutable int64_t sparse_left_ = int64_t{64} << 20;
};

/// InvalidModel unless 1 <= rank, extents and the byte count are in range.
Result<Dims> CheckedDims(const google::protobuf::RepeatedField<int64_t>& dims, DType dtype,
                         int64_t max_rank);
/// InvalidModel for 0, Unsupported for a number that we do not know.
Result<DType> CheckedDType(int number);

/// Type, extents and contents (raw_data; string_data for strings).
void FillTensorProto(const Tensor& t, onnx::TensorProto& proto);
/// Type and extents only.
void FillTensorHeader(const Tensor& t, onnx::TensorProto& proto);

}  // namespace infer::onnx_io
