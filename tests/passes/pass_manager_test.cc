#include <gmock/gmock.h>

#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "passes/simplify/simplify.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

using testing::HasSubstr;
constexpr const char* kSilu = "graph g(x: f32[2]) -> (y) { s = Sigmoid(x)  y = Mul(x, s) }";

class BadPass : public Pass {
 public:
  BadPass(std::string name, bool answer, std::function<void(GraphEditor&, Graph&)> act)
      : name_(std::move(name)), answer_(answer), act_(std::move(act)) {}
  std::string name() const override { return name_; }
  Result<bool> Run(Graph& g, PassContext&) override {
    GraphEditor e(g);
    act_(e, g);
    return answer_;
  }

 private:
  std::string name_;
  bool answer_;
  std::function<void(GraphEditor&, Graph&)> act_;
};

Status RunBad(std::unique_ptr<Pass> pass) {
  Graph g = Parsed(kSilu);
  PassManager manager;
  manager.Add(std::move(pass));
  PassContext context;
  return manager.Run(g, context).status();
}

TEST(PassManager, CatchesAPassThatHidesAChange) {
  const Status s = RunBad(std::make_unique<BadPass>("hides", false, [](GraphEditor& e, Graph& g) {
    e.SetOperand(*g.FindValue("y")->producer(), 1, g.inputs()[0]);
    e.Sweep();
  }));
  EXPECT_EQ(s.code(), Code::kInternal);
  EXPECT_THAT(s.message(), HasSubstr("after pass hides"));
}

TEST(PassManager, CatchesAPassThatBoasts) {
  const Status s = RunBad(std::make_unique<BadPass>("boasts", true, [](GraphEditor&, Graph&) {}));
  EXPECT_EQ(s.code(), Code::kInternal);
  EXPECT_THAT(s.message(), HasSubstr("fingerprint is the same"));
}

TEST(PassManager, CatchesDeadCode) {
  const Status s =
      RunBad(std::make_unique<BadPass>("leaves-dead-code", true, [](GraphEditor& e, Graph& g) {
        ASSERT_TRUE(e.Add("Relu", {g.inputs()[0]}).ok());
      }));
  EXPECT_EQ(s.code(), Code::kInternal);
  EXPECT_THAT(s.message(), HasSubstr("after pass leaves-dead-code: live"));
}

Status RunFolding(Graph& g) {
  PassManager manager;
  manager.Add(FoldConstants());
  PassContext context;
  return manager.Run(g, context).status();
}

TEST(FoldConstants, LeavesNothingThatOnlyFoldedNodesRead) {
  Graph g = Parsed("graph g(x: f32[2,3]) -> (y) { r = Relu(x)  y = Shape(r) }");
  const Status s = RunFolding(g);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(g.num_nodes(), 0u);
}

TEST(PassManager, RefinesTypesBelowAMoreSpecificValue) {
  Graph g = Parsed("graph g(x: f32[N,3]) -> (y) { r = Relu(x)  s = Sigmoid(r)  y = Relu(s) }");
  PassManager manager;
  manager.Add(std::make_unique<BadPass>("specific", true, [](GraphEditor& e, Graph& graph) {
    e.SetType(graph.FindValue("r"), TensorType{DType::kF32, Shape(Dims{2, 3})});
  }));
  PassContext context;
  const Status s = manager.Run(g, context).status();
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(ToString(g.FindValue("r")->type()), "f32[2,3]") << "what is stored is kept";
  EXPECT_EQ(ToString(g.FindValue("y")->type()), "f32[2,3]");
}

TEST(PassManager, ScalesThatAModelComputesAreTheModels) {
  Graph g = Parsed(R"(graph g(x: f32[3]) -> (y) { s = const f32[] {0.1}  n = Neg(s)
    z = const u8[] {0}  y = QuantizeLinear(x, n, z) })");
  const Status s = Optimize(g, {}).status();
  EXPECT_EQ(s.code(), Code::kInvalidModel);
  EXPECT_THAT(s.message(), HasSubstr("scale[0] is -0.1"));
}

