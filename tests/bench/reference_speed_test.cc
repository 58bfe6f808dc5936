/// The reference product must stay fast enough for golden runs over real data: >= 8 GFLOP/s.
/// Prints what this machine gives, with the lanes that the process may use.
#include <chrono>
#include <cstdio>

#include "lib/support/parallel.h"
#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

double GflopPerSecond(std::string_view op, const AttrMap& attrs, const Dims& x, const Dims& w) {
  Random random(1);
  const std::vector<Tensor> in = {RandomTensor(random, DType::kF32, x),
                                  RandomTensor(random, DType::kF32, w)};
  const OpDef& def = *TestOps().Find(op);
  const std::vector<Datum> data(in.begin(), in.end());
  const std::vector<const Datum*> pointers = {&data[0], &data[1]};
  const std::vector<ValueType> types = {in[0].type(), in[1].type()};
  OpCall call(def, attrs, 2, 1);
  call.BindInput(0, &types[0]);
  call.BindInput(1, &types[1]);
  EXPECT_TRUE(def.infer(call).ok());
  LaneLease lease(0);
  double best_s = 1e9;
  for (int i = 0; i < 5; ++i) {
    OpRun run(call, pointers, 1);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(def.reference(run).ok());
    best_s = std::min(
        best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double rate = static_cast<double>(CostOf(call).flops) / best_s * 1e-9;
  std::printf("%-14s x %-16s w %-14s %d lanes: %6.1f GFLOP/s\n", std::string(op).c_str(),
              ToString(x).c_str(), ToString(w).c_str(), lease.lanes(), rate);
  return rate;
}

TEST(ReferenceSpeed, ConvolutionAndMatMul) {
  const AttrMap pads = {{"pads", std::vector<int64_t>{1, 1, 1, 1}}};
  EXPECT_GE(GflopPerSecond("Conv", pads, {1, 64, 56, 56}, {64, 64, 3, 3}), 8);
  EXPECT_GE(GflopPerSecond("Conv", pads, {1, 512, 7, 7}, {512, 512, 3, 3}), 8);
  EXPECT_GE(GflopPerSecond("Conv", {}, {1, 256, 28, 28}, {128, 256, 1, 1}), 8);
  EXPECT_GE(GflopPerSecond("MatMul", {}, {512, 512}, {512, 512}), 8);
  EXPECT_GE(GflopPerSecond("MatMul", {}, {8, 128, 64}, {8, 64, 128}), 8);
}

}  // namespace
}  // namespace infer
