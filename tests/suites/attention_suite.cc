/// Attention spelled out in nodes, as exporters write it: heads, masks, layouts of the operands,
/// quantization, against the reference kernels node by node.
#include <array>

#include "lib/support/parallel.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// Whether the whole pattern became one step, where the backend forms such.
void ExpectFused(const std::vector<StepInfo>& steps, size_t others, const std::string& what) {
  const bool forms = std::any_of(steps.begin(), steps.end(), [](const StepInfo& s) {
    return s.kernel.starts_with(AttentionKernel());
  });
  if (AttentionKernel().empty() || !BackendUnderTest().HasKernelFor(*SuiteOps().Find("Softmax")))
    return;
  EXPECT_TRUE(forms) << what;
  EXPECT_EQ(steps.size(), 1 + others) << what;
}

/// [B, S, H * D] operands split into heads, as in BERT and GPT.
std::string SplitHeads(int64_t b, int64_t h, int64_t s, int64_t t, int64_t d, int64_t e,
                       std::string_view on_scores, std::string_view inputs = "") {
  return Cat("graph g(q: f32[", b, ",", s, ",", h * d, "], k: f32[", b, ",", t, ",", h * d,
             "], v: f32[", b, ",", t, ",", h * e, "]", inputs, ") -> (y) { qs = const i64[4] {", b,
             ",", s, ",", h, ",", d, "} ks = const i64[4] {", b, ",", t, ",", h, ",", d,
             "} vs = const i64[4] {", b, ",", t, ",", h, ",", e, "} ys = const i64[3] {", b, ",", s,
             ",", h * e, "} qr = Reshape(q, qs) kr = Reshape(k, ks) vr = Reshape(v, vs) ",
             "qt = Transpose(qr) {perm=[0,2,1,3]} kt = Transpose(kr) {perm=[0,2,3,1]} ",
             "vt = Transpose(vr) {perm=[0,2,1,3]} x = MatMul(qt, kt) c = const f32[] {0.35} ",
             on_scores, " p = Softmax(z) {axis=-1} o = MatMul(p, vt) ",
             "ot = Transpose(o) {perm=[0,2,1,3]} y = Reshape(ot, ys) }");
}

TEST(Attention, Extents) {
  for (int64_t heads : {1, 3})
    for (int64_t s : {1, 2, 13, 14, 15, 40})
      for (int64_t t : {1, 7, 16, 17, 33, 64})
        for (int64_t d : {1, 8, 20, 64}) {
          const int64_t e = d == 20 ? 33 : d;
          const auto text = SplitHeads(2, heads, s, t, d, e, "z = Mul(x, c)");
          ExpectFused(CheckGraph(text, static_cast<uint64_t>(s + t), 4e-6), 0, text);
        }
}

TEST(Attention, LongRows) {
  for (int64_t t : {300, 1024})
    CheckGraph(SplitHeads(1, 2, 30, t, 128, 128, "z = Mul(x, c)"), 3, 4e-6);
}

TEST(Attention, Masks) {
  for (std::string_view mask : {"[20]", "[1,1,1,20]", "[2,1,1,20]", "[9,20]", "[2,1,9,20]",
                                "[1,3,9,20]", "[2,3,9,20]", "[3,9,20]"}) {
    const auto added =
        SplitHeads(2, 3, 9, 20, 16, 16, "w = Div(x, c) z = Add(w, m)", Cat(", m: f32", mask));
    ExpectFused(CheckGraph(added), 0, added);
    const auto first = SplitHeads(2, 3, 9, 20, 16, 16, "z = Add(m, x)", Cat(", m: f32", mask));
    ExpectFused(CheckGraph(first), 0, first);
    for (std::string_view choice : {"Where(m, w, h)", "Where(m, h, w)"}) {
      const auto chosen =
          SplitHeads(2, 3, 9, 20, 16, 16, Cat("w = Mul(c, x) h = const f32[] {-3e38} z = ", choice),
                     Cat(", m: bool", mask));
      ExpectFused(CheckGraph(chosen), 0, chosen);
    }
  }
  const auto both =
      SplitHeads(2, 3, 9, 20, 16, 16, "w = Add(x, a) h = const f32[] {-3.5} z = Where(m, w, h)",
                 ", a: f32[9,20], m: bool[2,1,1,20]");
  ExpectFused(CheckGraph(both), 0, both);
}

