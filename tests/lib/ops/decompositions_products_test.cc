/// Gemm, Einsum and fused products: the reference kernel gives what the decomposition gives.
#include "lib/ops/decompositions.h"
#include "tests/lib/ops/expect_decomposition.h"

namespace infer {
namespace {

TEST(Decompositions, OfGemm) {
  for (std::string_view c : {"f32[]", "f32[4]", "f32[1,4]", "f32[2,1]", "f32[2,4]"})
    for (std::string_view attrs : {"", "{alpha=0.5, beta=2.0}", "{transB=1}"})
      ExpectSame(Cat("graph g(x: f32[2,3], c: ", c, ") -> (y) { w = const ",
                     attrs == "{transB=1}" ? "f32[4,3]" : "f32[3,4]", " ~1 y = Gemm(x, w, c) ",
                     attrs, " }"));
  ExpectSame(
      "graph g(x: f16[2,3], c: f16[2,4]) -> (y) { w = const f16[3,4] ~1 y = Gemm(x, w, c) }");
}

TEST(Decompositions, OfFusedLayers) {
  for (std::string_view attrs :
       {"", "activation=\"Relu\"", "activation=\"Tanh\"", "activation=\"Sigmoid\"",
        "activation=\"LeakyRelu\"", "activation=\"LeakyRelu\", activation_params=[0.3]",
        "activation=\"HardSigmoid\", activation_params=[0.3, 0.4]",
        "activation=\"Clip\", activation_params=[-0.2, 0.3]"}) {
    const std::string more = attrs.empty() ? "" : Cat(", ", attrs);
    ExpectSame(
        Cat("graph g(x: f32[1,2,5,6]) -> (y) { w = const f32[3,2,3,3] ~1  y = "
            "com.microsoft::FusedConv(x, w) {pads=[1,0,0,1], strides=[2,1]",
            more, "} }"));
    ExpectSame(
        Cat("graph g(x: f32[1,2,5,6], z: f32[1,3,3,4]) -> (y) { w = const f32[3,2,3,3] ~1  y = "
            "com.microsoft::FusedConv(x, w, _, z) {group=1",
            more, "} }"));
  }
  for (std::string_view attrs :
       {"transB=1", "transB=1, activation=\"Relu\"",
        "transB=1, activation=\"Elu\", activation_alpha=0.5",
        "transB=1, alpha=0.5, beta=2.0, activation=\"HardSigmoid\", activation_alpha=0.3, "
        "activation_beta=0.4"})
    ExpectSame(
        Cat("graph g(x: f32[3,5]) -> (y) { w = const f32[7,5] ~1  c = const f32[7] ~2  y = "
            "com.microsoft::FusedGemm(x, w, c) {",
            attrs, "} }"));
}

TEST(Decompositions, OfEinsum) {
  const std::vector<std::pair<std::vector<std::string_view>, std::string_view>> cases = {
      {{"f32[2,3,4]", "f32[2,5,4]"}, "bij,bkj->bik"},
      {{"f16[2,3,4]", "f16[2,5,4]"}, "bid,bjd->bji"},
      {{"f32[3,4]", "f32[4,5]", "f32[5,2]"}, "ij,jk,kl->il"},
      {{"f32[3]", "f32[4]", "f32[3,4]"}, "i,j,ij->"},
      {{"f32[2,3]", "f32[2,3,4]", "f32[2,4]", "f32[2]"}, "bi,bij,bj,b->b"},
      {{"f32[2,3,4]", "f32[4,3,N5]"}, "ijk,kjl->il"},
      {{"f32[2,A3,B4]", "f32[B4,A3,N5]"}, "ijk,kjl->li"},
      {{"f32[2,4,3,5]", "f32[2,6,3,5]"}, "bqhd,bkhd->bhqk"},
      {{"f32[2,4,3,5]", "f32[2,6,3,5]"}, "bqhd,bkhd->bqk"},
      {{"f32[N2,S4,2,3]", "f32[2,3,5]"}, "bqhd,hdo->bqo"},
      {{"f32[N2,S4,6]", "f32[6,2,3]"}, "ibh,hnd->ibnd"},
      {{"f32[6,2,3]", "f32[N2,S4,6]"}, "hnd,bsh->bnsd"},
      {{"f32[N2,S4,D6]", "f32[2,D6,3]"}, "abc,dce->abde"},
      {{"f32[N2,S4,5,6]", "f32[5,2,6,3]"}, "abxc,xdce->abde"},
      {{"f32[N2,A4,B6]", "f32[A4,2,B6,3]"}, "abc,bdce->aed"},
      {{"f32[N2,S4,6]", "f32[N2,6,2,3]"}, "bsc,bcde->bsde"},
      {{"f32[N2,6]", "f32[N2,6,2,3]"}, "bc,bcde->bed"},
      {{"f32[1,S4,6]", "f32[N2,6,2,3]"}, "bsc,bcde->bsde"},
      {{"f32[6]", "f32[6,2,3]"}, "c,cde->de"},
      {{"f32[N2,3,4,6]", "f32[N2,6,2,3]"}, "bstc,bcde->bstde"},
      {{"f32[N2,6]", "f32[6,2,M3]"}, "bc,cde->bde"},
      {{"f32[N2,1,3,4]", "f32[7,4,5]"}, "...ij,...jk->...ik"},
      {{"f32[2,3,4]", "f32[4,5]"}, "bij,jk"},
      {{"f32[3,1]", "f32[2,4]"}, "ij,jk->ik"},
      {{"f32[3,1]", "f32[3,4]"}, "ij,ij->ji"},
      {{"f32[2,3,4]", "f32[3,5,4]"}, "bhd,hed->bhe"},
      {{"f32[2,3]", "f32[2,3]"}, "ij,ij->"},
      {{"f32[3]", "f32[4]"}, "i,j->ji"},
      {{"f32[2,3,4]"}, "ijk->ki"},
      {{"f32[2,3]"}, "ij->ij"},
      {{"f32[2,3,4]"}, "...k->..."},
  };
  for (const auto& [types, equation] : cases) {
    std::vector<std::string> inputs, names;
    for (size_t i = 0; i < types.size(); ++i) {
      names.push_back(Cat("p", i));
      inputs.push_back(Cat("p", i, ": ", types[i]));
    }
    ExpectSame(Cat("graph g(", infer::Join(inputs, ", "), ") -> (y) { y = Einsum(",
                   infer::Join(names, ", "), ") {equation=\"", equation, "\"} }"));
  }
}

/// Three operands of 64 x 64, joined in the order that is cheap: no product has four axes.
TEST(Decompositions, OfEinsumJoinsWhatStaysSmall) {
  const auto g = ParseGraph(R"(graph g(a: f32[64,64], b: f32[64,64], c: f32[64,64]) -> (y) {
      y = Einsum(a, b, c) {equation="ij,kl,jk->il"} })",
                            TestOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  const auto body = DecompositionOf(CallOf(*g->nodes().back()), TestOps());
  ASSERT_TRUE(body.ok()) << body.status().message();
  for (const auto& n : body->nodes())
    EXPECT_LE(n->output(0)->shape().num_elements().value(), 64 * 64) << n->op();
}

/// Heads of a projection are columns of one product: its operands have the axes of the activations
/// and two, not four with as many products as heads.
TEST(Decompositions, OfEinsumMakesOneProductOfHeads) {
  const std::string_view equations[] = {"bsc,cde->bsde", "bsc,cde->bdse", "sbc,dce->sbde"};
  for (const std::string_view equation : equations) {
    SCOPED_TRACE(equation);
    const bool first = equation.substr(4, 1) == "c";
    const auto g = ParseGraph(Cat("graph g(x: f32[N,S,6], w: f32[", first ? "6,2,3" : "2,6,3",
                                  "]) -> (y) { y = Einsum(x, w) {equation=\"", equation, "\"} }"),
                              TestOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const auto body = DecompositionOf(CallOf(*g->nodes().back()), TestOps());
    ASSERT_TRUE(body.ok()) << body.status().message();
    int products = 0;
    for (const auto& n : body->nodes()) {
      if (n->op() != "MatMul") continue;
      ++products;
      EXPECT_EQ(n->input(0)->shape().rank(), 3);
      EXPECT_EQ(n->input(1)->shape().rank(), 2);
    }
    EXPECT_EQ(products, 1);
  }
}

TEST(Decompositions, OfEinsumNeedsWhatMatMulNeeds) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"graph g(x: f32[3,3]) -> (y) { y = Einsum(x) {equation=\"ii->i\"} }", "diagonal"},
      {"graph g(x: f32[3,N], z: f32[4,5]) -> (y) { y = Einsum(x, z) {equation=\"ij,jk->ik\"} }",
       "known to be equal"},
      {"graph g(x: i32[3,3]) -> (y) { y = Einsum(x) {equation=\"ij->ji\"} }", "floating point"},
      {"graph g(x: f32[*]) -> (y) { y = Einsum(x) {equation=\"...ij->...ji\"} }", "known rank"},
      {"graph g(x: f32[3,0], z: f32[0,5]) -> (y) { y = Einsum(x, z) {equation=\"ij,jk->ik\"} }",
       "above 0"}};
  for (const auto& [text, reason] : cases) {
    SCOPED_TRACE(text);
    const auto g = ParseGraph(text, TestOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const auto body = DecompositionOf(CallOf(*g->nodes().back()), TestOps());
    ASSERT_FALSE(body.ok());
    EXPECT_NE(body.status().message().find(reason), std::string::npos) << body.status().message();
  }
}

