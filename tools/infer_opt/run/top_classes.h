#pragma once
/// run --preprocess, --classes, --top: photos in, names of classes out.
#include "tools/common/model_options.h"
#include "tools/common/report.h"

namespace infer {

struct ClassFlags {
  std::string preprocess, classes;
  int64_t top = 0;  ///< 0: 5 where classes or photos are given, else none
  void Declare(Options& o);
  bool wanted() const { return top > 0 || !classes.empty() || !preprocess.empty(); }
};

/// The names of --classes, a line each; empty without it. Io; InvalidModel: no lines.
Result<std::vector<std::string>> ReadClasses(const ClassFlags& flags);

/// Prints the best classes of each row of `scores` and tells them as JSON:
/// [{"class", "name", "score", "probability"}] per row. InvalidModel: other classes than scores.
Result<Json> ShowTop(Context& context, const Tensor& scores,
                     const std::vector<std::string>& classes, const ClassFlags& flags);

/// The image files that the values of --input name, folders opened; empty where one of them names
/// anything else.
std::vector<std::string> PhotosOf(const std::vector<std::string>& inputs);

/// Runs the model on each photo. Prints the best classes of its first output.
Result<Json> RunOnPhotos(Context& context, const Graph& g, const Program& program,
                         const std::vector<std::string>& photos, const ClassFlags& flags);

}  // namespace infer
