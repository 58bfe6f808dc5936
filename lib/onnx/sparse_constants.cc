#include "lib/onnx/sparse_constants.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "lib/onnx/tensor_proto.h"

namespace infer::onnx_io {
namespace {

/// Of the two tensors and the message around them, beside names and data, at most.
constexpr int64_t kHeaderBytes = 64;

/// Places of elements with a bit that is set. Pre: elements of whole bytes.
std::vector<int64_t> PlacesOfValues(const Tensor& t) {
  const int64_t width = BitWidth(t.dtype()) / 8;
  const std::byte* const data = t.raw();
  std::vector<int64_t> places;
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (std::any_of(data + i * width, data + (i + 1) * width,
                    [](std::byte b) { return b != std::byte{0}; }))
      places.push_back(i);
  return places;
}

void FillSparse(const PendingTensor& t, std::span<const int64_t> places,
                onnx::SparseTensorProto& proto) {
  const auto count = static_cast<int64_t>(places.size());
  const auto width = static_cast<size_t>(BitWidth(t.tensor.dtype()) / 8);
  Tensor values(t.tensor.dtype(), {count});
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(values.mutable_raw() + i * width,
                t.tensor.raw() + static_cast<size_t>(places[i]) * width, width);
  FillTensorProto(values, *proto.mutable_values());
  proto.mutable_values()->set_name(t.name);
  FillTensorProto(Tensor::Of<int64_t>({count}, places), *proto.mutable_indices());
  for (const int64_t d : t.tensor.dims()) proto.add_dims(d);
}

}  // namespace

SparseConstants WriteSparseConstants(WrittenModel& written) {
  SparseConstants done;
  // ONNX Runtime would return a sparse tensor.
  std::set<std::string> outputs;
  for (const auto& v : written.graph.output()) outputs.insert(v.name());
  std::erase_if(written.initializers, [&](const PendingTensor& t) {
    const int width = BitWidth(t.tensor.dtype()) / 8;
    const bool is_whole = t.tensor.dtype() != DType::kString && BitWidth(t.tensor.dtype()) % 8 == 0;
    if (!is_whole || t.tensor.rank() == 0 || !t.extra.empty() || outputs.contains(t.name))
      return false;
    const int64_t dense = t.tensor.byte_size();
    if (dense <= kHeaderBytes) return false;
    const std::vector<int64_t> places = PlacesOfValues(t.tensor);
    const auto stored = static_cast<int64_t>(places.size());
    const int64_t sparse = stored * (width + int64_t{8}) + kHeaderBytes;
    // Readers, ours too, guard against few bytes that become many: all zeros stay.
    if (stored == 0 || sparse >= dense) {
      done.dense += stored > 0 && 2 * stored <= t.tensor.num_elements();
      return false;
    }
    FillSparse(t, places, *written.graph.add_sparse_initializer());
    ++done.sparse;
    done.saved_bytes += dense - sparse;
    return true;
  });
  return done;
}

}  // namespace infer::onnx_io