/// As in the reference kernel: an activation with an empty name is none of them.
TEST(Decompositions, RefuseAnActivationWithoutName) {
  for (std::string_view layer :
       {"FusedConv(x, w) {activation=\"\"}", "FusedGemm(m, v) {transB=1, activation=\"\"}"}) {
    SCOPED_TRACE(layer);
    const auto g = ParseGraph(Cat("graph g(x: f32[1,2,5,6], m: f32[3,5]) -> (y) { "
                                  "w = const f32[3,2,3,3] ~1  v = const f32[7,5] ~1  y = "
                                  "com.microsoft::",
                                  layer, " }"),
                              TestOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    EXPECT_FALSE(DecompositionOf(CallOf(*g->nodes().back()), TestOps()).ok());
    Random random(7);
    std::vector<Datum> inputs;
    for (const Value* input : g->inputs()) inputs.emplace_back(RandomInput(random, *input));
    EXPECT_FALSE(Evaluate(*g, inputs).ok());
  }
}

TEST(Decompositions, OfFusedMatMul) {
  for (int flags = 0; flags < 16; ++flags) {
    const auto is = [&](int bit) { return (flags >> bit & 1) != 0; };
    // Extents in the order of the product, [2,3,4,5] and [2,3,5,6], put back to where they are
    // read.
    const auto extents = [](int rows, int columns, bool trans, bool batch) {
      const int a = trans ? columns : rows, b = trans ? rows : columns;
      return batch ? Cat(a, ",2,3,", b) : Cat("2,3,", a, ",", b);
    };
    ExpectSame(Cat("graph g(a: f32[", extents(4, 5, is(0), is(1)), "], b: f32[",
                   extents(5, 6, is(2), is(3)), "]) -> (y) { y = com.microsoft::FusedMatMul(a, b) ",
                   "{alpha=0.5, transA=", is(0) ? 1 : 0, ", transBatchA=", is(1) ? 1 : 0,
                   ", transB=", is(2) ? 1 : 0, ", transBatchB=", is(3) ? 1 : 0, "} }"));
  }
}

}  // namespace
}  // namespace infer
