/// If, Loop, Scan: schemas only. What needs a graph (inference, evaluation) is ir/control_flow.h.
#include "lib/ops/op_def.h"

namespace infer {

std::span<const OpDef> ControlFlowOps() {
  static const OpDef ops[] = {
      {
          .name = "If",
          .doc = "Runs then_branch or else_branch, as cond says.",
          .since = 1,
          .versions = {1, 11, 13, 16, 19, 21, 23, 24, 25},
          .inputs = {{"cond", "B"}},
          .outputs = {{"outputs", "V", Arity::kVariadic}},
          .attrs = {{"then_branch", AttrKind::kGraph, {}, true},
                    {"else_branch", AttrKind::kGraph, {}, true}},
          .constraints = {{"V", kAllTypes, true}, {"B", TypeSet(DType::kBool)}},
          .tolerance = 0,
          .example = R"(graph g(c: bool[], x: f32[2]) -> (y) {
            y = If(c) [x] {then_branch=graph(x) -> (x) {}, else_branch=graph(x) -> (z) { z = Identity(x) }} })",
      },
      {
          .name = "Loop",
          .doc = "Runs body at most M times while its condition holds.",
          .since = 1,
          .versions = {1, 11, 13, 16, 19, 21, 23, 24, 25},
          .inputs = {{"M", "I", Arity::kOptional},
                     {"cond", "B", Arity::kOptional},
                     {"v_initial", "V", Arity::kVariadic}},
          .outputs = {{"v_final_and_scan_outputs", "V", Arity::kVariadic}},
          .attrs = {{"body", AttrKind::kGraph, {}, true}},
          .constraints = {{"V", kAllTypes, true},
                          {"I", TypeSet(DType::kI64)},
                          {"B", TypeSet(DType::kBool)}},
          .tolerance = 0,
      },
      {
          .name = "Scan",
          .doc = "Runs body once per slice of the scan inputs, with states carried.",
          .since = 9,
          .versions = {9, 11, 16, 19, 21, 23, 24, 25},
          .inputs = {{"initial_state_and_scan_inputs", "V", Arity::kVariadic}},
          .outputs = {{"final_state_and_scan_outputs", "V", Arity::kVariadic}},
          .attrs = {{"body", AttrKind::kGraph, {}, true},
                    {"num_scan_inputs", AttrKind::kInt, {}, true},
                    {"scan_input_axes", AttrKind::kInts},
                    {"scan_input_directions", AttrKind::kInts},
                    {"scan_output_axes", AttrKind::kInts},
                    {"scan_output_directions", AttrKind::kInts}},
          .constraints = {{"V", kAllTypes}},
          .tolerance = 0,
      },
  };
  return ops;
}

}  // namespace infer