/// Numbers are divided by them; one of 0 makes codes that mean nothing.
TEST(PassManager, ScalesOfResultsAreAboveZero) {
  const std::string_view calls[] = {
      "y = com.microsoft::QLinearMul(x, s, z, x, s, z, ys, z)",
      "y = com.microsoft::QLinearWhere(c, x, s, z, x, s, z, ys, z)",
      "y = com.microsoft::QLinearConcat(ys, z, x, s, z) {axis=0}",
      "y = com.microsoft::QLinearSigmoid(x, s, z, ys, z)",
      "y = com.microsoft::QLinearSoftmax(x, s, z, ys, z) {opset=13}",
      "y = com.microsoft::QGemm(x, s, z, x, s, z, _, ys, z)",
      "y = QLinearMatMul(x, s, z, x, s, z, ys, z)",
      "r = Reshape(x, shape) w = const u8[1,1,1,1] {1} y = QLinearConv(r, s, z, w, s, z, ys, z)",
      "f = Cast(x) {to=1} y = QuantizeLinear(f, ys, z)"};
  for (std::string_view call : calls)
    for (const auto& [scale, ok] : {std::pair("0", false), std::pair("-1", false),
                                    std::pair("inf", false), std::pair("0.25", true)}) {
      Graph g = Parsed(Cat("graph g(x: u8[3,3], c: bool[3,3]) -> (y) { s = const f32[] {0}  ",
                           "z = const u8[] {3}  shape = const i64[4] {1, 1, 3, 3}  ",
                           "ys = const f32[] {", scale, "}  ", call, " }"));
      const Status s = Verify(g);
      EXPECT_EQ(s.ok(), ok) << call << ", " << scale << ": " << s.message();
      if (!ok) {
        EXPECT_THAT(s.message(), HasSubstr("scale[0] is ")) << call;
      }
    }
}

TEST(PassManager, StopsAfterNPasses) {
  Graph g = Parsed(kSilu);
  PassManager manager = BuildPipeline(2);
  PassContext context;
  const auto records = manager.Run(g, context, {.stop_after = 2});
  ASSERT_TRUE(records.ok()) << records.status().message();
  EXPECT_EQ(records->size(), 2u);
}

TEST(Pipeline, GoldenText) {
  EXPECT_EQ(BuildPipeline(0).ToString(), "");
  const std::string simplify = R"(repeat (at most 8 times)
  remove-dead-code
  capture-unchanged-states
  fold-constants
  simplify
    remove-identity
    remove-dropout
    remove-noop-cast
    merge-casts
    skip-cast-before-shape
    remove-noop-transpose
    remove-noop-reshape
    remove-noop-slice
    remove-noop-pad
    remove-single-concat
    remove-single-split
    remove-single-sum
    sum-of-two
    remove-add-zero
    remove-mul-one
    remove-pow-one
    remove-known-where
    merge-not-where
    cancel-negations
    merge-transposes
    transpose-joined-axes
    cancel-transposes-across-unary
    cancel-squeeze-unsqueeze
    merge-reshapes
    merge-views
    static-reshape
    static-expand
    skip-expand
    merge-slices
    slice-of-concat
    slice-by-gather
    slice-of-shuffle
    merge-gather-unsqueeze
    pick-columns-together
    merge-concats
    cancel-split-concat
    cancel-concat-split
    merge-reduce-squeeze
    merge-reduce-unsqueeze
    remove-repeated
    merge-bounds
    merge-constant-factors
    merge-constant-terms
    inline-if
    unflatten-matmul
    unfold-batch
    keep-unit-axes
    transpose-without-units
    softmax-without-views
  merge-duplicates
  equal-extents
  share-extents
)";
  const std::string fuse = R"(expand-and-gather
  take-apart-fused
  expand-einsum
  move-on-integers
  drop-bound-before-quantize
  gather-before-dequantize
  fuse-space-to-depth
  fold-channel-order
  fuse-depth-to-space
  fuse-reshaped-space-to-depth
fuse-activations
  fuse-clip
  fuse-relu
  fuse-leakyrelu
  fuse-prelu
  fuse-gelu
  fuse-tanh-gelu
  fuse-hardswish
  fuse-hardsigmoid
  fuse-silu
  fuse-sigmoid
  fuse-swish
  fuse-softplus
  fuse-mish
  fuse-softsign
  fuse-softmax
  fuse-logsoftmax
  remove-softmax-shift
fuse-normalizations
  fuse-scaled-layernorm
  fuse-layernorm
  fuse-rmsnorm
  fuse-norm-casts
  fuse-instancenorm
  fuse-layernorm-scale
  fuse-layernorm-bias
  fuse-layernorm-channel-scale
  fuse-layernorm-channel-bias
  fuse-rmsnorm-scale
  fuse-groupnorm
  fold-norm-scale
  fold-norm-shift
move-transposes
  move-transposes
  merge-transpose-gemm
  merge-transpose-matmul
  merge-gemm-transpose
fold-into-layers
  fuse-pad-conv
  fuse-pad-averagepool
  fuse-pad-maxpool
  fuse-global-average-pool
  fold-batchnorm
  fold-channel-scale
  fold-channel-shift
  fold-row-scale
  fold-batchnorm-behind-view
  fuse-matmul-add
  fold-input-batchnorm
  fold-input-scale
  fuse-matmulnbits-bias
