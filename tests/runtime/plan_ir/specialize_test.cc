/// Plans for one set of shapes after the other are those that each set alone would get.
#include "runtime/plan_ir/specialize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"
#include "runtime/plan_ir/plan_reuse.h"

namespace infer {
namespace {

Plan PlanOf(std::string_view text) {
  static const OpRegistry ops = AllOps();
  auto g = ParseGraph(text, ops);
  EXPECT_TRUE(g.ok()) << g.status().message();
  return PartitionByNode(*std::move(g));
}

/// Attention over a cache that grows, behind a product that does not; the mask and the sizes of the
/// views follow from shapes.
constexpr const char* kGrowing =
    R"(graph g(x: f32[B,S,8], past: f32[B,P,8], w: f32[8,8]) -> (y, k) {
  q = MatMul(x, w) a = Tanh(q)
  k = Concat(past, a) {axis=1}
  kt = Transpose(k) {perm=[0,2,1]}
  s = MatMul(q, kt)
  zero = const i64[] {0} one = const i64[] {1}
  ks = Shape(k) total = Gather(ks, one)
  ps = Shape(past) seen = Gather(ps, one)
  keys = Range(zero, total, one) queries = Range(seen, total, one)
  ax = const i64[1] {1} rows = Unsqueeze(queries, ax)
  visible = LessOrEqual(keys, rows)
  none = const f32[] {-10} shown = const f32[] {0}
  mask = Where(visible, shown, none)
  m = Add(s, mask) p = Softmax(m)
  o = MatMul(p, k)
  xs = Shape(x) flat = const i64[1] {-1} r = Reshape(o, flat)
  back = Reshape(r, xs) y = Add(back, x)
})";

void ExpectSame(const Plan& plan, const ShapePlan& got, const ShapePlan& want) {
  EXPECT_EQ(got.input_dims, want.input_dims);
  ASSERT_EQ(got.facts.size(), want.facts.size());
  for (size_t i = 0; i < want.facts.size(); ++i) {
    const std::string& name = plan.values[i]->name();
    const ValueFacts &a = *got.facts[i], &b = *want.facts[i];
    EXPECT_EQ(a.type, b.type) << name << ": " << ToString(a.type);
    EXPECT_EQ(a.elements, b.elements) << name;
    EXPECT_EQ(a.late, b.late) << name;
    ASSERT_EQ(a.given() != nullptr, b.given() != nullptr) << name;
    if (!b.given()) continue;
    EXPECT_EQ(a.given()->type(), b.given()->type()) << name;
    EXPECT_TRUE(std::ranges::equal(a.given()->bytes(), b.given()->bytes())) << name;
  }
  EXPECT_EQ(got.declared, want.declared);
  ASSERT_EQ(got.cost.size(), want.cost.size());
  for (size_t s = 0; s < want.cost.size(); ++s) {
    EXPECT_EQ(got.cost[s].flops, want.cost[s].flops) << s;
    EXPECT_EQ(got.cost[s].bytes_read, want.cost[s].bytes_read) << s;
    EXPECT_EQ(got.cost[s].bytes_written, want.cost[s].bytes_written) << s;
  }
}

/// Each set of extents, in this order, by one Specializer and by one of its own.
void ExpectSameAsAlone(const Plan& plan, const std::vector<std::vector<Dims>>& sets) {
  Specializer kept(plan);
  ASSERT_TRUE(kept.may_go_on());
  for (const std::vector<Dims>& dims : sets) {
    ShapePlan got, want;
    const Status alone = Specialize(plan, dims, want), after = kept.Run(dims, got);
    ASSERT_EQ(after.ok(), alone.ok()) << after.message() << alone.message();
    ASSERT_TRUE(alone.ok()) << alone.message();
    ExpectSame(plan, got, want);
  }
}

TEST(Specialize, CachesThatGrow) {
  const Plan plan = PlanOf(kGrowing);
  std::vector<std::vector<Dims>> sets;
  for (int64_t past = 0; past < 6; ++past) sets.push_back({{1, 1, 8}, {1, past, 8}, {8, 8}});
  ExpectSameAsAlone(plan, sets);
}

TEST(Specialize, AnyExtentsInAnyOrder) {
  const Plan plan = PlanOf(kGrowing);
  std::mt19937 random(7);
  std::vector<std::vector<Dims>> sets;
  for (int i = 0; i < 60; ++i) {
    const auto batch = static_cast<int64_t>(random() % 3 + 1);
    sets.push_back({{batch, static_cast<int64_t>(random() % 3 + 1), 8},
                    {batch, static_cast<int64_t>(random() % 5), 8},
                    {8, 8}});
  }
  ExpectSameAsAlone(plan, sets);
}

/// Declarations of the model hold where nothing else is known of a node's operands than it says: in
/// some runs and not in others.
TEST(Specialize, DeclaredExtents) {
  const Plan plan = PlanOf(R"(graph g(x: f32[N], shape: i64[1], two: f32[2]) -> (y, z) {
    e = Reshape(x, shape) y = Add(e, two) z = Relu(x) })");
  ExpectSameAsAlone(plan, {{{2}, {1}, {2}}, {{2}, {1}, {2}}, {{4}, {1}, {2}}, {{2}, {1}, {2}}});
}

