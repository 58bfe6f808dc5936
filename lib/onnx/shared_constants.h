#pragma once
/// Constants that a file holds once, whichever graphs read them. No protobuf here.
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/tensor/tensor.h"

namespace infer::onnx_io {

/// Constants of inner graphs from this size on are written once, in the main graph.
inline constexpr int64_t kSharedBytes = 1024;

/// Large constants of all graphs by content: branches often compute the same from one weight.
class SharedConstants {
 public:
  /// The name under which an equal constant is written, or nullptr.
  const std::string* Find(const Tensor& t) const;
  /// Pre: `t` outlives this.
  void Add(const Tensor& t, const std::string& name);

 private:
  std::unordered_map<uint64_t, std::vector<std::pair<const Tensor*, std::string>>> by_hash_;
};

}  // namespace infer::onnx_io
