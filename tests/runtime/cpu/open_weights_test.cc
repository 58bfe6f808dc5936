/// A program of open shapes holds its weights once, too, and never twice while it is made: judged
/// by the limit on memory. Results are, bit for bit, those of a program that is made for
/// these shapes alone.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "lib/ir/editor.h"
#include "lib/ir/eval.h"
#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "lib/support/memory_limit.h"
#include "lib/support/random.h"
#include "runtime/cpu/backend.h"

namespace infer {
namespace {

const OpRegistry& OpenOps() {
  static const OpRegistry ops = AllOps();
  return ops;
}

/// Bytes, or small integers, that differ by their place.
Tensor FilledWith(DType dtype, Dims dims, uint64_t seed) {
  Tensor t(dtype, std::move(dims));
  Random random(seed);
  if (dtype == DType::kF32) {
    for (float& v : t.mutable_data<float>())
      v = static_cast<float>(random.Below(255)) / 4096.0f - 1.0f / 32;
  } else {
    std::byte* const to = t.mutable_raw();
    for (int64_t i = 0; i < t.byte_size(); i += 8) {
      const uint64_t bits = random.NextU64();
      std::memcpy(to + i, &bits, static_cast<size_t>(std::min<int64_t>(8, t.byte_size() - i)));
    }
  }
  return t;
}

enum class OpenKind : uint8_t { kFloats, kConvolutions, kNibbles, kBytes, kBlocked, kIntegers };

struct OpenNet {
  OpenKind kind;
  int64_t width;
  int count;
};

class OpenNetBuilder {
 public:
  OpenNetBuilder(const OpenNet& net, Dim rows)
      : net_(net), graph_(OpenOps(), "chain"), editor_(graph_) {
    Shape shape(Dims{1, net.width});
    if (net.kind == OpenKind::kConvolutions) shape = Shape(Dims{1, net.width, 4, 4});
    std::vector<Dim> dims = shape.dims();
    dims[0] = rows;
    Value* v = editor_.AddInput("x", TensorType{DType::kF32, Shape(std::move(dims))});
    for (int i = 0; i < net.count; ++i) v = *Layer(v, static_cast<uint64_t>(i));
    editor_.MarkOutput(v);
  }
  Graph Take() { return std::move(graph_); }

 private:
  Value* Constant(DType dtype, Dims dims, uint64_t seed) {
    return editor_.AddConstant(FilledWith(dtype, std::move(dims), seed));
  }
  Value* Scales(Dims dims, uint64_t seed) {
    Tensor t = FilledWith(DType::kF32, std::move(dims), seed);
    for (float& v : t.mutable_data<float>()) v = 0.001f + v * 0.01f;
    return editor_.AddConstant(std::move(t));
  }

  Result<Value*> Layer(Value* x, uint64_t i) {
    const int64_t n = net_.width;
    switch (net_.kind) {
      case OpenKind::kFloats: return editor_.Add("MatMul", {x, Constant(DType::kF32, {n, n}, i)});
      case OpenKind::kConvolutions: {
        const int64_t k = i % 2 == 0 ? 3 : 1;
        return editor_.Add("Conv", {x, Constant(DType::kF32, {n, n, k, k}, i)},
                           {{"pads", std::vector<int64_t>(4, k / 2)}});
      }
      case OpenKind::kNibbles:
      case OpenKind::kBytes: {
        const int64_t bits = net_.kind == OpenKind::kNibbles ? 4 : 8, blocks = n / 32;
        std::vector<Value*> in = {x, Constant(DType::kU8, {n, blocks, 4 * bits}, i),
                                  Scales({n, blocks}, i)};
        if (i % 3 == 1) in.push_back(Constant(DType::kU8, {n, blocks * bits / 8}, i + 1));
        if (i % 3 == 2) in.push_back(Constant(DType::kF32, {n, blocks}, i + 1));
        return editor_.Add("MatMulNBits", std::move(in),
                           {{"K", n}, {"N", n}, {"bits", bits}, {"block_size", int64_t{32}}},
                           "com.microsoft");
      }
      case OpenKind::kBlocked: {
        INFER_ASSIGN(Value * w,
                     editor_.Add("DequantizeLinear",
                                 {Constant(DType::kI4, {n, n}, i), Scales({n / 32, n}, i)},
                                 {{"axis", int64_t{0}}, {"block_size", int64_t{32}}}));
        return editor_.Add("MatMul", {x, w});
      }
      case OpenKind::kIntegers: {
        Value* const unit = editor_.AddConstant(Tensor::Scalar<float>(1.0f / 16));
        Value* const zero = editor_.AddConstant(Tensor::Scalar<uint8_t>(128));
        Value* const scale = editor_.AddConstant(Tensor::Scalar<float>(1.0f / 4096));
        INFER_ASSIGN(x, editor_.Add("QuantizeLinear", {x, unit, zero}));
        INFER_ASSIGN(x, editor_.Add("DequantizeLinear", {x, unit, zero}));
        INFER_ASSIGN(Value * w,
                     editor_.Add("DequantizeLinear", {Constant(DType::kI8, {n, n}, i), scale}));
        return editor_.Add("MatMul", {x, w});
      }
    }
    return Internal("a kind without a layer");
  }

