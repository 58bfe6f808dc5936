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
constexpr const char* kGrowing = R"(graph g(x: f32[B,S,8], past: f32[B,P,8], w: f32[8,8]) -> (y, k) {
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
  ASSERT_EQ(got.types.size(), want.types.size());
  for (size_t i = 0; i < want.types.size(); ++i) {
    const std::string& name = plan.values[i]->name();
    EXPECT_EQ(got.types[i], want.types[i]) << name << ": " << ToString(got.types[i]);
    ASSERT_EQ(got.known[i].defined(), want.known[i].defined()) << name;
    if (!want.known[i].defined()) continue;
    EXPECT_EQ(got.known[i].type(), want.known[i].type()) << name;
    EXPECT_TRUE(std::ranges::equal(got.known[i].bytes(), want.known[i].bytes())) << name;
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

/// What the model says of results where nothing else is known of the operands than it says, and
/// what only declarations say, hold in some runs and not in others.
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

/// Counts how often it is asked.
class AskedKernel final : public Kernel {
 public:
  Result<Prepared> Prepare(std::span<const Operand> in, std::span<const Operand>) const override {
    ++asked;
    if (in[0].dims[0] > 3) return Unsupported("too long");
    return Prepared{.launch = nullptr, .name = "asked"};
  }
  mutable int asked = 0;
};

TEST(PreparedKernels, AskOnlyWhereOperandsDiffer) {
  const AskedKernel kernel;
  PreparedKernels kept;
  const Tensor numbers = Tensor::Int64s({1, 2}), same = numbers, others = Tensor::Int64s({1, 3});
  std::vector<Operand> in(2), out(1);
  in[0] = {.dtype = DType::kF32, .dims = {2}};
  in[1] = {.dtype = DType::kI64, .dims = {2}, .constant = &numbers};
  out[0] = {.dtype = DType::kF32, .dims = {2}};
  const auto asked_after = [&] {
    static_cast<void>(kept.Prepare(kernel, in, out));
    return kernel.asked;
  };
  EXPECT_EQ(asked_after(), 1);
  EXPECT_EQ(asked_after(), 1);
  in[1].constant = &same;  // the same elements under another name
  EXPECT_EQ(asked_after(), 1);
  in[1].constant = &others;
  EXPECT_EQ(asked_after(), 2);
  in[1].constant = nullptr;
  EXPECT_EQ(asked_after(), 3);
  in[0].layout.code = "blocked";
  EXPECT_EQ(asked_after(), 4);
  in[0].layout.bytes = 64;
  EXPECT_EQ(asked_after(), 5);
  out[0].dims = {3};
  EXPECT_EQ(asked_after(), 6);
  in[0].dims = {4};
  EXPECT_EQ(asked_after(), 7);
  // A refusal is kept, too.
  EXPECT_EQ(kept.Prepare(kernel, in, out).status().code(), Code::kUnsupported);
  EXPECT_EQ(kernel.asked, 7);
}

}  // namespace
}  // namespace infer
