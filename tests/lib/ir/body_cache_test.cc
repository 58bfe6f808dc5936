#include "lib/ir/body_cache.h"

#include <gtest/gtest.h>

#include "lib/ir/text.h"
#include "lib/ops/registry.h"

namespace infer {
namespace {

TEST(BodyCache, AttributesDecideNotTheirHash) {
  const OpRegistry ops = AllOps();
  const auto relu =
      std::make_shared<const Graph>(*ParseGraph("graph g(x: f32[4]) -> (y) { y = Relu(x) }", ops));
  const auto tanh =
      std::make_shared<const Graph>(*ParseGraph("graph g(x: f32[4]) -> (y) { y = Tanh(x) }", ops));
  const AttrMap a{{"activation", std::string("Relu")}}, b{{"activation", std::string("Tanh")}};
  const BodyCache::Key same{ops.all()[0], &ops, 7};  // as two sets of attributes may have
  BodyCache cache(3);
  EXPECT_EQ(cache.Add(same, a, relu), relu);
  EXPECT_EQ(cache.Find(same, b), nullptr);
  EXPECT_EQ(cache.Add(same, b, tanh), tanh);
  EXPECT_EQ(cache.Find(same, a), relu);
  EXPECT_EQ(cache.Find(same, b), tanh);
  EXPECT_EQ(cache.Add(same, a, tanh), relu) << "the first stays";
  BodyCache::Key other = same;
  other.def = ops.all()[1];
  EXPECT_EQ(cache.Find(other, a), nullptr);
  // Not ever larger.
  for (uint64_t hash = 0; hash < 20; ++hash) cache.Add({ops.all()[2], &ops, hash}, a, relu);
  EXPECT_EQ(cache.Find(same, a), nullptr);
}

}  // namespace
}  // namespace infer
