#pragma once
/// Where the shapes of kernels come from: models of files, of the zoo, and the examples of
/// operators.
#include <functional>
#include <string>
#include <vector>

#include "tools/bench/session.h"

namespace infer::bench {

struct KernelSources {
  std::vector<std::string> models;  ///< paths
  std::vector<std::string> zoo;     ///< architectures, as they are by default; "all"
  bool examples = false;            ///< of every operator that has one; on if nothing else is given
  std::vector<std::string> precision;  ///< what is made of models and of the zoo; empty: as-is
  ModelOptions model;
  InputOptions inputs;
  void Declare(Options& options);
};

using TakeGraph =
    std::function<Status(const std::string& name, Graph graph, const std::vector<Datum>& inputs)>;

/// Each source with inputs that fit it, random but where files are given. Ends with the first that
/// fails, and once a stop is requested.
Status ForEachSource(Context& context, const KernelSources& sources, const TakeGraph& take);

}  // namespace infer::bench
