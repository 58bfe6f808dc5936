/// make_corpus FOLDER: one seed per operator's example, as text and as a model.
#include <cstdio>
#include <filesystem>

#include "lib/ir/text.h"
#include "lib/onnx/export.h"
#include "lib/ops/registry.h"
#include "lib/support/file.h"
#include "lib/support/strings.h"

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
  std::printf("%d seed models\n", models);
  return models > 0 ? 0 : 1;
}
