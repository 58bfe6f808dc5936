/// Fused operators of our own (domain infer): their meaning is a body in standard operators, from
/// which inference, reference and export (as a model-local function) follow.
#include "lib/ops/op_def.h"

namespace infer {

std::span<const OpDef> FusedOps() {
  static const OpDef ops[] = {{
      .name = "Silu",
      .domain = "infer",
      .doc = "y = x * sigmoid(x).",
      .traits = Trait::kUnary,
      .inputs = {{"x", "T"}},
      .outputs = {{"y", "T"}},
      .constraints = {{"T", kFloatsBF16}},
      .body = "graph silu(x) -> (y) { s = Sigmoid(x)  y = Mul(x, s) }",
      .example = "graph g(x: f32[2,3]) -> (y) { y = infer::Silu(x) }",
  }};
  return ops;
}

}  // namespace infer