fuse-what-is-left
  fuse-batchnorm
)";
  const std::string blocks = R"(fuse-rope-of-parts
  fuse-partial-rope
  fuse-partial-pairs-rope
fuse-rope
  fuse-rope
  fuse-split-rope
  fuse-interleaved-rope
  fuse-turned-pairs-rope
  fuse-sliced-rope
  fuse-sliced-pairs-rope
  fuse-rope-of-part
  fuse-split-partial-rope
attention-extents
  extent-from-inputs
choose-by-mask
  choose-by-mask
fuse-attention
  attention-keys-first
  fuse-attention
  attention-key-extent
  attention-folded-heads
  attention-repeated-heads
  attention-groups
  attention-scale
  attention-cache
attention-layout
  attention-heads-last
  attention-sequence-first
merge-biased-projections
  merge-biased-projections
merge-projections
  merge-projections
fuse-dense-squeeze-excite
  fuse-dense-squeeze-excite
fuse-feed-forward
  fuse-mlp
  fuse-squeeze-excite
  fuse-swiglu
  fuse-geglu
merge-gemm-projections
  merge-gemm-projections
fuse-skip-norms
  fuse-skip-layernorm
  fuse-skip-rmsnorm
)";
  EXPECT_EQ(BuildPipeline(1).ToString(), simplify);
  const std::string finish =
      "finish\n  divide-by-multiplying\n  view-transposes\n  split-into-parts\n  slice-of-shape\n" +
      simplify;
  EXPECT_EQ(BuildPipeline(2).ToString(), simplify + fuse + simplify + finish);
  EXPECT_EQ(BuildPipeline(3).ToString(), simplify + fuse + simplify + blocks + simplify + finish);
  const std::string ort = R"(onnxruntime-sums
  ort-cast-behind-f16
  ort-matmul-add
  ort-skip-bias
onnxruntime-attention
  ort-mask-rows
  ort-self-attention
onnxruntime-products
  ort-operand-transpose
  ort-product-transpose
  ort-product-scale
  ort-operand-scale
onnxruntime-activations
  ort-conv-activation
  ort-gemm-activation
  ort-bias-gelu
)";
  EXPECT_EQ(BuildPipeline(2, {}, RewriteFor::kOnnxRuntime).ToString(),
            simplify + fuse + simplify + finish + ort + simplify);
  const std::string plain = BuildPipeline(3, {}, RewriteFor::kPlain).ToString();
  EXPECT_THAT(plain, testing::HasSubstr("fuse-skip-norms"));
  EXPECT_THAT(plain, testing::Not(testing::HasSubstr("fuse-mlp")));
}

TEST(Optimize, ReportsRulesAndOperators) {
  Graph g = Parsed(kSilu);
  OptimizeOptions options;
  const std::vector<std::vector<Datum>> samples = {*RandomInputs(g, 7)};
  options.captured = *CapturedValues::Capture(g, samples);
  const auto report = Optimize(g, options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->before.nodes, 2);
  EXPECT_EQ(report->after.nodes, 1);
  EXPECT_EQ(report->rules.at("fuse-silu").applied, 1);
  EXPECT_EQ(report->verified, 1);
  ASSERT_EQ(report->records.size(), 1u);
  EXPECT_EQ(report->records[0].at, "y");
  EXPECT_GE(report->records[0].error, 0);
  EXPECT_LE(report->records[0].error, report->records[0].tolerance);
  EXPECT_EQ(report->records[0].price.nodes_removed, 2);
}

TEST(Optimize, CountsARefusalOnceOverAllRounds) {
  Graph g = Parsed(R"(graph g(x: f32[1,2,5,5]) -> (y) {
    w = const f32[3,2,3,3] ~1
    p = const i64[8] {0,0,-1,0,0,0,0,0}
    a = Identity(x)
    t = Pad(a, p)
    b = Conv(t, w)
    c = Identity(b)
    y = Relu(c)
  })");
  const auto report = Optimize(g, {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->rules.at("remove-identity").applied, 2);
  EXPECT_EQ(report->rules.at("fuse-pad-conv").matched, 1);
  EXPECT_EQ(report->rules.at("fuse-pad-conv").refused, 1);
}

TEST(Optimize, DisablesAndRefusesUnknownNames) {
  Graph g = Parsed(kSilu);
  OptimizeOptions options;
  options.disable = {"fuse-*"};
  EXPECT_EQ(Optimize(g, options)->rewrites, 0);
  options = {};
  options.only = {"fuse-nothing"};
  const Status s = Optimize(g, options).status();
  EXPECT_EQ(s.code(), Code::kInvalidArgument);
  EXPECT_THAT(s.message(), HasSubstr("no rule is called 'fuse-nothing'"));
}

}  // namespace
}  // namespace infer