/// What a constant mask hides at the ends of rows is not computed.
TEST(Attention, Causal) {
  for (int64_t n : {5, 14, 31, 50}) {
    std::string flags, numbers;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        flags += Cat(flags.empty() ? "" : ", ", j <= i ? 1 : 0);
        numbers += Cat(numbers.empty() ? "" : ", ", j <= i ? "0" : j == i + 1 ? "-1e31" : "-inf");
      }
    const auto chosen =
        SplitHeads(1, 2, n, n, 8, 8,
                   Cat("m = const bool[1,1,", n, ",", n, "] {", flags,
                       "} h = const f32[] {-3.4e38} w = Div(x, c) z = Where(m, w, h)"));
    ExpectFused(CheckGraph(chosen), 0, chosen);
    const auto added = SplitHeads(
        1, 2, n, n, 8, 8, Cat("m = const f32[", n, ",", n, "] {", numbers, "} z = Add(x, m)"));
    ExpectFused(CheckGraph(added), 0, added);
  }
}

TEST(Attention, RowsThatSeeNothing) {
  // All scores equal: every key counts the same; all -inf: not a number.
  CheckGraph(SplitHeads(1, 2, 3, 6, 8, 8,
                        "m = const bool[3,6] {1,0,0,0,0,0, 0,0,0,0,0,0, 1,1,1,1,1,1} "
                        "h = const f32[] {-3.4e38} z = Where(m, x, h)"));
  CheckGraph(SplitHeads(1, 2, 2, 4, 8, 8,
                        "m = const f32[2,4] {0,0,0,0, -inf,-inf,-inf,-inf} z = Add(x, m)"));
}

/// One product for queries, keys and values, cut by Split or Slice.
TEST(Attention, PackedOperands) {
  const auto split = std::string(
      "graph g(x: f32[2,11,72]) -> (y) { n = const i64[3] {24,24,24} q, k, v = Split(x, n) "
      "{axis=2} s = const i64[4] {2,11,3,8} qr = Reshape(q, s) kr = Reshape(k, s) "
      "vr = Reshape(v, s) qt = Transpose(qr) {perm=[0,2,1,3]} kt = Transpose(kr) "
      "{perm=[0,2,3,1]} vt = Transpose(vr) {perm=[0,2,1,3]} a = MatMul(qt, kt) p = Softmax(a) "
      "{axis=-1} o = MatMul(p, vt) ot = Transpose(o) {perm=[0,2,1,3]} r = const i64[2] {22,24} "
      "y = Reshape(ot, r) }");
  ExpectFused(CheckGraph(split), 0, split);
  // Samples and heads in one axis, which do not lie together.
  for (int64_t b : {1, 2}) {
    const auto slices =
        Cat("graph g(x: f32[11,", b,
            ",72]) -> (y) { s0 = const i64[1] {0} s1 = const i64[1] {24} "
            "s2 = const i64[1] {48} s3 = const i64[1] {72} ax = const i64[1] {2} "
            "q = Slice(x, s0, s1, ax) k = Slice(x, s1, s2, ax) v = Slice(x, s2, s3, ax) "
            "s = const i64[3] {11,",
            b * 3,
            ",8} qr = Reshape(q, s) kr = Reshape(k, s) "
            "vr = Reshape(v, s) qt = Transpose(qr) {perm=[1,0,2]} c = const f32[1] {2.8} "
            "qd = Div(qt, c) kt = Transpose(kr) {perm=[1,2,0]} vt = Transpose(vr) {perm=[1,0,2]} "
            "a = MatMul(qd, kt) p = Softmax(a) {axis=2} o = MatMul(p, vt) ot = Transpose(o) "
            "{perm=[1,0,2]} r = const i64[3] {11,",
            b, ",24} y = Reshape(ot, r) }");
    ExpectFused(CheckGraph(slices), 0, slices);
  }
}

/// Fewer heads of keys and values, repeated by Expand.
TEST(Attention, GroupedHeads) {
  const auto text = std::string(
      "graph g(q: f32[2,5,48], k: f32[2,9,16], v: f32[2,9,16]) -> (y) { qs = const i64[4] "
      "{2,5,6,8} ks = const i64[4] {2,9,2,8} qr = Reshape(q, qs) qt = Transpose(qr) "
      "{perm=[0,2,1,3]} kr = Reshape(k, ks) kt = Transpose(kr) {perm=[0,2,1,3]} ax = const i64[1] "
      "{2} ku = Unsqueeze(kt, ax) es = const i64[5] {2,2,3,9,8} ke = Expand(ku, es) hs = const "
      "i64[4] {2,6,9,8} kh = Reshape(ke, hs) kk = Transpose(kh) {perm=[0,1,3,2]} vr = Reshape(v, "
      "ks) vt = Transpose(vr) {perm=[0,2,1,3]} vu = Unsqueeze(vt, ax) ve = Expand(vu, es) vh = "
      "Reshape(ve, hs) a = MatMul(qt, kk) p = Softmax(a) o = MatMul(p, vh) y = Transpose(o) "
      "{perm=[0,2,1,3]} }");
  ExpectFused(CheckGraph(text), 0, text);
}

