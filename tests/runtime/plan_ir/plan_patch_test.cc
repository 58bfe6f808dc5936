/// Plans made from the one before: what they share, and that their arenas hold what they must.
#include "runtime/plan_ir/plan_patch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"

namespace infer {
namespace {

/// Takes any extents; element-wise kernels of it may write over their operand.
class PatchedKernel final : public Kernel {
 public:
  PatchedKernel(bool in_place, bool scratch) : in_place_(in_place), scratch_(scratch) {}
  Result<Prepared> Prepare(std::span<const Operand>, std::span<const Operand> out) const override {
    return Prepared{.launch = std::make_shared<const Launch>(),
                    .name = "any",
                    .scratch_bytes = scratch_ ? 2 * out[0].plain_bytes() + 8 : 0,
                    .in_place = in_place_};
  }

 private:
  bool in_place_, scratch_;
};

class PatchHost final : public PlanBackend {
 public:
  std::string_view name() const override { return "host"; }
  const KernelList& kernels() const override { return kernels_; }
  Result<Prepared> Reorder(DType, const Dims&, const Layout&, const Layout&) const override {
    return Prepared{.launch = std::make_shared<const Launch>(), .name = "copy"};
  }

 private:
  KernelList kernels_;
};

/// A cache that grows, with chains that may run in place, and an output that is an input.
constexpr const char* kPatched = R"(graph g(x: f32[B,1,8], past: f32[B,P,8], w: f32[8,8])
    -> (y, k, past, n) {
  q = MatMul(x, w) a = Tanh(q) k = Concat(past, a) {axis=1}
  e = Exp(k) f = Relu(e) g = Neg(f) h = Mul(a, g) i = Relu(h) s = Softmax(i)
  kt = Transpose(s) {perm=[0,2,1]} m = MatMul(x, kt) o = MatMul(m, s) y = Add(o, x)
  n = Shape(k) })";

class PlanPatch : public testing::Test {
 protected:
  PlanPatch() : plan_(PartitionByNode(*ParseGraph(kPatched, Ops()))), reuse_(plan_) {
    for (const PlanStep& s : plan_.steps) {
      const bool unary = s.inputs.size() == 1;
      const auto kernel = std::make_shared<PatchedKernel>(unary || s.main->Is("Mul"), !unary);
      kernels_.push_back({{kernel}, {"any"}});
    }
  }
  static const OpRegistry& Ops() {
    static const OpRegistry* ops = new OpRegistry(AllOps());
    return *ops;
  }
  std::shared_ptr<const ShapePlan> Made(int64_t batch, int64_t past, bool alone = false) {
    ShapePlanHooks hooks;
    if (!alone) hooks.reuse = &reuse_;
    const std::vector<Dims> dims = {{batch, 1, 8}, {batch, past, 8}, {8, 8}};
    auto made = BuildShapePlan(plan_, kernels_, dims, backends_, hooks);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return *made;
  }

