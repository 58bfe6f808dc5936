#pragma once
/// What a model needs and we lack. Internal to lib/onnx.
#include <map>
#include <string>
#include <vector>

#include "lib/ops/op_def.h"

namespace infer::onnx_io {

/// What we lack, collected over the whole model so that it can be reported at once.
class UnsupportedList {
 public:
  /// One thing lacking ("operator Foo (domain x, opset 3): why; way out") and a node that needs it.
  void Add(const std::string& what, const std::string& node);
  bool empty() const { return nodes_.empty(); }
  /// "2 things are not supported:\n  what: node, node, ... (12 nodes)".
  Status ToStatus() const;

 private:
  std::map<std::string, std::vector<std::string>> nodes_;
};

/// The operator that `name` means in `opset` of `domain` (canonical). Unsupported: why there is
/// none, and what to do, fit for UnsupportedList.
Result<const OpDef*> FindOperator(const OpRegistry& ops, const std::string& domain,
                                  const std::string& name, int64_t opset);

}  // namespace infer::onnx_io
