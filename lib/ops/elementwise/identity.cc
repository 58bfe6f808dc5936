/// Identity: the operator that the graph editor itself needs (an output that is an input).
#include "lib/ops/op_def.h"

namespace infer {
namespace {

Status InferIdentity(OpCall& call) {
  call.SetOut(0, call.type(0));
  if (auto e = call.elements(0)) call.SetElements(0, *std::move(e));
  return {};
}

Status RunIdentity(OpRun& run) {
  run.Set(0, run.datum(0));
  return {};
}

}  // namespace

std::span<const OpDef> IdentityOps() {
  static const OpDef ops[] = {{
      .name = "Identity",
      .doc = "y = x, of any type.",
      .traits = Trait::kView | Trait::kUnary,
      .since = 1,
      .versions = {1, 13, 14, 16, 19, 21, 23, 24, 25},
      .inputs = {{"input", "V"}},
      .outputs = {{"output", "V"}},
      .constraints = {{"V", kAllTypes, true}},
      .tolerance = 0,
      .infer = InferIdentity,
      .reference = RunIdentity,
      .example = "graph g(x: f32[2,3]) -> (y) { y = Identity(x) }",
  }};
  return ops;
}

}  // namespace infer
