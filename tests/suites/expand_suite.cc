/// Operators that are made of others: a node runs as its parts where the backend has no kernel for
/// the whole, with the same values as the operator's own reference.
#include "lib/support/strings.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// The same values, and on the cpu nothing on reference kernels.
void CheckFast(const std::string& text) {
  CheckGraph(text);
  if (!FusesAttention() || !BackendUnderTest().HasKernelFor(*SuiteOps().Find("Attention"))) return;
  const auto g = ParseGraph(text, SuiteOps());
  const auto program = BackendUnderTest().Compile(*g, {.level = 2});
  ASSERT_TRUE(program.ok()) << program.status().message();
  auto context = *(*program)->NewContext();
  Random random(1);
  for (size_t i = 0; i < g->inputs().size(); ++i) {
    const Value& v = *g->inputs()[i];
    ASSERT_TRUE(context->BindInput(i, RandomInput(v.dtype(), DimsOf(v), random)).ok());
  }
  ASSERT_TRUE(context->Run({.profile = true}).ok());
  for (const auto& [op, ms] : context->reference_times()) ADD_FAILURE() << op << " of " << text;
}

TEST(Expand, MultiHeadAttention) {
  for (std::string_view attrs : {"", ", scale=0.3", ", unidirectional=1"})
    for (int64_t queries : {1, 6, 17})
      for (std::string_view mask : {"", "i32[2]", "i32[2,17]", "i32[2,Q,17]"}) {
        std::string type(mask);
        if (const size_t q = type.find('Q'); q != type.npos) type.replace(q, 1, Cat(queries));
        CheckFast(Cat("graph g(q: f32[2,", queries, ",24], k: f32[2,17,24], v: f32[2,17,24]",
                      mask.empty() ? "" : Cat(", m: ", type), ", s: f32[1,3,", queries,
                      ",17]) -> (y) { b = const f32[72] ~1 "
                      "y = com.microsoft::MultiHeadAttention(q, k, v, b, ",
                      mask.empty() ? "_" : "m", ", s) {num_heads=3, mask_filter_value=-7.5", attrs,
                      "} }"));
      }
  CheckFast(
      "graph g(x: f32[2,9,3,3,8]) -> (y, k, v) { b = const f32[72] ~1 "
      "y, k, v = com.microsoft::MultiHeadAttention(x, _, _, b) {num_heads=3, unidirectional=1} }");
  CheckFast(
      "graph g(q: f32[2,4,24], k: f32[2,4,24], v: f32[2,4,24], a: f32[2,3,7,8], c: f32[2,3,7,8]) "
      "-> (y, k2, v2) { y, k2, v2 = com.microsoft::MultiHeadAttention(q, k, v, _, _, _, a, c) "
      "{num_heads=3, unidirectional=1} }");
}

TEST(Expand, ContribAttention) {
  for (std::string_view mask : {"", "i32[2]", "i32[4]", "i32[2,9]", "i32[2,9,9]", "i32[1,1]"})
    CheckFast(Cat("graph g(x: f32[2,9,20]", mask.empty() ? "" : Cat(", m: ", mask),
                  ") -> (y) { w = const f32[20,72] ~1 b = const f32[72] ~2 "
                  "y = com.microsoft::Attention(x, w, b",
                  mask.empty() ? "" : ", m", ") {num_heads=3, mask_filter_value=-7.5} }"));
  CheckFast(
      "graph g(x: f32[2,3,20], p: f32[2,2,3,5,8]) -> (y, n) { w = const f32[20,72] ~1 "
      "b = const f32[72] ~2 y, n = com.microsoft::Attention(x, w, b, _, p) "
      "{num_heads=3, unidirectional=1} }");
}