  OpenNet net_;
  Graph graph_;
  GraphEditor editor_;
};

Tensor InputOf(const OpenNet& net, int64_t rows) {
  if (net.kind == OpenKind::kConvolutions)
    return FilledWith(DType::kF32, {rows, net.width, 4, 4}, 99);
  return FilledWith(DType::kF32, {rows, net.width}, 99);
}

Tensor MadeOf(RunContext& context, const Tensor& x) {
  EXPECT_TRUE(context.BindInput(0, x).ok());
  const Status ran = context.Run();
  EXPECT_TRUE(ran.ok()) << ran.message();
  return ran.ok() ? context.output(0).tensor().Clone() : Tensor();
}

class OpenWeights : public testing::TestWithParam<OpenNet> {
 protected:
  ~OpenWeights() override { SetMemoryLimit(INT64_MAX); }
  /// Level 1: no forms that are larger than the weights.
  static Result<std::shared_ptr<const Program>> Compile(Graph g, int threads) {
    return MakeCpuBackend()->CompileOwned(std::move(g), {.level = Level(), .threads = threads});
  }
  static int Level() { return GetParam().kind == OpenKind::kBlocked ? 2 : 1; }
  static bool HasKernels(const Program& program) {
    for (const StepInfo& s : program.steps())
      // Pairs of 16 bits are larger than codes of 8.
      if (s.kernel == "reference" || s.kernel.starts_with("own:pairs")) return false;
    return true;
  }
};

TEST_P(OpenWeights, AreHeldOnce) {
  const OpenNet net = GetParam();
  {
    const auto program = Compile(OpenNetBuilder({net.kind, 256, 1}, Dim::Symbol("N")).Take(), 1);
    ASSERT_TRUE(program.ok()) << program.status().message();
    if (!HasKernels(**program)) GTEST_SKIP() << "this machine has no kernel for them";
  }
  const int64_t before = ChargedMemory();
  Graph g = OpenNetBuilder(net, Dim::Symbol("N")).Take();
  const int64_t weights = ChargedMemory() - before;
  // Room beside: two forms of one layer, an arena, the last slab of packed memory.
  const int64_t beside = weights / 3 + (int64_t{34} << 20);
  ASSERT_LT(beside, weights * 2 / 3);
  SetMemoryLimit(before + weights + beside);
  const auto program = Compile(std::move(g), 1);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto context = *(*program)->NewContext();
  for (const int64_t rows : {2, 1, 40, 1}) {
    MadeOf(*context, InputOf(net, rows));
    // The last kernel's form and, of two kinds of kernels, the other's.
    if (rows == 2) SetMemoryLimit(before + 2 * weights + beside);
  }
}

TEST_P(OpenWeights, GiveTheBitsOfAProgramOfTheseShapes) {
  const OpenNet net = {GetParam().kind, 256, 3};
  const auto program = Compile(OpenNetBuilder(net, Dim::Symbol("N")).Take(), 1);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto context = *(*program)->NewContext();
  // No rows: on reference kernels, which want the weights as they were.
  for (const int64_t rows : {3, 1, 0, 40, 2, 0, 1, 3}) {
    const Tensor x = InputOf(net, rows);
    const auto alone = Compile(OpenNetBuilder(net, Dim(rows)).Take(), 1);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    const Tensor want = MadeOf(**(*alone)->NewContext(), x), got = MadeOf(*context, x);
    ASSERT_EQ(got.dims(), want.dims());
    EXPECT_EQ(std::memcmp(got.raw(), want.raw(), static_cast<size_t>(want.byte_size())), 0)
        << rows << " rows";
  }
}

std::string NameOfOpenNet(const testing::TestParamInfo<OpenNet>& info) {
  constexpr const char* kNames[] = {"Floats", "Convolutions", "Nibbles",
                                    "Bytes",  "Blocked",      "Integers"};
  return kNames[static_cast<size_t>(info.param.kind)];
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, OpenWeights,
    testing::Values(OpenNet{OpenKind::kFloats, 2048, 12}, OpenNet{OpenKind::kConvolutions, 1024, 8},
                    OpenNet{OpenKind::kNibbles, 2048, 60}, OpenNet{OpenKind::kBytes, 2048, 30},
                    OpenNet{OpenKind::kBlocked, 2048, 60}, OpenNet{OpenKind::kIntegers, 4096, 12}),
    NameOfOpenNet);

constexpr std::string_view kLate = R"(graph g(x: f32[N,128], c: bool[N]) -> (y) {
  w = const f32[128,128] ~1  h = MatMul(x, w)
  r = Compress(h, c) {axis=0}  y = MatMul(r, w) })";

