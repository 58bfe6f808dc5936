/// Any bytes as a model: import refuses them or gives a graph that verifies, and that comes back
/// from our own export as it was.
#include <cstdint>
#include <cstdio>

#include "lib/ir/verify.h"
#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace infer;
  static const OpRegistry ops = AllOps();
  ImportOptions options;
  options.limits.max_nodes = 10'000;  // what is slow only because it is large is no finding
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  auto m = ImportModelBytes(bytes, ops, options);
  INFER_CHECK(m.status().code() != Code::kInternal);
  if (!m.ok()) return 0;
  const Status verified = Verify(m->graph);
  if (!verified.ok()) std::fprintf(stderr, "%s\n", verified.message().c_str());
  INFER_CHECK(verified.ok());
  auto out = ExportModelBytes(*m);
  if (!out.ok()) {
    INFER_CHECK(out.status().code() == Code::kUnsupported);
    return 0;
  }
  auto again = ImportModelBytes(*out, ops);
  if (!again.ok()) std::fprintf(stderr, "%s\n", again.status().message().c_str());
  INFER_CHECK(again.ok());
  INFER_CHECK(Fingerprint(again->graph) == Fingerprint(m->graph));
  return 0;
}