TEST(Attention, LayoutsOfOperands) {
  const auto plain = std::string(
      "graph g(q: f32[3,7,8], k: f32[3,8,20], v: f32[3,20,5]) -> (y) { a = MatMul(q, k) "
      "p = Softmax(a) y = MatMul(p, v) }");
  ExpectFused(CheckGraph(plain), 0, plain);
  // A head of values by columns, one sample of keys for all.
  const auto columns = std::string(
      "graph g(q: f32[2,3,7,8], k: f32[3,20,8], v: f32[1,3,5,20]) -> (y) { "
      "kt = Transpose(k) {perm=[0,2,1]} vt = Transpose(v) {perm=[0,1,3,2]} a = MatMul(q, kt) "
      "p = Softmax(a) o = MatMul(p, vt) y = Transpose(o) {perm=[3,2,1,0]} }");
  ExpectFused(CheckGraph(columns), 0, columns);
}

/// What is read elsewhere stays a value.
TEST(Attention, ReadElsewhere) {
  CheckGraph(
      "graph g(q: f32[3,7,8], k: f32[3,8,20], v: f32[3,20,5]) -> (y, p) { a = MatMul(q, k) "
      "p = Softmax(a) y = MatMul(p, v) }");
  CheckGraph(
      "graph g(q: f32[3,7,8], k: f32[3,20,8], v: f32[3,20,8]) -> (y, kt, o) { kt = Transpose(k) "
      "{perm=[0,2,1]} a = MatMul(q, kt) p = Softmax(a) o = MatMul(p, v) y = Transpose(o) "
      "{perm=[1,0,2]} }");
  CheckGraph(
      "graph g(q: f32[3,7,8], k: f32[3,8,20], v: f32[3,20,5]) -> (y) { a = MatMul(q, k) "
      "p = Softmax(a) {axis=1} y = MatMul(p, v) }");
  CheckGraph("graph g(x: f32[3,8,8]) -> (y) { a = MatMul(x, x) p = Softmax(a) y = MatMul(p, p) }");
}

TEST(Attention, Quantized) {
  for (std::string_view type : {"u8", "i8"})
    for (auto [n, size] : {std::array<int64_t, 2>{6, 8}, {40, 8}, {30, 64}}) {
      const int64_t part = 3 * size;
      const int zero = type == "u8" ? 120 : -3;
      const auto quantized = [&](std::string_view x, std::string_view name) {
        return Cat(name, "_i = QuantizeLinear(", x, ", s, z) ", name, " = DequantizeLinear(", name,
                   "_i, s, z) ");
      };
      const auto text =
          Cat("graph g(x: ", type, "[2,", n, ",", 3 * part,
              "]) -> (y) { s = const f32[] {0.01} z = const ", type, "[] {", zero,
              "} ps = const f32[] {0.004} pz = const u8[] {0} os = const f32[] {0.008} "
              "c = const f32[] {2.0} xd = DequantizeLinear(x, s, z) n = const i64[3] {",
              part, ",", part, ",", part,
              "} "
              "q0, k0, v0 = Split(xd, n) {axis=2} ",
              quantized("q0", "q1"), quantized("k0", "k1"), quantized("v0", "v1"),
              "sh = const i64[4] {2,", n, ",3,", size,
              "} qr = Reshape(q1, sh) kr = Reshape(k1, sh) "
              "vr = Reshape(v1, sh) ",
              quantized("kr", "k2"),
              "qt = Transpose(qr) {perm=[0,2,1,3]} "
              "kt = Transpose(k2) {perm=[0,2,3,1]} vt = Transpose(vr) {perm=[0,2,1,3]} ",
              quantized("vt", "v3"),
              "qm = Mul(qt, c) q4 = QuantizeLinear(qm, os, z) "
              "q5 = DequantizeLinear(q4, os, z) a = MatMul(q5, kt) p = Softmax(a) "
              "pi = QuantizeLinear(p, ps, pz) pd = DequantizeLinear(pi, ps, pz) o = MatMul(pd, v3) "
              "ot = Transpose(o) {perm=[0,2,1,3]} y = QuantizeLinear(ot, os, z) }");
      auto g = ParseGraph(text, SuiteOps());
      ASSERT_TRUE(g.ok()) << g.status().message() << text;
      Random random(5);
      Tensor x(type == "u8" ? DType::kU8 : DType::kI8, {2, n, 3 * part});
      for (int64_t i = 0; i < x.num_elements(); ++i)
        x.SetInt(i, static_cast<int64_t>(random.Below(256)) - (type == "u8" ? 0 : 128));
      const auto want = Evaluate(*g, std::vector<Datum>{x});
      ASSERT_TRUE(want.ok()) << want.status().message();
      auto program = BackendUnderTest().Compile(*g, {.level = 2});
      ASSERT_TRUE(program.ok()) << program.status().message();
      const auto got = RunOnce(**program, std::vector<Datum>{x});
      ASSERT_TRUE(got.ok()) << got.status().message();
      if (FusesAttention()) ExpectFused((*program)->steps(), 0, text);
      // A sum near the middle of two integers may go to the other one; a probability that does
      // moves up to `size` results.
      int64_t off = 0;
      const Tensor &a = (*got)[0].tensor(), &b = (*want)[0].tensor();
      ASSERT_EQ(a.dims(), b.dims());
      for (int threads : {2, 3, 7}) {
        SetLaneBudget(7);
        auto other = BackendUnderTest().Compile(*g, {.level = 2, .threads = threads});
        ASSERT_TRUE(other.ok());
        const auto again = RunOnce(**other, std::vector<Datum>{x});
        ASSERT_TRUE(again.ok());
        EXPECT_TRUE(BitEqual((*again)[0].tensor(), a)) << threads;
      }
      SetLaneBudget(AvailableCores());
      for (int64_t i = 0; i < a.num_elements(); ++i) {
        EXPECT_LE(std::abs(a.IntAt(i) - b.IntAt(i)), 1);
        off += a.IntAt(i) != b.IntAt(i);
      }
      EXPECT_LE(off, a.num_elements() / 200 + size) << text;
    }
}