/// Steps whose extents only the run knows become a program of their own, with the weights.
TEST(OpenWeightsLate, AreThereForLateSteps) {
  std::string fixed(kLate);
  for (size_t at; (at = fixed.find('N')) != std::string::npos;) fixed[at] = '8';
  const auto outputs = [](std::string_view text, int most) {
    const auto g = ParseGraph(text, OpenOps());
    EXPECT_TRUE(g.ok()) << g.status().message();
    const auto program = MakeCpuBackend()->Compile(*g, {.threads = 1});
    EXPECT_TRUE(program.ok()) << program.status().message();
    const auto context = *(*program)->NewContext();
    std::vector<Tensor> all;
    for (int kept = most; kept >= 0; kept -= 3) {
      Tensor c(DType::kBool, {8});
      for (int64_t i = 0; i < 8; ++i) c.Set(i, i < kept ? 1 : 0);
      EXPECT_TRUE(context->BindInput(1, c).ok());
      all.push_back(MadeOf(*context, FilledWith(DType::kF32, {8, 128}, 5)));
    }
    return all;
  };
  const auto got = outputs(kLate, 7), want = outputs(fixed, 7);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].dims(), want[i].dims());
    EXPECT_EQ(std::memcmp(got[i].raw(), want[i].raw(), static_cast<size_t>(want[i].byte_size())),
              0);
  }
}

/// A step whose result follows from the extents is computed while a run is planned, with weights
/// that the program had let go.
TEST(OpenWeightsPlan, AreThereForResultsThatExtentsDecide) {
  const Graph g = *ParseGraph(R"(graph g(x: f32[N,16,4,4]) -> (y) { s = Shape(x)
    t = ConstantOfShape(s) {value=const f32[1] {1}}  w = const f32[16,16,4,4] ~3
    z = Conv(t, w)  y = Add(x, z) })",
                              OpenOps());
  const auto program = MakeCpuBackend()->Compile(g, {.threads = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto context = *(*program)->NewContext();
  for (const int64_t batch : {2, 3}) {
    const Tensor x = FilledWith(DType::kF32, {batch, 16, 4, 4}, 7);
    const Tensor got = MadeOf(*context, x), want = (*Evaluate(g, {{x}}))[0].tensor();
    ASSERT_EQ(got.dims(), want.dims());
    for (int64_t i = 0; i < got.num_elements(); ++i) ASSERT_NEAR(got.At(i), want.At(i), 1e-3);
  }
}

TEST(OpenWeightsReference, UnpacksNibblesInBands) {
  constexpr int64_t kWide = 4096;
  const Graph g = OpenNetBuilder({OpenKind::kNibbles, kWide, 1}, Dim(2)).Take();
  const std::vector<Datum> inputs = {FilledWith(DType::kF32, {2, kWide}, 3)};
  // Of 64 MB as numbers.
  SetMemoryLimit(ChargedMemory() + (int64_t{24} << 20));
  const auto outputs = Evaluate(g, inputs);
  SetMemoryLimit(INT64_MAX);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  const auto program = MakeCpuBackend()->Compile(g, {.level = 1});
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto again = RunOnce(**program, inputs);
  ASSERT_TRUE(again.ok()) << again.status().message();
  const auto want = (*outputs)[0].tensor().data<float>(), got = (*again)[0].tensor().data<float>();
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-3) << i;
}

