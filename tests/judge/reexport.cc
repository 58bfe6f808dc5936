/// reexport IN OUT: import and export unchanged. Exit 0, 4 when something is unsupported, else 3.
#include <cstdio>

#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"

int main(int argc, char** argv) {
  using namespace infer;
  if (argc != 3) return 2;
  const OpRegistry ops = AllOps();
  auto m = ImportModel(argv[1], ops);
  Status s = m.ok() ? ExportModel(*m, argv[2]).status() : m.status();
  if (s.ok()) return 0;
  std::fprintf(stderr, "%s\n", s.message().c_str());
  return s.code() == Code::kUnsupported ? 4 : 3;
}
