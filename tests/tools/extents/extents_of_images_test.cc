/// Extents of inputs that are images.
#include <gmock/gmock.h>

#include "lib/support/strings.h"
#include "tests/tools/extents/found_extents.h"

namespace infer {
namespace {

/// A network for photographs is not measured on four pixels.
TEST(Extents, OfImagesAreThoseOfPhotographs) {
  for (const std::string_view shape : {"n,3,h,w", "n,h,w,3", "n,1,h,w", "n,3,48,w"}) {
    const Graph g = Parsed(Cat("graph g(x: f32[", shape, "]) -> (y) { y = Neg(x) }"));
    const Found measured = Find(g, 1), checked = Find(g, 2);
    ASSERT_TRUE(measured.extents.ok() && checked.extents.ok());
    EXPECT_EQ(measured.extents->at("w"), 224) << shape;
    EXPECT_EQ(measured.extents->at("n"), 1) << shape;
    EXPECT_EQ(checked.extents->at("w"), 64) << shape;
    EXPECT_EQ(checked.extents->at("n"), 2) << shape;
    if (g.inputs()[0]->shape()[2].is_static()) continue;
    EXPECT_EQ(measured.extents->at("h"), 224) << shape;
  }
}

/// Channels follow from the window's weights where the file leaves them open too.
TEST(Extents, OfImagesWhoseChannelsAreOpen) {
  const Graph g = Parsed(R"(graph g(x: f32[n,c,h,w]) -> (y) {
    k = const f32[1,3,1,1] {1, 1, 1}
    y = Conv(x, k) })");
  const Found found = Find(g, 1);
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_EQ(ToString(*found.extents), "c = 3, h = 224, n = 1, w = 224");
}

/// A height that the network refuses: the list goes on.
TEST(Extents, OfAnImageThatDoesNotFitAreSmall) {
  const Graph g = Parsed(R"(graph g(x: f32[1,3,h,w], s: f32[1,3,16,16]) -> (y) { y = Add(x, s) })");
  const Found found = Find(g, 1);
  ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
  EXPECT_EQ(ToString(*found.extents), "h = 16, w = 16");
}

/// A table of positions for images of 32x32, cut into patches of 8x8.
TEST(Extents, OfAnImageWithATableOfPositions) {
  const Graph g = Parsed(R"(graph g(x: f32[b,3,h,w], k: f32[4,3,8,8], table: f32[1,16,4]) -> (y) {
    s = const i64[3] {0, 4, -1}
    c = Conv(x, k) {strides=[8, 8]}
    f = Reshape(c, s)
    t = Transpose(f) {perm=[0, 2, 1]}
    y = Add(t, table) })");
  for (const int64_t first_batch : {1, 2}) {
    const Found found = Find(g, first_batch);
    ASSERT_TRUE(found.extents.ok()) << found.extents.status().message();
    EXPECT_EQ(found.extents->at("h"), 32);
    EXPECT_EQ(found.extents->at("w"), 32);
  }
}

}  // namespace
}  // namespace infer
