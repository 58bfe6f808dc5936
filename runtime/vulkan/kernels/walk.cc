#include "runtime/vulkan/kernels/walk.h"

namespace infer::vulkan {

Walk Joined(const Dims& dims, const std::vector<Dims>& strides) {
  Walk w;
  w.strides.resize(strides.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    bool joins = !w.dims.empty();
    for (size_t k = 0; joins && k < strides.size(); ++k)
      joins = w.strides[k].back() == strides[k][d] * dims[d];
    if (joins) {
      w.dims.back() *= dims[d];
      for (size_t k = 0; k < strides.size(); ++k) w.strides[k].back() = strides[k][d];
    } else {
      w.dims.push_back(dims[d]);
      for (size_t k = 0; k < strides.size(); ++k) w.strides[k].push_back(strides[k][d]);
    }
  }
  if (w.dims.empty()) {
    w.dims = {1};
    for (Dims& s : w.strides) s = {0};
  }
  return w;
}

Walk BroadcastWalk(const Dims& dims, const std::vector<Dims>& operands) {
  std::vector<Dims> strides;
  for (const Dims& from : operands) {
    Dims& s = strides.emplace_back(dims.size(), 0);
    const Dims dense = Strides(from);
    const size_t skipped = dims.size() - from.size();
    for (size_t d = 0; d < from.size(); ++d)
      if (from[d] != 1) s[skipped + d] = dense[d];
  }
  return Joined(dims, strides);
}

}  // namespace infer::vulkan
