#pragma once
/// The models that tests run over: the zoo, and those of $INFER_TEST_DATA.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/ir/eval.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "tools/common/input_values.h"
#include "tools/zoo/zoo.h"

namespace infer {

inline const OpRegistry& Ops() {
  static const OpRegistry* ops = new OpRegistry(AllOps());
  return *ops;
}

inline std::filesystem::path Below(std::string_view folder) {
  const char* data = std::getenv("INFER_TEST_DATA");
  return data ? std::filesystem::path(data) / folder : std::filesystem::path();
}

/// Inputs of the first stored set, or random ones.
inline Result<std::vector<Datum>> InputsOf(const std::filesystem::path& model, const Graph& g) {
  auto sets = FindTestSets(model.parent_path());
  if (sets.ok() && !sets->empty()) {
    INFER_ASSIGN(TestSet set, ReadTestSet(sets->front(), g));
    if (set.inputs.size() == g.inputs().size()) return std::move(set.inputs);
  }
  INFER_ASSIGN(ModelInputs made, MakeInputs(g, {}, [&](const std::vector<Datum>& values) {
                 return Evaluate(g, values);
               }));
  INFER_TRY(Evaluate(g, made.values).status());
  return std::move(made.values);
}

inline std::vector<std::filesystem::path> ModelsBelow(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> paths;
  if (!root.empty() && std::filesystem::is_directory(root))
    for (const auto& e : std::filesystem::recursive_directory_iterator(root))
      if (e.path().extension() == ".onnx") paths.push_back(e.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline std::vector<std::string_view> ZooNames() {
  std::vector<std::string_view> names;
  for (const ZooModel& m : ZooModels()) names.push_back(m.name);
  return names;
}

/// Large decoders with two of their layers, which are all alike.
inline ZooOptions TestedOptions(std::string_view name) {
  for (const ZooModel& m : ZooModels())
    if (m.name == name && m.open_sequence) return {.layers = 2};
  return {};
}

/// Letters, digits and '_' alone.
inline std::string TestNameOf(std::string_view text) {
  std::string name(text);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

}  // namespace infer
