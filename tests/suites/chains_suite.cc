/// Element-wise operators one after the other, with norms of rows and a quantization among them:
/// as one step where a backend has it, against the reference kernels node by node.
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// Where the backend has chains: one step, whose origin is all nodes.
void ExpectOneChain(const std::vector<StepInfo>& steps, const std::string& what) {
  if (BackendUnderTest().name() != "cpu") return;
  ASSERT_EQ(steps.size(), 1u) << what;
  EXPECT_EQ(steps[0].kernel.substr(0, 9), "own:chain") << what;
}

TEST(Chains, OfEveryLength) {
  for (int64_t n : {1, 2, 15, 17, 64, 1023, 1024, 1025, 2049, 40000}) {
    const std::string g = Cat("graph g(x: f32[", n, "], z: f32[", n, R"(]) -> (y) {
      two = const f32[] {2.5}
      a = Mul(x, two)
      b = Tanh(a)
      c = Sub(two, b)
      y = Add(c, z)
    })");
    ExpectOneChain(CheckGraph(g), Cat(n));
    if (n > 1000) CheckSameBits(g);
  }
}

/// Branches that meet, values with several readers, an operand twice.
TEST(Chains, ThatBranch) {
  const std::string silu = R"(graph g(x: f32[3,700]) -> (y) {
    s = Sigmoid(x) y = Mul(s, x) })";
  ExpectOneChain(CheckGraph(silu), "SiLU");
  const std::string gelu = R"(graph g(x: f32[5,1500]) -> (y) {
    half = const f32[] {0.5}  one = const f32[1] {1}  two = const f32[] {2}
    c = const f32[] {0.79788}  d = const f32[] {0.044715}
    sq = Pow(x, two)  cube = Mul(sq, x)  e = Mul(d, cube)  f = Add(x, e)  h = Mul(f, c)
    t = Tanh(h)  u = Add(t, one)  v = Mul(x, u)  y = Mul(half, v)
  })";
  ExpectOneChain(CheckGraph(gelu), "GELU");
  CheckSameBits(gelu);
  ExpectOneChain(CheckGraph(R"(graph g(x: f32[2,100]) -> (y) {
    a = Exp(x)  b = Neg(x)  c = Mul(a, a)  d = Add(b, c)  e = Max(d, a)  y = Div(e, c) })"),
                 "several readers");
}

/// What others read, and the graph's outputs.
TEST(Chains, WithSeveralResults) {
  ExpectOneChain(CheckGraph(R"(graph g(x: f32[4,300]) -> (a, b, y) {
    a = Exp(x)  b = Add(a, x)  y = Mul(b, a) })"),
                 "outputs");
  CheckGraph(R"(graph g(x: f32[40,300]) -> (y, z) {
    a = Abs(x)  b = Sqrt(a)  s = Softmax(b)  c = Add(b, s)  y = Tanh(c)  z = Mul(y, a) })");
}

/// A reader between the nodes of what would be a chain: it must not come before them.
TEST(Chains, KeepTheOrder) {
  CheckGraph(R"(graph g(x: f32[8,64]) -> (y) {
    a = Exp(x)  s = Softmax(a)  b = Mul(a, s)  t = Softmax(b)  c = Add(b, a)  y = Sub(c, t) })");
  CheckGraph(R"(graph g(x: f32[8,64]) -> (y, z) {
    a = Exp(x)  b = Neg(a)  m = Transpose(a) {perm=[1,0]}  n = Abs(m)  k = Transpose(n) {perm=[1,0]}
    y = Add(b, k)  z = Mul(n, n) })");
}

TEST(Chains, Broadcast) {
  for (std::string_view z : {"[96]", "[1,96]", "[1]", "[]", "[5,1]", "[2,1,1]", "[1,5,96]",
                             "[2,5,1]", "[2,1,96]", "[1,1,1]"})
    for (std::string_view op : {"Add(a, z)", "Sub(z, a)", "Div(a, z)", "PRelu(a, z)"}) {
      if (op.substr(0, 5) == "PRelu" && z == "[]") continue;
      const std::string g = Cat("graph g(x: f32[2,5,96], w: f32", z, R"() -> (y) {
        z = Exp(w)  a = Tanh(x)  b = )",
                                op, "  y = Mul(b, x) }");
      CheckGraph(g);
      CheckSameBits(g);
    }
  CheckGraph(R"(graph g(x: f32[2,3,1,5,4,40], z: f32[3,1,1,4,1], w: f32[2,1,1,5,1,40]) -> (y) {
    a = Tanh(x)  b = Add(a, z)  y = Mul(w, b) })");
  CheckGraph(
      "graph g(x: f32[n,64], z: f32[64]) -> (y) { a = Mul(x, z)  b = Exp(a)  y = Add(b, z) }");
}

