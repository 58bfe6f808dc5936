#include "lib/support/similar.h"

#include <gmock/gmock.h>

namespace infer {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Similar, CountsEdits) {
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("quantise", "quantize"), 1u);
  EXPECT_EQ(EditDistance("Cnov", "conv"), 1u);  // a swap; case says nothing
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
}

TEST(Similar, NearestFirstAndNoGuessFarOff) {
  const std::vector<std::string> names = {"--target", "--threads", "--tune", "--data"};
  EXPECT_THAT(SimilarNames("--taget", names), ElementsAre("--target"));
  EXPECT_THAT(SimilarNames("--thread", names, 1), ElementsAre("--threads"));
  EXPECT_THAT(SimilarNames("--frobnicate", names), IsEmpty());
  EXPECT_THAT(SimilarNames("", names), IsEmpty());
  // The beginning of a name, however much is left out.
  const std::vector<std::string> nets = {"mobilenetv3-small", "resnet50"};
  EXPECT_THAT(SimilarNames("mobile", nets), ElementsAre("mobilenetv3-small"));
}

TEST(Similar, TellsInWords) {
  const std::vector<std::string> names = {"fuse", "run"};
  EXPECT_EQ(DidYouMean("fuze", names), "; did you mean fuse?");
  EXPECT_EQ(DidYouMean("abacus", names), "");
}

}  // namespace
}  // namespace infer
