#include "quant/accuracy/breaking.h"

#include <gmock/gmock.h>

#include "lib/support/strings.h"
#include "runtime/reference/backend.h"
#include "tests/quant/scheme/graphs.h"

namespace infer {
namespace {

using testing::SizeIs;

/// y = x * product of eight factors; factor i is off by errors[i].
std::string Product(const std::vector<double>& errors) {
  std::string text = "graph g(x: f32[4,8]) -> (y: f32[4,8]) {\n", in = "x";
  for (size_t i = 0; i < errors.size(); ++i) {
    const std::string out = i + 1 == errors.size() ? "y" : Cat("v", i);
    text += Cat("  w", i, " = const f32[1] {", 1 + errors[i], "}\n  ", out, " = Mul(", in, ", w", i,
                ")\n");
    in = out;
  }
  return text + "}";
}

struct Broken {
  std::vector<std::string> set;
  std::string first;
  BreakReport report;
};

Broken Break(const std::vector<double>& errors, GateLimits limits) {
  const Graph golden = MustParse(Product(std::vector<double>(errors.size(), 0)));
  const Graph candidate = MustParse(Product(errors));
  const auto backend = MakeReferenceBackend();
  const auto map = LayerMap::Of(golden, candidate);
  EXPECT_TRUE(map.ok());
  BreakOptions options;
  options.limits = limits;
  auto r = FindBreakingLayers(*map, *backend, NormalSamples(golden, 3, 1), options);
  EXPECT_TRUE(r.ok()) << r.status().message();
  Broken b;
  for (const size_t i : r->set.members) b.set.push_back(map->layers()[i].name());
  if (r->first) b.first = map->layers()[*r->first].name();
  b.report = *std::move(r);
  return b;
}

TEST(FindBreakingLayers, OneBadLayer) {
  for (const size_t bad : {0u, 4u, 7u}) {
    std::vector<double> errors(8, 1e-5);
    errors[bad] = 0.05;
    const Broken b = Break(errors, {.max_error_ratio = 0.01});
    const std::string name = bad == 7 ? "y" : Cat("v", bad);
    EXPECT_THAT(b.set, testing::ElementsAre(name));
    EXPECT_EQ(b.first, name);
    EXPECT_TRUE(b.report.breaks && b.report.set.minimal);
    EXPECT_EQ(b.report.ranking.front().name, name);
  }
}

TEST(FindBreakingLayers, TwoThatOnlyTogetherBreak) {
  // Each is 0.8 % off, which 1 % allows; both are not.
  std::vector<double> errors(8, 0);
  errors[2] = errors[5] = 0.008;
  const Broken b = Break(errors, {.max_error_ratio = 0.01});
  EXPECT_THAT(b.set, testing::UnorderedElementsAre("v2", "v5"));
  EXPECT_EQ(b.first, "v5");
}

TEST(FindBreakingLayers, WhatKeepsTheToleranceDoesNotBreak) {
  const Broken b = Break(std::vector<double>(8, 1e-4), {.max_error_ratio = 0.01});
  EXPECT_FALSE(b.report.breaks);
  EXPECT_THAT(b.set, SizeIs(0));
  EXPECT_FALSE(Break(std::vector<double>(8, 0), {.max_error_ratio = 0.01}).report.breaks);
}

TEST(FindBreakingLayers, LimitsOfOutputsOnlyNameNoFirstValue) {
  std::vector<double> errors(8, 0);
  errors[3] = -2;  // the other sign: every row's best class is another
  const Broken b = Break(errors, {.min_agreement = 0.9});
  EXPECT_THAT(b.set, testing::ElementsAre("v3"));
  EXPECT_EQ(b.first, "");
}

}  // namespace
}  // namespace infer
