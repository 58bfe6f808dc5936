#pragma once
/// Further files of a model, as `infer-opt sweep` lists them, and what is known of each.
#include <optional>
#include <string>
#include <vector>

#include "lib/support/status.h"

namespace infer {

struct VariantFile {
  std::string id = {};
  std::string path = {};
  bool as_it_came = false;  ///< the model itself
  /// On labelled data, a share; nothing: nobody measured it.
  std::optional<double> accuracy = {};
  /// Accuracy of the model less that of the file.
  std::optional<double> accuracy_loss = {};
  double latency_ms = 0;  ///< of one run, as it was measured
  /// Where it was measured; nothing: a file of an older sweep, which does not say.
  std::optional<std::string> device = {};
};

/// The variants of a variants.json of `infer-opt sweep`. Files are looked for beside it by their
/// names, else where it says.
///
/// InvalidModel: the file is none such, or has no model as it came; a file is not the one that was
/// measured. Io: one of them cannot be read.
Result<std::vector<VariantFile>> ReadVariants(const std::string& path);
/// The same, but for the model as it came. InvalidModel: `model` is neither that nor what it was
/// made of.
Result<std::vector<VariantFile>> ReadVariantsOf(const std::string& path, const std::string& model);

}  // namespace infer
