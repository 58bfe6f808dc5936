/// make_corpus FOLDER: one seed per operator's example, as text and as a model, and per target of
/// the generator as a model with inputs.
#include <cstdio>
#include <filesystem>

#include "lib/ir/text.h"
#include "lib/onnx/export.h"
#include "lib/ops/registry.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"
#include "tests/differential/generator.h"
#include "tests/differential/model_case.h"

int main(int argc, char** argv) {
  using namespace infer;
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  std::filesystem::create_directories(folder + "/text");
  std::filesystem::create_directories(folder + "/import");
  const OpRegistry ops = AllOps();
  int models = 0;
  for (const OpDef* def : ops.all()) {
    if (def->example.empty()) continue;
    const std::string name = Cat(def->domain, def->domain.empty() ? "" : ".", def->name);
    if (!WriteFileAtomically(folder + "/text/" + name, def->example).ok()) return 5;
    auto g = ParseGraph(def->example, ops);
    if (!g.ok()) continue;
    auto bytes = ExportModelBytes(Model(*std::move(g)));
    if (!bytes.ok()) continue;
    if (!WriteFileAtomically(folder + "/import/" + name + ".onnx", *bytes).ok()) return 5;
    ++models;
  }
  std::filesystem::create_directories(folder + "/run");
  const ModelGenerator generator(ops);
  for (size_t i = 0; i < generator.num_targets(); ++i) {
    const auto model = generator.Make(i);
    if (!model) continue;
    const auto bytes = CaseOf(model->graph, model->inputs);
    if (!bytes.ok()) continue;
    if (!WriteFileAtomically(Cat(folder, "/run/", i, ".onnx"), bytes->SerializeAsString()).ok())
      return 5;
    ++models;
  }
  std::printf("%d seed models\n", models);
  return models > 0 ? 0 : 1;
}
