#pragma once
/// --graph of `inspect`: the model, or its difference to another, as a picture.
#include <string>
#include <vector>

#include "tools/common/model_options.h"
#include "tools/common/options.h"

namespace infer {

class GraphFlags {
 public:
  void Declare(Options& o);
  /// InvalidArgument: an option that needs --graph, without it.
  Status Check() const;
  bool wanted() const { return !path_.empty(); }
  /// Writes the picture of `model`, which was read from `path`. Errors of the other model, of
  /// measuring and of writing.
  Status Write(Context& context, const Model& model, const std::string& path,
               const ModelOptions& shapes, const DeviceOptions& device) const;

 private:
  std::string path_, other_;
  std::vector<std::string> overlays_;
  bool measure_ = false;
};

}  // namespace infer