/// No form is larger than the weights, and each kernel has another to give way to.
TEST(LowMemory, LeavesOutLargerForms) {
  for (const bool low : {false, true}) {
    const auto g = ParseGraph(R"(graph g(x: f32[512,1024], p: f32[1,64,32,32]) -> (y, q) {
      w = const f32[1024,1024] ~1  y = MatMul(x, w)
      k = const f32[64,64,3,3] ~2  q = Conv(p, k) {pads=[1,1,1,1]} })",
                              OpenOps());
    ASSERT_TRUE(g.ok()) << g.status().message();
    const auto program = MakeCpuBackend()->Compile(*g, {.threads = 1, .low_memory = low});
    ASSERT_TRUE(program.ok()) << program.status().message();
    const auto context = *(*program)->NewContext();
    ASSERT_TRUE(context->BindInput(0, Tensor::Zeros(DType::kF32, {512, 1024})).ok());
    ASSERT_TRUE(context->BindInput(1, Tensor::Zeros(DType::kF32, {1, 64, 32, 32})).ok());
    ASSERT_TRUE(context->Run().ok());
    const int64_t weights = 4 * (1024 * 1024 + 64 * 64 * 9);
    if (low) {
      EXPECT_LE(context->memory().weight_bytes, weights + 4096);
    } else if ((*program)->steps()[0].kernel.find("strassen") != std::string::npos) {
      EXPECT_GT(context->memory().weight_bytes, weights * 3 / 2);
    }
  }
}

/// A product by weights [`depth`, `columns`], as the backend plans it for `rows` rows.
struct QuarterRun {
  std::string kernel;
  int64_t weight_bytes = 0;
  Tensor y;
};

QuarterRun RunQuarters(bool open, int64_t rows, int64_t depth, int64_t columns,
                       const CompileOptions& options) {
  const auto g =
      ParseGraph(Cat("graph g(x: f32[", open ? std::string("N") : Cat(rows), ",", depth,
                     "]) -> (y) { w = const f32[", depth, ",", columns, "] ~1 y = MatMul(x, w) }"),
                 OpenOps());
  INFER_CHECK(g.ok());
  const auto program = MakeCpuBackend()->Compile(*g, options);
  INFER_CHECK(program.ok());
  const auto context = *(*program)->NewContext();
  INFER_CHECK(context->BindInput(0, FilledWith(DType::kF32, {rows, depth}, 5)).ok());
  INFER_CHECK(context->Run().ok());
  return {std::string(context->step_kernels()[0]), context->memory().weight_bytes,
          context->output(0).tensor()};
}

/// Sums of weights are kept from 160 rows of fixed extents on; else Strassen's products read the
/// panels that smaller products read, too.
TEST(Strassen, KeepsSumsForManyRowsOfFixedExtents) {
  if (RunQuarters(false, 160, 512, 512, {.threads = 1}).kernel.find("strassen") ==
      std::string::npos)
    GTEST_SKIP() << "no kernel for this instruction set";
  const int64_t plain = 4 * 512 * 512;
  for (const bool open : {false, true})
    for (const bool low : {false, true})
      for (int64_t rows : {128, 159, 160, 300}) {
        const QuarterRun run = RunQuarters(open, rows, 512, 512, {.threads = 1, .low_memory = low});
        const bool kept = rows >= 160 && !open && !low;
        const std::string name = kept ? "own:strassen-kept:" : "own:strassen:";
        EXPECT_EQ(run.kernel.compare(0, name.size(), name), 0) << run.kernel << " rows " << rows;
        EXPECT_EQ(run.weight_bytes, kept ? plain * 7 / 4 : plain) << "rows " << rows;
      }
}

/// Sums that are made, of quarters that end before their halves and panels do, in one block of rows
/// and in several.
TEST(Strassen, MadeSumsAtAllEnds) {
  for (int64_t rows : {130, 300})
    for (auto [depth, columns] :
         {std::array<int64_t, 2>{256, 256}, {257, 321}, {770, 300}, {1601, 264}, {300, 330}}) {
      const QuarterRun run =
          RunQuarters(true, rows, depth, columns, {.threads = 1, .low_memory = true});
      const QuarterRun want = RunQuarters(true, rows, depth, columns, {.level = 0, .threads = 1});
      const auto got = run.y.data<float>(), exact = want.y.data<float>();
      ASSERT_EQ(got.size(), exact.size());
      float largest = 0;
      for (const float f : exact) largest = std::max(largest, std::abs(f));
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], exact[i], 2e-5f * largest)
            << rows << "x" << depth << "x" << columns << " at " << i;
    }
}

}  // namespace
}  // namespace infer
