/// Any bytes as a text graph: refused, or Parse(Print(g)) has g's fingerprint.
#include <cstdint>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace infer;
  static const OpRegistry ops = AllOps();
  auto g = ParseGraph({reinterpret_cast<const char*>(data), size}, ops);
  if (!g.ok()) return 0;
  auto again = ParseGraph(Print(*g), ops);
  INFER_CHECK(again.ok());
  INFER_CHECK(Fingerprint(*again) == Fingerprint(*g));
  return 0;
}