/// What scores, types or a missing kernel keep from running whole.
TEST(Expand, Others) {
  CheckFast(
      "graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,8]) -> (y, s) { y, _, _, s = "
      "Attention(q, k, v) {qk_matmul_output_mode=3} }");
  CheckGraph("graph g(x: f32[2,3,4]) -> (y) { y = Celu(x) {alpha=2.0} }");
  CheckGraph("graph g(x: f32[2,3,4]) -> (y) { y = Celu(x) {alpha=1e-42} }");  // x / alpha overflows
  CheckGraph("graph g(x: f32[2,3,4], t: i32[]) -> (y) { y = CastLike(x, t) }");
  CheckGraph("graph g(x: f64[2,3,4]) -> (y) { y = Mish(x) }");
  CheckGraph(
      "graph g(x: f32[6,3,2], t: i64[6,2]) -> (y) { c = const i64[6,2] {0,1,2,0,1,2,0,1,2,0,1,2} "
      "y = NegativeLogLikelihoodLoss(x, c) }");
}

/// Fused operators of our own never run whole on the reference: their body is in standard
/// operators.
TEST(Expand, EveryBody) {
  size_t bodies = 0;
  for (const OpDef* def : SuiteOps().all()) {
    if (def->body.empty()) continue;
    ++bodies;
    const auto steps = CheckGraph(def->example);
    if (BackendUnderTest().name() != "cpu") continue;
    for (const StepInfo& s : steps)
      EXPECT_FALSE(s.op.find("infer::") != std::string::npos && RunsOnReference(s.kernel)) << s.op;
  }
  EXPECT_GT(bodies, 0u);
}

/// Halves in parts are computed in f32, too.
TEST(Expand, Halves) {
  CheckGraph(
      "graph g(q: f16[2,5,16], k: f16[2,5,16], v: f16[2,5,16]) -> (y) { b = const f16[48] ~1 "
      "y = com.microsoft::MultiHeadAttention(q, k, v, b) {num_heads=2} }",
      1, 2e-3);
  // Scores beyond what f16 holds: only the result is rounded.
  CheckGraph(
      "graph g(x: f16[2,3,4]) -> (y) { a = const f16[4,12] ~1 k = const f16[] {200} w = Mul(a, k) "
      "b = const f16[12] ~2 y = com.microsoft::Attention(x, w, b) {num_heads=2} }",
      1, 2e-3);
  CheckGraph("graph g(x: bf16[2,3,4]) -> (y) { s = const f64[4] ~1 y = RMSNormalization(x, s) }", 1,
             1e-2);
}

/// Integers are scaled and rounded once, by the whole Gemm.
TEST(Expand, GemmOfIntegers) {
  for (const char* scales : {"alpha=-0.75, beta=2.0", "alpha=0.5", "beta=0.25"})
    CheckGraph(
        Cat("graph g(x: i64[3,5]) -> (y) { w = const i64[7,5] ~1 c = const i64[7] ~2 "
            "y = Gemm(x, w, c) {",
            scales, ", transB=1} }"));
}

/// The search for attention meets values that are no tensors.
TEST(Expand, SequencesBeforeSoftmax) {
  CheckGraph(
      "graph g(x: f32[5,2]) -> (z) { k = const i32[] {1} s = SplitToSequence(x, k) "
      "y = ConcatFromSequence(s) {axis=0} z = Softmax(y) {axis=1} }");
}

TEST(Expand, Einsum) {
  CheckFast(
      "graph g(x: f32[2,5,3,8], z: f32[2,7,3,8]) -> (y) { "
      "y = Einsum(x, z) {equation=\"bqhd,bkhd->bhqk\"} }");
  CheckFast(
      "graph g(x: f32[2,5,3,8]) -> (y) { w = const f32[3,8,24] ~1 "
      "y = Einsum(x, w) {equation=\"bqhd,hdo->bqo\"} }");
  CheckFast(
      "graph g(x: f32[2,5], z: f32[2,5,6], u: f32[2,6]) -> (y) { "
      "y = Einsum(x, z, u) {equation=\"bi,bij,bj->b\"} }");
  CheckFast("graph g(x: f32[2,5,6]) -> (y) { y = Einsum(x) {equation=\"...j->...\"} }");
  CheckFast(
      "graph g(x: f32[N,5,6], z: f32[6,N,5]) -> (y) { "
      "y = Einsum(x, z) {equation=\"nij,jni->n\"} }");
}

}  // namespace
}  // namespace infer
