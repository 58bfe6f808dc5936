/// The whole of fusing, from file to file, for graphs of 1,000, 3,000 and 30,000 nodes, by night of
/// up to 100,000: chains, residual blocks and transformers' blocks with small weights. Prints the
/// curve.
#include <gmock/gmock.h>

#include <cstdlib>
#include <ctime>

#include "lib/ir/editor.h"
#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "passes/pass/pipeline.h"

namespace infer {
namespace {

constexpr int64_t kWidth = 8, kHeads = 2;

/// Appends blocks as exporters write them. Weights differ, so that nothing is merged.
class Blocks {
 public:
  explicit Blocks(Graph& g) : e_(g) {}

  Value* Op(std::string_view op, std::vector<Value*> inputs, AttrMap attrs = {}) {
    auto v = e_.Add(op, std::move(inputs), std::move(attrs));
    INFER_CHECK(v.ok());
    return *v;
  }
  Value* Weights(Dims dims) {
    Tensor t(DType::kF32, std::move(dims));
    for (float& v : t.mutable_data<float>()) v = static_cast<float>(0.3 * random_.Normal());
    return e_.AddConstant(std::move(t));
  }
  Value* Number(float v) { return e_.AddConstant(Tensor::Scalar(v)); }
  Value* Ints(const std::vector<int64_t>& v) { return e_.AddConstant(Tensor::Int64s(v)); }

  Value* Chain(Value* x) {
    for (int i = 0; i < 8; ++i) {
      x = Op("Mul", {x, Op("Sigmoid", {x})});
      x = Op("Relu", {Op("Identity", {x})});
    }
    return x;
  }
  Value* Linear(Value* x) {
    return Op("Add", {Op("MatMul", {x, Weights({kWidth, kWidth})}), Weights({kWidth})});
  }
  Value* Gelu(Value* x) {
    Value* erf = Op("Erf", {Op("Div", {x, Number(1.41421356f)})});
    return Op("Mul", {Op("Mul", {x, Number(0.5f)}), Op("Add", {erf, Number(1)})});
  }
  Value* Norm(Value* x) {
    Value* d = Op("Sub", {x, Op("ReduceMean", {x, Ints({-1})})});
    Value* v = Op("ReduceMean", {Op("Pow", {d, Number(2)}), Ints({-1})});
    Value* n = Op("Div", {d, Op("Sqrt", {Op("Add", {v, Number(1e-5f)})})});
    return Op("Add", {Op("Mul", {n, Weights({kWidth})}), Weights({kWidth})});
  }
  Value* Residual(Value* x) { return Op("Add", {x, Gelu(Linear(x))}); }
  Value* Transformer(Value* x) {
    Value* n = Norm(x);
    const auto heads = [&](std::vector<int64_t> perm) {
      Value* split = Op("Reshape", {Linear(n), Ints({0, 0, kHeads, kWidth / kHeads})});
      return Op("Transpose", {split}, {{"perm", std::move(perm)}});
    };
    Value *q = heads({0, 2, 1, 3}), *k = heads({0, 2, 3, 1}), *v = heads({0, 2, 1, 3});
    Value* scores = Op("Softmax", {Op("Div", {Op("MatMul", {q, k}), Number(2)})});
    Value* mixed =
        Op("Transpose", {Op("MatMul", {scores, v})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    x = Op("Add", {x, Linear(Op("Reshape", {mixed, Ints({0, 0, kWidth})}))});
    return Op("Add", {x, Linear(Gelu(Linear(Norm(x))))});
  }

 private:
  GraphEditor e_;
  Random random_{1};
};

std::string ModelOf(size_t nodes, const OpRegistry& ops) {
  Graph g(ops, "scaling");
  GraphEditor e(g);
  Value* x = e.AddInput("x", TensorType{DType::kF32, Shape({Dim::Symbol("B"), 4, kWidth})});
  Blocks blocks(g);
  while (g.num_nodes() < nodes)
    x = blocks.Transformer(blocks.Residual(blocks.Residual(blocks.Chain(x))));
  e.MarkOutput(x);
  auto bytes = ExportModelBytes(Model(std::move(g)));
  INFER_CHECK(bytes.ok());
  return *std::move(bytes);
}

double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Times {
  double import = 0, fuse = 0, write = 0;
  double total() const { return import + fuse + write; }
};

Times Fuse(size_t nodes, const OpRegistry& ops, bool show_passes) {
  const std::string bytes = ModelOf(nodes, ops);
  Times t;
  double start = Seconds();
  const auto lap = [&] {
    const double begun = start;
    start = Seconds();
    return start - begun;
  };
  auto model = ImportModelBytes(bytes, ops);
  INFER_CHECK(model.ok());
  t.import = lap();
  const auto report = Optimize(model->graph);
  EXPECT_TRUE(report.ok()) << report.status().message();
  t.fuse = lap();
  const auto written = ExportModelBytes(*model);
  EXPECT_TRUE(written.ok()) << written.status().message();
  t.write = lap();
  double pass_ms = 0, verify_ms = 0;  // of the clock; only their ratio is told
  for (const PassRecord& p : report->passes) {
    pass_ms += p.ms;
    verify_ms += p.verify_ms;
    if (show_passes)
      std::printf("    %-32s %8.0f ms, invariants %6.0f ms%s\n", p.name.c_str(), p.ms, p.verify_ms,
                  p.changed ? ", changed" : "");
  }
  std::printf(
      "%8zu nodes: import %6.2f s, fuse %6.2f s (invariants %4.1f %%), export %6.2f s: %6.2f s "
      "(%.1f us a node), %lld rewrites, %lld nodes left\n",
      nodes, t.import, t.fuse, 100 * verify_ms / (pass_ms + verify_ms), t.write, t.total(),
      1e6 * t.total() / static_cast<double>(nodes), static_cast<long long>(report->rewrites),
      static_cast<long long>(report->after.nodes));
  return t;
}

/// Processor time, so that a busy machine matters less. A graph of 100,000 nodes does not fit into
/// caches, which costs a factor of 2 to 3; quadratic work would cost 100.
TEST(Scaling, IsLinear) {
  const size_t most = std::getenv("INFER_BY_NIGHT") ? 100'000 : 30'000;
  const OpRegistry ops = AllOps();
  Fuse(1'000, ops, false);
  const Times small = Fuse(most / 10, ops, false), large = Fuse(most, ops, true);
  EXPECT_LT(large.total(), 50 * small.total());
}

}  // namespace
}  // namespace infer
