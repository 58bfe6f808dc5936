/// Where steps go when work and transfers have prices.
#include "runtime/plan_ir/place_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/plan_ir/specialize.h"

namespace infer {
namespace {

using ::testing::ElementsAre;

class NoDevice final : public Device {
 public:
  std::string_view name() const override { return "none"; }
  Result<std::shared_ptr<DeviceMemory>> Allocate(int64_t) override { return Unsupported("none"); }
  Result<std::unique_ptr<Encoder>> NewEncoder() override { return Unsupported("none"); }
};

/// Prices in microseconds per FLOP and per byte.
class Priced final : public PlanBackend {
 public:
  Priced(bool on_device, double flop, double byte)
      : on_device_(on_device), flop_(flop), byte_(byte) {}
  std::string_view name() const override { return "priced"; }
  const KernelList& kernels() const override { return kernels_; }
  Device* device() const override { return on_device_ ? &device_ : nullptr; }
  Result<Prepared> Reorder(DType, const Dims&, const Layout&, const Layout&) const override {
    return Prepared{};
  }
  double StepMicroseconds(const Cost& cost) const override {
    return flop_ * static_cast<double>(cost.flops);
  }
  double TransferMicroseconds(int64_t bytes) const override {
    return byte_ * static_cast<double>(bytes);
  }

 private:
  mutable NoDevice device_;
  KernelList kernels_;
  bool on_device_;
  double flop_, byte_;
};

class NoKernel final : public Kernel {
 public:
  Result<Prepared> Prepare(std::span<const Operand>, std::span<const Operand>) const override {
    return Unsupported("none");
  }
};

/// 0: on the device. `lacks`: an operator that the device has no kernel for. A FLOP costs 1 on the
/// host and `flop` on the device.
std::vector<size_t> Placed(std::string_view text, std::string_view lacks, double flop,
                           double byte) {
  static const OpRegistry ops = AllOps();
  auto g = ParseGraph(text, ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  const Plan plan = PartitionByNode(*std::move(g));
  std::vector<Dims> dims;
  for (const Value* v : plan.graph.inputs()) dims.push_back(v->shape().static_dims());
  ShapePlan shapes;
  EXPECT_TRUE(Specialize(plan, dims, shapes).ok());
  const PlanBackends backends = {std::make_shared<const Priced>(true, flop, byte),
                                 std::make_shared<const Priced>(false, 1.0, 0.0)};
  const auto kernel = std::make_shared<const NoKernel>();
  std::vector<StepKernels> kernels;
  for (const PlanStep& s : plan.steps) {
    StepKernels& k = kernels.emplace_back();
    if (!s.main->Is(lacks)) k = {{kernel, kernel}, {"device", "host"}, {0, 1}};
  }
  return PlaceSteps(plan, shapes, kernels, backends, std::vector<bool>(plan.steps.size(), true));
}

constexpr const char* kChain =
    "graph g(x: f32[100]) -> (y) { a = Tanh(x) b = Selu(a) c = Tanh(b) d = Exp(c) y = Tanh(d) }";

TEST(PlaceSteps, EverythingWhereBytesCostNothing) {
  EXPECT_THAT(Placed(kChain, "", 0.5, 0), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(Placed(kChain, "Selu", 0.5, 0), ElementsAre(0, 1, 0, 0, 0));
}

TEST(PlaceSteps, NothingWhereTransfersCostMoreThanTheyGain) {
  EXPECT_THAT(Placed(kChain, "", 0.5, 100), ElementsAre(1, 1, 1, 1, 1));
}

TEST(PlaceSteps, AStepBesideOneThatTheDeviceLacksGoesWithIt) {
  // The first Tanh gains 90 and would pay 120 for its two values; the last three gain 270.
  const auto placed = Placed(kChain, "Selu", 0.1, 0.15);
  EXPECT_EQ(placed[0], 1u);
  EXPECT_EQ(placed[1], 1u);
  EXPECT_THAT(std::vector<size_t>(placed.begin() + 2, placed.end()), ElementsAre(0, 0, 0));
}

TEST(PlaceSteps, AnIslandStaysThatOnlyTogetherPaysForItsBorders) {
  // Each step alone would save its transfers by leaving; together they keep what they gain.
  const char* wide =
      R"(graph g(x: f32[10]) -> (y) { w = const f32[10,500] ~1 v = const f32[500,500] ~2
    u = const f32[500,10] ~3 a = MatMul(x, w) b = MatMul(a, v) y = MatMul(b, u) })";
  EXPECT_THAT(Placed(wide, "", 0.01, 5), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace infer
