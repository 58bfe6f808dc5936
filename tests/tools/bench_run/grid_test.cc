#include "tools/infer_bench/run/grid.h"

namespace infer::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

std::vector<std::string> NamesOf(const GridOptions& options) {
  const auto cells = Grid({"dir/a.onnx", "b.onnx"}, options);
  std::vector<std::string> names;
  if (!cells.ok()) return {cells.status().message()};
  for (const Cell& c : *cells) names.push_back(c.Name());
  return names;
}

TEST(Grid, AllOfAll) {
  EXPECT_THAT(NamesOf({.batch = {"1", "8"}, .threads = {"2"}}),
              ElementsAre("a.onnx/batch:1/threads:2", "a.onnx/batch:8/threads:2",
                          "b.onnx/batch:1/threads:2", "b.onnx/batch:8/threads:2"));
  EXPECT_THAT(NamesOf({.threads = {"1", "2", "1"}, .precision = {"as-is", "fp16"}}), SizeIs(8));
  EXPECT_THAT(NamesOf({}), SizeIs(2));
}

TEST(Grid, ExtentsCross) {
  const auto cells = Grid({"a.onnx"}, {.seq = {"n=1", "2", "m=5", "6"}});
  ASSERT_TRUE(cells.ok());
  ASSERT_THAT(*cells, SizeIs(4));
  EXPECT_THAT((*cells)[1].seq, ElementsAre(Pair("n", 1), Pair("m", 6)));
  const SessionOptions options = (*cells)[3].Session({});
  EXPECT_THAT(options.model.set, ElementsAre("n=2", "m=6"));
}

TEST(Grid, Refusals) {
  EXPECT_THAT(NamesOf({.batch = {"0"}}), ElementsAre(HasSubstr("--batch 0")));
  EXPECT_THAT(NamesOf({.threads = {"-1"}}), ElementsAre(HasSubstr("--threads -1")));
  EXPECT_THAT(NamesOf({.seq = {"5"}}), ElementsAre(HasSubstr("NAME=EXTENT")));
  EXPECT_THAT(NamesOf({.seq = {"n=x"}}), ElementsAre(HasSubstr("--seq n x")));
  EXPECT_THAT(NamesOf({.precision = {"fp8"}}), ElementsAre(HasSubstr("there are as-is, fp32")));
}

}  // namespace
}  // namespace infer::bench
