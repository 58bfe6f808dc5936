/// ort_steps MODEL... : for each file, as --target ort has it, the kernels that ONNX Runtime is
/// foretold to launch: a line {"model": path, "steps": [[family, launches, mflop, kb, node], ...]}.
/// Open extents count as 1. Exit 3 where a file is not read.
#include "quant/target/ort_steps.h"

#include <cstdio>

#include "lib/ir/inference.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "tools/common/json_names.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"

int main(int argc, char** argv) {
  using namespace infer;
  const OpRegistry ops = AllOps();
  for (int i = 1; i < argc; ++i) {
    auto m = ImportModel(argv[i], ops);
    if (!m.ok()) {
      std::fprintf(stderr, "%s: %s\n", argv[i], m.status().message().c_str());
      return 3;
    }
    const Graph g = WithFoundExtents(m->graph);
    const FileVersions file{m->info.opsets.at(""), m->info.ir_version};
    Json steps = Json::array();
    for (const OrtStep& s : OrtStepsOf(g, file, *FindTarget("ort")))
      steps.push_back({s.family, s.launches, s.mflop, s.kb, s.node ? s.node->name() : ""});
    std::printf("%s\n", CompactJson({{"model", argv[i]}, {"steps", std::move(steps)}}).c_str());
  }
  return 0;
}
