#pragma once
/// A router policy in a file, in TOML or JSON (docs/schemas/infer-bench-route.schema.json):
///
///     mode = "canary"            # split, canary, affinity, balance, shadow, cascade, slo
///     steps = [0.05, 0.25, 0.5]  # settings of the mode; one of another mode is an error
///     [[variants]]
///     name = "fp32"              # without a path: the model of the command line
///     [[variants]]
///     name = "int8"
///     path = "int8.onnx"         # from the file's folder
#include <string>
#include <vector>

#include "runtime/engine/route.h"

namespace infer {

struct RouteFile {
  engine::RoutePolicy policy;      ///< models have the names of the variants
  std::vector<std::string> paths;  ///< of the variants' models; "": the one of the command line
};

/// With `variants_json` in the file, variants without a path are looked for by their names in a
/// variants.json of `infer-opt sweep`; where the file lists no variants, they are all taken. It
/// tells mode slo their accuracies, and their times where they were measured on `device`, on which
/// the route will run; affinity by device, where they were measured.
///
/// InvalidModel, one line: no such file, an unknown setting, one that would have no effect, or one
/// that is missing. Io.
Result<RouteFile> ReadRouteFile(const std::string& path, const std::string& device);

}  // namespace infer