  const Plan plan_;
  PlanReuse reuse_;
  std::vector<StepKernels> kernels_;
  const PlanBackends backends_ = {std::make_shared<const PatchHost>()};
};

void ExpectArenaHolds(const ShapePlan& plan) {
  const auto& lives = plan.frame->lives;
  for (size_t a = 0; a < plan.buffers.size(); ++a) {
    const PlannedBuffer& x = plan.buffers[a];
    if (x.kind != PlannedBuffer::Kind::kArena || lives[a].second < 0) continue;
    EXPECT_EQ(x.offset % kMemoryAlignment, 0);
    EXPECT_LE(x.bytes, x.room);
    EXPECT_LE(x.room, x.bytes + std::max<int64_t>(x.bytes / 4, 8192));
    EXPECT_LE(x.offset + x.bytes, plan.memory.arena_bytes);
    for (size_t b = 0; b < a; ++b) {
      const PlannedBuffer& y = plan.buffers[b];
      if (y.kind != PlannedBuffer::Kind::kArena || lives[a].first > lives[b].second ||
          lives[b].first > lives[a].second)
        continue;
      const bool apart = x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset;
      EXPECT_TRUE(apart) << a << ' ' << b;
    }
  }
}

void ExpectSamePlan(const ShapePlan& got, const ShapePlan& want) {
  EXPECT_EQ(got.reports->kernel, want.reports->kernel);
  EXPECT_EQ(got.reports->refusals, want.reports->refusals);
  EXPECT_EQ(got.frame->args, want.frame->args);
  EXPECT_EQ(got.frame->plain, want.frame->plain);
  EXPECT_EQ(got.frame->outputs, want.frame->outputs);
  EXPECT_EQ(got.memory.weight_bytes, want.memory.weight_bytes);
  ASSERT_EQ(got.buffers.size(), want.buffers.size());
  for (size_t b = 0; b < want.buffers.size(); ++b) {
    const PlannedBuffer &x = got.buffers[b], &y = want.buffers[b];
    EXPECT_EQ(x.bytes, y.bytes) << b;
    EXPECT_EQ(x.kind, y.kind) << b;
    EXPECT_TRUE(SameTensor(x.constant, y.constant)) << b;
  }
}

TEST_F(PlanPatch, GrowingCachesShareTheFrameAndMostOfTheRest) {
  const auto first = Made(1, 3), second = Made(1, 4), third = Made(1, 5);
  EXPECT_EQ(first->frame, second->frame);
  EXPECT_EQ(second->frame, third->frame);
  EXPECT_EQ(first->reports, third->reports);
  EXPECT_EQ(first->facts[0], third->facts[0]);
  EXPECT_NE(second->memory.arena_bytes, first->memory.arena_bytes) << "it has room to grow";
  EXPECT_EQ(third->memory.arena_bytes, second->memory.arena_bytes);
}

TEST_F(PlanPatch, AnyExtentsInAnyOrder) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const auto batch = static_cast<int64_t>(random() % 3 + 1);
    const auto past = static_cast<int64_t>(random() % 4 == 0 ? random() % 3000 : random() % 9);
    const auto made = Made(batch, past), alone = Made(batch, past, true);
    ExpectSamePlan(*made, *alone);
    ExpectArenaHolds(*made);
  }
}

/// Where the lengths of operands of a chain come to differ, its results cannot lie in one buffer.
TEST_F(PlanPatch, AnotherBufferToTakeOverIsAnotherFrame) {
  const auto one = Made(1, 0), two = Made(1, 1), three = Made(1, 2);
  EXPECT_NE(one->frame, two->frame);
  EXPECT_EQ(two->frame, three->frame);
}

TEST(FactTable, KeepsWhatIsHeldAndNoMore) {
  FactTable table;
  const auto facts = [](int64_t n) {
    ValueFacts f;
    f.type = TensorType{DType::kF32, Shape(Dims{n, 4})};
    return f;
  };
  const FactsPtr held = table.Intern(facts(0));
  for (int64_t n = 1; n < 20000; ++n) EXPECT_EQ(table.Intern(facts(n))->bytes, n * 16);
  EXPECT_EQ(table.Intern(facts(0)), held);
  EXPECT_LE(table.size(), 600U);
}

TEST(FactTable, TellsApartAllThatFactsHold) {
  FactTable table;
  ValueFacts base;
  base.type = TensorType{DType::kI64, Shape(Dims{1})};
  std::vector<ValueFacts> all(7, base);
  all[1].elements = std::vector<Dim>{3};
  all[2].known = Tensor::Int64s({3});
  all[3].known = Tensor::Int64s({4});
  all[4].changed = true;
  all[5].late = true;
  all[6].inferred = Tensor::Int64s({3});
  std::vector<FactsPtr> kept;
  for (const ValueFacts& f : all) kept.push_back(table.Intern(f));
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = 0; j < all.size(); ++j)
      EXPECT_EQ(table.Intern(all[i]) == kept[j], i == j) << i << ' ' << j;
}

}  // namespace
}  // namespace infer