/// A Transpose that only moves axes of extent 1 is a view.
TEST(Attention, TransposeOfUnitAxes) {
  for (std::string_view perm : {"[1,0,2]", "[1,2,0]", "[0,2,1]", "[2,0,1]"})
    CheckGraph(Cat("graph g(x: f32[1,5,7]) -> (y) { a = Relu(x) t = Transpose(a) {perm=", perm,
                   "} y = Sigmoid(t) }"));
  CheckGraph("graph g(x: f32[1,5,1]) -> (y) { a = Relu(x) t = Transpose(a) y = Sigmoid(t) }");
}

TEST(Attention, SymbolicExtents) {
  const std::string text =
      "graph g(q: f32[B,S,24], k: f32[B,T,24], v: f32[B,T,24], m: f32[B,1,1,T]) -> (y) { "
      "qs = const i64[4] {0,0,3,8} ys = const i64[3] {0,0,24} qr = Reshape(q, qs) "
      "kr = Reshape(k, qs) vr = Reshape(v, qs) qt = Transpose(qr) {perm=[0,2,1,3]} "
      "kt = Transpose(kr) {perm=[0,2,3,1]} vt = Transpose(vr) {perm=[0,2,1,3]} "
      "x = MatMul(qt, kt) z = Add(x, m) p = Softmax(z) o = MatMul(p, vt) ot = Transpose(o) "
      "{perm=[0,2,1,3]} y = Reshape(ot, ys) }";
  auto g = ParseGraph(text, SuiteOps());
  ASSERT_TRUE(g.ok()) << g.status().message();
  auto program = BackendUnderTest().Compile(*g, {.level = 2});
  ASSERT_TRUE(program.ok()) << program.status().message();
  ExpectFused((*program)->steps(), 0, text);
  Random random(9);
  for (const auto& [b, s, t] :
       std::vector<std::array<int64_t, 3>>{{1, 4, 4}, {2, 17, 5}, {3, 1, 40}}) {
    std::vector<Datum> inputs = {RandomInput(DType::kF32, {b, s, 24}, random),
                                 RandomInput(DType::kF32, {b, t, 24}, random),
                                 RandomInput(DType::kF32, {b, t, 24}, random),
                                 RandomInput(DType::kF32, {b, 1, 1, t}, random)};
    const auto want = Evaluate(*g, inputs), got = RunOnce(**program, inputs);
    ASSERT_TRUE(want.ok() && got.ok());
    ExpectClose((*got)[0], (*want)[0], 4e-6, Cat(b, " ", s, " ", t));
  }
}

TEST(Attention, SameBitsForAnyNumberOfThreads) {
  for (int64_t s : {1, 30, 100}) CheckSameBits(SplitHeads(2, 3, s, 70, 16, 16, "z = Mul(x, c)"));
}

}  // namespace
}  // namespace infer
