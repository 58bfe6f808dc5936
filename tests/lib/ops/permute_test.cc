/// The call in another order of axes gives the same numbers, in another order: on the example of
/// every operator that says how, and on further calls, for every permutation of operand 0.
#include "lib/ops/move/permute.h"

#include <numeric>

#include "lib/ops/move/move.h"
#include "tests/lib/ops/node_sample.h"

namespace infer {
namespace {

/// x with axis i where axis perm[i] was: what Transpose makes of it.
Tensor Turned(const Tensor& x, const Perm& perm) {
  return Transposed(x, std::vector<int>(perm.begin(), perm.end()));
}

Perm Inverse(const Perm& perm) {
  Perm inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverse;
}

Result<std::vector<Datum>> RunCall(const OpDef& def, const AttrMap& attrs,
                                   const std::vector<Datum>& operands, size_t num_outputs) {
  std::vector<ValueType> types(operands.size());
  std::vector<const Datum*> given(operands.size(), nullptr);
  OpCall call(def, attrs, operands.size(), num_outputs);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].is_tensor() || !operands[i].tensor().defined()) continue;
    types[i] = operands[i].tensor().type();
    call.BindInput(i, &types[i], &operands[i].tensor());
    given[i] = &operands[i];
  }
  INFER_TRY(CheckSchema(call));
  INFER_TRY(def.infer(call));
  OpRun run(call, given, num_outputs);
  INFER_TRY(def.reference(run));
  return std::move(run.outputs());
}

/// The permutations that the call knows another form for.
int CheckPermutations(const NodeSample& s) {
  const OpDef& def = s.node->def();
  const size_t outputs = s.node->outputs().size();
  auto before = RunCall(def, s.node->attrs(), s.operands, outputs);
  EXPECT_TRUE(before.ok()) << before.status().message();
  if (!before.ok()) return 0;
  Perm perm(static_cast<size_t>(s.operand(0).rank()));
  std::iota(perm.begin(), perm.end(), 0);
  int known = 0;
  do {
    const auto to = def.permute(CallOf(*s.node), perm, {{0}, s.node->attrs(), {}, perm});
    if (!to) continue;
    ++known;
    std::vector<Datum> operands = s.operands;
    for (const size_t i : to->data) operands[i] = Turned(s.operand(i), Inverse(perm));
    for (const auto& [i, t] : to->replaced) {
      if (operands.size() <= i) operands.resize(i + 1);
      operands[i] = t;
    }
    const auto after = RunCall(def, to->attrs, operands, outputs);
    EXPECT_TRUE(after.ok()) << after.status().message();
    if (!after.ok()) return known;
    for (size_t o = 0; o < outputs; ++o)
      EXPECT_EQ(ToString(Turned((*after)[o].tensor(), to->out_perm), 999),
                ToString((*before)[o].tensor(), 999))
          << def.name << " by " << ToString(perm);
  } while (std::next_permutation(perm.begin(), perm.end()));
  return known;
}

TEST(Permute, ExamplesOfAllOperators) {
  int operators = 0;
  for (const OpDef* def : TestOps().all()) {
    if (!def->permute) continue;
    SCOPED_TRACE(def->name);
    const auto s = NodeSample::Of(*def, def->example);
    ASSERT_TRUE(s && s->HasTensor(0));
    operators += CheckPermutations(*s) > 0;
  }
  EXPECT_GE(operators, 20);
}

TEST(Permute, CallsThatAreHarder) {
  for (const char* text :
       {"graph g(x: f32[2,3,4]) -> (y) { a = const i64[2] {0, -1} "
        "y = ReduceSum(x, a) {keepdims=0} }",
        "graph g(x: f32[2,3,4]) -> (y) { y = ArgMax(x) {axis=1, keepdims=0} }",
        "graph g(x: f32[1,3,1,4]) -> (y) { a = const i64[2] {0, 2} y = Squeeze(x, a) }",
        "graph g(x: f32[2,3,4]) -> (y) { i = const i64[] {1} y = Gather(x, i) {axis=2} }",
        "graph g(x: f32[2,3,4]) -> (y) { p = const i64[2] {1, 2} v = const f32[] {0} "
        "a = const i64[1] {-2} y = Pad(x, p, v, a) }",
        "graph g(x: f32[2,3,4]) -> (y) { p = const i64[6] {0, 1, 2, 3, 0, -1} y = Pad(x, p) }",
        "graph g(x: f32[4,3,5]) -> (y) { b = const i64[2] {1, -1} e = const i64[2] {4, -4} "
        "a = const i64[2] {0, 2} s = const i64[2] {2, -1} y = Slice(x, b, e, a, s) }",
        "graph g(x: f32[4,3,5]) -> (y) { b = const i64[2] {1, 0} e = const i64[2] {4, 2} "
        "y = Slice(x, b, e) }",
        "graph g(x: f32[2,3,4]) -> (y) { s = const f32[3] {0.5, 1, 2} z = const i8[3] {1, 2, 3} "
        "y = QuantizeLinear(x, s, z) {axis=1} }",
        "graph g(x: f32[2,3,4]) -> (y) { s = const f32[1] {0.5} y = QuantizeLinear(x, s) }"}) {
    SCOPED_TRACE(text);
    auto g = ParseGraph(text, TestOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const auto s = NodeSample::Of(g->nodes().back()->def(), text);
    ASSERT_TRUE(s);
    EXPECT_GT(CheckPermutations(*s), 1);
  }
}

TEST(Permute, DependsOnTheOrder) {
  for (const char* text : {"graph g(x: f32[2,3,4], a: i64[1]) -> (y) { y = ReduceSum(x, a) }",
                           "graph g(x: f32[2,3,4], i: i64[2,2]) -> (y) { y = Gather(x, i) }",
                           "graph g(x: f32[2,3], y: f32[N,3]) -> (z) { z = Concat(x, y) {axis=0} }",
                           "graph g(x: i8[4,6]) -> (y) { s = const f32[4,2] ~1 "
                           "y = DequantizeLinear(x, s) {axis=1, block_size=3} }"}) {
    auto g = ParseGraph(text, TestOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const Node& n = *g->nodes().back();
    const bool concat = n.Is("Concat");
    const Perm perm = n.input(0)->shape().rank() == 2 ? Perm{1, 0} : Perm{2, 0, 1};
    EXPECT_EQ(n.def().permute(CallOf(n), perm, {{0}, n.attrs(), {}, perm}).has_value(), concat)
        << text;
  }
}

}  // namespace
}  // namespace infer
