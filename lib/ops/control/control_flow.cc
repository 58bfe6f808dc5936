/// If, Loop, Scan, SequenceMap, FlexAttention: schemas only. What needs a graph (inference,
/// evaluation) is ir/control_flow.h.
#include "lib/ops/attention/attention_reference.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// Without the subgraphs.
Cost CostFlexAttention(const OpCall& call) {
  Cost c = TrafficOf(call);
  for (size_t i = 0; i < 3; ++i)
    if (!call.in(i).is_static()) return c;
  const Shape &q = call.shape(0), &k = call.shape(1), &v = call.shape(2);
  c.flops = AttentionFlops(q[0].value(), q[1].value(), q[2].value(), k[2].value(), q[3].value(),
                           v[3].value());
  return c;
}

}  // namespace

std::span<const OpDef> ControlFlowOps() {
  static const OpDef ops[] = {
      {
          .name = "If",
          .doc = "Runs then_branch or else_branch, as cond says.",
          .traits = Trait::kControlFlow,
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
          .traits = Trait::kControlFlow,
          .since = 1,
          .versions = {1, 11, 13, 16, 19, 21, 23, 24, 25},
          .inputs = {{"M", "I", Arity::kOptional},
                     {"cond", "B", Arity::kOptional},
                     {"v_initial", "V", Arity::kVariadic, 1, true}},
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
          .traits = Trait::kControlFlow,
          .since = 9,
          .versions = {8, 9, 11, 16, 19, 21, 23, 24, 25},
          .inputs = {{"initial_state_and_scan_inputs", "V", Arity::kVariadic, 1, true}},
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
      {
          .name = "SequenceMap",
          .doc = "Runs body once per element of the sequences.",
          .traits = Trait::kControlFlow,
          .since = 17,
          .versions = {17},
          .inputs = {{"input_sequence", "S"},
                     {"additional_inputs", "V", Arity::kVariadic, 1, true}},
          .outputs = {{"out_sequence", "S", Arity::kVariadic}},
          .attrs = {{"body", AttrKind::kGraph, {}, true}},
          .constraints = {{"S", kClassicTypes, true}, {"V", kClassicTypes, true}},
          .tolerance = 0,
          .example = R"(graph g(x: f32[3,2], y: f32[1,2]) -> (z) {
            s = SplitToSequence(x)
            m = SequenceMap(s, y) {body=graph(e, t) -> (r) { r = Sub(e, t) }}
            z = ConcatFromSequence(m) {axis=0} })",
      },
      {
          .name = "FlexAttention",
          .domain = "ai.onnx.preview",
          .doc = "Attention whose scores and probabilities pass through subgraphs.",
          .traits = Trait::kAttention | Trait::kControlFlow,
          .inputs = {{"Q", "T1"}, {"K", "T1"}, {"V", "T1"}},
          .outputs = {{"Y", "T1"}},
          .attrs = {{"prob_mod", AttrKind::kGraph},
                    {"scale", AttrKind::kFloat},
                    {"score_mod", AttrKind::kGraph},
                    {"softmax_precision", AttrKind::kInt}},
          .constraints = {{"T1", kFloatsBF16}},
          .cost = CostFlexAttention,
          .example = R"(graph g(q: f32[1,4,3,8], k: f32[1,2,5,8], v: f32[1,2,5,6]) -> (y) {
            y = ai.onnx.preview::FlexAttention(q, k, v) {
              score_mod=graph(s) -> (t) { t = Tanh(s) }} })",
      },
  };
  return ops;
}

}  // namespace infer
