/// Products and 1x1 convolutions by weights most of which are zero, with what may follow them, in
/// both ways that operands lie, and with operands that are not finite.
#include <array>
#include <limits>

#include "lib/ir/editor.h"
#include "tests/suites/suite.h"

namespace infer {
namespace {

/// The graph of `text` with zeros in its constant "w": most blocks of `block` neighbouring
/// outputs, which are its first axis where `by_outputs`.
Graph Pruned(std::string_view text, int64_t block, bool by_outputs, uint64_t seed = 1) {
  auto parsed = ParseGraph(text, SuiteOps());
  INFER_CHECK(parsed.ok());
  Value* const v = parsed->FindValue("w");
  Tensor w = v->constant()->Clone();
  const Dims& d = w.dims();
  const int64_t outputs = by_outputs ? d[0] : d[1], terms = w.num_elements() / outputs;
  Random random(seed);
  for (int64_t k = 0; k < terms; ++k)
    for (int64_t n = 0; n < outputs; n += block) {
      if (random.Uniform() >= (block == 16 ? 0.75 : 0.95)) continue;
      for (int64_t o = n; o < std::min(outputs, n + block); ++o)
        w.Set(by_outputs ? o * terms + k : k * outputs + o, 0);
    }
  GraphEditor(*parsed).SetConstant(v, w);
  return *std::move(parsed);
}

void CheckSparse(std::string_view text, int64_t block, bool by_outputs, bool fast = true) {
  const Graph g = Pruned(text, block, by_outputs);
  const auto steps = CheckGraph(g, RandomInputs(g, 3), 1e-5, Cat("blocks of ", block, ", ", text));
  if (!fast || BackendUnderTest().name() != "cpu" || !FusesAttention()) return;
  bool found = false;
  std::string all;
  for (const StepInfo& s : steps) {
    found |= s.kernel.starts_with("own:sparse");
    all += Cat(s.op, "=", s.kernel, " ", Join(s.refusals, "; "), "\n");
  }
  EXPECT_TRUE(found) << "blocks of " << block << ", " << text << "\n" << all;
}

constexpr int64_t kBlocks[] = {16, 4, 1};

TEST(SparseProducts, Shapes) {
  for (int64_t block : kBlocks)
    for (int64_t rows : {1, 5, 17, 64, 100})
      for (int64_t depth : {40, 257})
        for (int64_t columns : {128, 210})
          CheckSparse(Cat("graph g(x: f32[", rows, ",", depth, "]) -> (y) { w = const f32[", depth,
                          ",", columns, "] ~1 y = MatMul(x, w) }"),
                      block, false, rows >= 64 && depth > 100);
}

TEST(SparseProducts, Gemm) {
  for (int64_t block : kBlocks)
    for (std::string_view attributes :
         {"", "{transB=1}", "{alpha=0.5}", "{transB=1, alpha=-2.0, beta=0.25}", "{transA=1}"}) {
      const bool t = attributes.find("transB") != std::string_view::npos;
      const bool ta = attributes.find("transA") != std::string_view::npos;
      for (std::string_view c : {"", "c = const f32[160] ~2 ", "c = const f32[70,160] ~2 "})
        CheckSparse(Cat("graph g(x: f32[", ta ? "200,70" : "70,200", "]) -> (y) { w = const f32[",
                        t ? "160,200" : "200,160", "] ~1 ", c, "p = Gemm(x, w",
                        c.empty() ? "" : ", c", ")", attributes, " y = Relu(p) }"),
                    block, t, !ta && c.find("70,") == std::string_view::npos);
    }
}

TEST(SparseProducts, Epilogues) {
  for (int64_t block : kBlocks)
    for (std::string_view after :
         {"y = Add(p, b)", "a = Add(p, b) y = Gelu(a)", "a = Add(p, b) y = Relu(a)",
          "a = Add(p, b) r = Add(a, z) y = Sigmoid(r)", "r = Add(z, p) y = Identity(r)",
          "r = Sigmoid(p) y = Add(r, z)", "y = Add(p, p)"})
      CheckSparse(Cat("graph g(x: f32[2,40,300], z: f32[2,40,150]) -> (y) { k = const f32[] {0.05} "
                      "t = Mul(x, k) w = const f32[300,150] ~1 b = const f32[150] ~2 "
                      "p = MatMul(t, w) ",
                      after, " }"),
                  block, false, after.starts_with("a = ") || after.starts_with("y = Add(p, b)"));
}

TEST(SparseProducts, Convolutions) {
  for (int64_t block : kBlocks)
    for (auto [inputs, outputs] : {std::array<int64_t, 2>{128, 192}, {100, 75}, {130, 256}})
      for (std::string_view after :
           {"y = Relu(c)", "r = Add(c, z) y = Relu(r)", "y = Sigmoid(c)", "y = HardSwish(c)"})
        CheckSparse(Cat("graph g(x: f32[2,", inputs, ",9,11], z: f32[2,", outputs,
                        ",9,11]) -> (y) { w = const f32[", outputs, ",", inputs,
                        ",1,1] ~1 b = const f32[", outputs, "] ~2 c = Conv(x, w, b) ", after, " }"),
                    block, true);
}

/// Between convolutions that choose how what they read lies.
TEST(SparseProducts, BetweenConvolutions) {
  for (int64_t block : kBlocks)
    for (int64_t channels : {128, 72})
      CheckSparse(Cat("graph g(i: f32[1,3,14,15]) -> (y) { f = const f32[", channels,
                      ",3,3,3] ~3 k = const f32[] {0.2} a = Conv(i, f) {pads=[1,1,1,1]} "
                      "r = Relu(a) x = Mul(r, k) w = const f32[160,",
                      channels,
                      ",1,1] ~1 c = Conv(x, w) q = Relu(c) e = const f32[16,160,3,3] ~5 "
                      "m = Mul(q, k) y = Conv(m, e) }"),
                  block, true);
}

/// Windows, strides, padding and groups that are none of a product's.
TEST(SparseProducts, OtherConvolutions) {
  for (std::string_view window :
       {"64,32,3,3] ~1 y = Conv(x, w) {pads=[1,1,1,1]}",
        "64,32,1,1] ~1 y = Conv(x, w) {strides=[2,2]}",
        "64,32,1,1] ~1 y = Conv(x, w) {pads=[1,0,1,0]}", "64,16,1,1] ~1 y = Conv(x, w) {group=2}"})
    CheckSparse(Cat("graph g(x: f32[1,32,10,11]) -> (y) { w = const f32[", window, " }"), 16, true,
                false);
  CheckSparse("graph g(x: f32[2,96,40]) -> (y) { w = const f32[96,96,1] ~1 y = Conv(x, w) }", 16,
              true);
  CheckSparse("graph g(x: f32[1,96,3,4,5]) -> (y) { w = const f32[96,96,1,1,1] ~1 y = Conv(x, w) }",
              16, true);
}

/// A zero times an infinity is NaN, whether the zero is multiplied or not.
TEST(SparseProducts, InfinitiesAndNan) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (int64_t block : kBlocks)
    for (int64_t rows : {1, 70}) {
      const std::string text = Cat("graph g(x: f32[", rows,
                                   ",300]) -> (y) { w = const f32[300,160] "
                                   "~1 y = MatMul(x, w) }");
      const Graph g = Pruned(text, block, false);
      std::vector<Datum> inputs = RandomInputs(g, 3);
      Tensor& x = inputs[0].tensor();
      x.Set(7, static_cast<double>(kInf));
      if (rows > 1) {
        x.Set(300 * 40 + 299, static_cast<double>(-kInf));
        x.Set(300 * 69, std::numeric_limits<double>::quiet_NaN());
      }
      CheckGraph(g, inputs, 1e-5, Cat("blocks of ", block, ", ", text));
    }
}

TEST(SparseProducts, SameBitsForAnyNumberOfThreads) {
  for (int64_t block : kBlocks)
    for (int64_t rows : {1, 90, 300}) {
      const std::string text =
          Cat("graph g(x: f32[", rows,
              ",1000]) -> (y) { w = const f32[1000,300] ~1 y = MatMul(x, w) }");
      CheckSameBits(Pruned(text, block, false), text);
    }
}

}  // namespace
}  // namespace infer