/// Between convolutions, whose layouts they take: blocks, channels last, with padding and without.
TEST(Chains, BetweenConvolutions) {
  for (int64_t c : {3, 16, 24, 32, 40, 64})
    for (std::string_view z : {"[1,C,1,1]", "[C,1,1]", "[1]", "[2,C,9,9]", "[1,C,9,9]", "[9,9]"}) {
      std::string dims(z);
      if (const auto at = dims.find('C'); at != std::string::npos) dims.replace(at, 1, Cat(c));
      const std::string g = Cat("graph g(x: f32[2,8,9,9], z: f32", dims, R"() -> (y) {
        w = const f32[)",
                                c, ",8,3,3] ~1  v = const f32[16,", c, R"(,3,3] ~2
        a = Conv(x, w) {pads=[1,1,1,1]}
        b = Sigmoid(a)  d = Mul(b, a)  e = Add(d, z)  f = Mul(e, d)
        y = Conv(f, v) {pads=[1,1,1,1]}
      })");
      CheckGraph(g, 1, 2e-5);
    }
}

TEST(Chains, OfRows) {
  for (int64_t n : {32, 33, 200, 768, 4096})
    for (std::string_view norm :
         {"LayerNormalization(c, s, b)", "LayerNormalization(c, s)", "RMSNormalization(c, s)"}) {
      const std::string head = Cat("graph g(x: f32[7,", n, "], r: f32[7,", n, "]) -> ("),
                        body = Cat(") { s = const f32[", n, "] ~1  b = const f32[", n,
                                   "] ~2  c = Add(x, r)  y = ", norm);
      ExpectOneChain(CheckGraph(Cat(head, "y", body, " }")), Cat(n, norm));
      ExpectOneChain(CheckGraph(Cat(head, "y, c", body, " }")), "the sum is a result, too");
      ExpectOneChain(CheckGraph(Cat(head, "z", body, "  z = Mul(y, x) }")), "more behind it");
      CheckSameBits(Cat(head, "y, c", body, " }"));
    }
  // The norm alone; rows that are none.
  CheckGraph("graph g(x: f32[3,5,40]) -> (y) { s = const f32[40] ~1  y = RMSNormalization(x, s) }");
  CheckGraph(R"(graph g(x: f32[3,5,40], r: f32[3,5,40]) -> (y) { s = const f32[5,40] ~1
    c = Add(x, r)  y = LayerNormalization(c, s) {axis=1} })");
  CheckGraph(R"(graph g(x: f32[3,5,40]) -> (y) { s = const f32[5,40] ~1
    y = RMSNormalization(x, s) {axis=-2} })");
}

/// The scale is a power of two, so that every backend rounds alike.
TEST(Chains, Quantized) {
  for (std::string_view type : {"u8", "i8"}) {
    const std::string zero = type == "u8" ? "z = const u8[] {128}" : "z = const i8[] {3}";
    const std::string head = Cat("graph g(x: f32[6,1100], r: f32[1100]) -> (");
    ExpectOneChain(
        CheckGraph(Cat(head, R"(y) { q = const f32[] {0.03125}  )", zero,
                       R"(  a = Add(x, r)  b = Relu(a)  y = QuantizeLinear(b, q, z) })")),
        std::string(type));
    ExpectOneChain(CheckGraph(Cat(head, R"(y, a) { q = const f32[] {0.03125}  )", zero,
                                  R"(  a = Add(x, r)  y = QuantizeLinear(a, q, z) })")),
                   "with the sum");
    CheckGraph(Cat(head, R"(y) { q = const f32[1100] ~3  zz = const )", type, R"([1100] ~4
      p = Abs(q)  a = Add(x, r)  y = QuantizeLinear(a, p, zz) })"));
  }
}

}  // namespace
}  // namespace infer
