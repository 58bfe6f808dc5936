#pragma once
/// Random models around the examples of all operators: one target (an operator, one of its
/// attributes, or one of its type variables) after the other, varied, chained with other operators,
/// with less known shapes. The same seed makes the same model on every machine.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

struct GeneratedModel {
  std::string target;    ///< "Conv", "Conv.dilations" or "Conv:T"
  bool reached = false;  ///< the attribute or type was varied; false: nothing that was tried builds
  Graph graph;
  std::vector<Datum> inputs;
};

class ModelGenerator {
 public:
  explicit ModelGenerator(const OpRegistry& ops);
  size_t num_targets() const { return targets_.size(); }
  std::string TargetName(size_t i) const;
  /// Of target seed % num_targets(). nullopt: no example, or no value for an input.
  std::optional<GeneratedModel> Make(uint64_t seed) const;

 private:
  struct Target {
    const OpDef* def;
    const AttrDef* attr = nullptr;
    std::string_view type_variable = "";
  };
  const OpRegistry& ops_;
  std::vector<Target> targets_;
  std::vector<const OpDef*> examples_;
};

}  // namespace infer