TEST(Specialize, ShapesThatDoNotFitAreRefusedAsAlone) {
  const Plan plan = PlanOf("graph g(x: f32[N,4], y: f32[M,4]) -> (z) { z = Add(x, y) }");
  Specializer kept(plan);
  ShapePlan out;
  ASSERT_TRUE(kept.Run(std::vector<Dims>{{3, 4}, {3, 4}}, out).ok());
  EXPECT_FALSE(kept.Run(std::vector<Dims>{{3, 4}, {2, 4}}, out).ok());
  Specializer other(plan);
  EXPECT_EQ(other.Run(std::vector<Dims>{{3, 5}, {3, 4}}, out).code(), Code::kInvalidModel);
}

TEST(Specialize, BodiesAreInferredFromTheModelEachTime) {
  const Plan plan = PlanOf(R"(graph g(c: bool[], x: f32[N]) -> (y) {
    y = If(c) [x] {then_branch=graph(v) -> (w) { w = Tanh(v) }, else_branch=graph(v) -> (w) { w = Relu(v) }} })");
  EXPECT_FALSE(Specializer(plan).may_go_on());
}

/// Says of which extents it was asked, and refuses long ones.
class AskedKernel final : public Kernel {
 public:
  Result<Prepared> Prepare(std::span<const Operand> in, std::span<const Operand>) const override {
    ++asked;
    if (in[0].dims[1] > 4) return Unsupported("too long");
    return Prepared{.launch = std::make_shared<const Launch>(), .name = ToString(in[0].dims)};
  }
  mutable int asked = 0;
};

class Host final : public PlanBackend {
 public:
  std::string_view name() const override { return "host"; }
  const KernelList& kernels() const override { return kernels_; }
  Result<Prepared> Reorder(DType, const Dims&, const Layout&, const Layout&) const override {
    return Prepared{};
  }

 private:
  KernelList kernels_;
};

TEST(PlanReuse, KernelsAreAskedOnlyWhereOperandsDiffer) {
  const Plan plan = PlanOf(R"(graph g(x: f32[1,4], c: f32[1,N]) -> (y, z) {
    a = Tanh(x) y = Relu(a) z = Sigmoid(c) })");
  std::vector<std::shared_ptr<AskedKernel>> asked;
  std::vector<StepKernels> kernels;
  for (size_t s = 0; s < 3; ++s) {
    asked.push_back(std::make_shared<AskedKernel>());
    kernels.push_back({{asked[s]}, {"asked"}});
  }
  const PlanBackends backends = {std::make_shared<const Host>()};
  PlanReuse reuse(plan);
  const auto build = [&](int64_t n) {
    return *BuildShapePlan(plan, kernels, std::vector<Dims>{{1, 4}, {1, n}}, backends,
                           {.reuse = &reuse});
  };
  const auto first = build(2), second = build(3), third = build(3), fourth = build(5);
  EXPECT_EQ(asked[0]->asked, 1);
  EXPECT_EQ(asked[1]->asked, 1);
  EXPECT_EQ(asked[2]->asked, 4) << "twice where it refuses: the plan is made whole then";
  EXPECT_EQ(first->reports->kernel[2], "[1,2]");
  EXPECT_EQ(second->reports->kernel[2], "[1,3]");
  EXPECT_EQ(third->reports->kernel, second->reports->kernel);
  EXPECT_EQ(fourth->reports->kernel[2], "reference");
  EXPECT_EQ(fourth->reports->refusals[2], std::vector<std::string>{"asked: too long"});
  EXPECT_EQ(first->code[0], fourth->code[0]);
  EXPECT_NE(first->code[2], second->code[2]);
  EXPECT_EQ(second->code[2], third->code[2]);
}

/// Plans with what others left, and plans alone, are the same.
TEST(PlanReuse, PlansAreThoseThatEachSetAloneGets) {
  const Plan plan = PlanOf(kGrowing);
  PlanReuse reuse(plan);
  const PlanBackends backends = {std::make_shared<const Host>()};
  std::vector<StepKernels> kernels;
  const auto kernel = std::make_shared<AskedKernel>();
  for (const PlanStep& s : plan.steps)
    kernels.push_back(s.main->Is("Tanh") ? StepKernels{{kernel}, {"asked"}} : StepKernels{});
  const auto build = [&](const std::vector<Dims>& dims) {
    const auto made = BuildShapePlan(plan, kernels, dims, backends, {.reuse = &reuse});
    ASSERT_TRUE(made.ok()) << made.status().message();
    const auto alone = BuildShapePlan(plan, kernels, dims, backends, {});
    EXPECT_EQ((*made)->reports->kernel, (*alone)->reports->kernel);
    ASSERT_EQ((*made)->buffers.size(), (*alone)->buffers.size());
    for (size_t b = 0; b < (*alone)->buffers.size(); ++b) {
      EXPECT_EQ((*made)->buffers[b].bytes, (*alone)->buffers[b].bytes);
    }
  };
  for (const int64_t tokens : {2, 2, 3, 5, 3, 3, 2})
    for (const int64_t past : {0, 1, 1, 4}) build({{1, tokens, 8}, {1, past, 8}, {8, 8}});
}

}  // namespace
}  // namespace infer
