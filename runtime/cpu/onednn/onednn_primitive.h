#pragma once
/// Behind onednn.h, for onednn*.cc alone: what a launch must know of a primitive.
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "runtime/cpu/onednn/onednn.h"

namespace infer::onednn {

class Primitive {
 public:
  dnnl::primitive primitive;
  std::vector<std::pair<int, dnnl::memory::desc>> descs;  // by oneDNN argument
  dnnl::memory::desc scratch;
  bool one_thread = false;  // its sums depend on the number of threads
  const dnnl::memory::desc* Find(int arg) const {
    for (const auto& [a, d] : descs)
      if (a == arg) return &d;
    return nullptr;
  }
};

/// oneDNN's name of the operand of post-op `i`.
inline int PostOpArg(int i) { return DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1; }

}  // namespace infer::onednn
