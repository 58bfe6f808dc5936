#pragma once
/// Further files of a model that is tuned, and what is known of their accuracy.
#include <optional>
#include <string>
#include <vector>

#include "lib/support/status.h"

namespace infer::bench {

struct VariantFile {
  std::string path;
  /// Accuracy of the model less that of the file, as shares; nothing: nobody measured it.
  std::optional<double> accuracy_loss;
};

/// The variants of a variants.json of `infer-opt sweep`, but for the model as it came. Files are
/// looked for beside it by their names, else where it says.
///
/// InvalidModel: the file is none such, or has no model as it came; `model` is neither that nor
/// what it was made of; a file is not the one that was measured. Io: one of them cannot be read.
Result<std::vector<VariantFile>> ReadVariants(const std::string& path, const std::string& model);

}  // namespace infer::bench
