#include "tools/infer_bench/compare/conclusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace infer {
namespace {

Conclusion Of(Verdict verdict, Estimate effect) {
  Conclusion c;
  c.title = "m.onnx";
  c.verdict = verdict;
  c.effect = effect;
  c.measured = true;
  c.min_effect = 0.015;
  return c;
}

TEST(Conclusion, SaysWhatIsKnownWhereNothingIsDecided) {
  Conclusion c = Of(Verdict::kInconclusive, {-0.6573, -0.6590, -0.6556});
  c.suspected = true;
  EXPECT_EQ(Sentence(c),
            "inconclusive: B is probably faster, -65.73 % (95 % interval -65.90 % to -65.56 %), "
            "but this is not confirmed");
  c.suspected = false;
  c.reason = "the budget is used up";
  EXPECT_NE(Sentence(c).find("B seems faster"), std::string::npos);
  c.effect = {0.01, -0.02, 0.04};
  EXPECT_EQ(Sentence(c),
            "inconclusive: B takes between -2.00 % and +4.00 %: the budget is used up");
  c.effect = {0.01, -1, std::numeric_limits<double>::infinity()};
  EXPECT_EQ(Sentence(c),
            "inconclusive: +1.00 %, but a single start has no interval: the budget is used up");
  c.measured = false;
  EXPECT_EQ(Sentence(c), "inconclusive: the budget is used up");
}

TEST(Conclusion, AnnotationsEscapeWhatWouldEndThem) {
  Conclusion c = Of(Verdict::kSlower, {0.03, 0.02, 0.04});
  c.title = "a,b:c\n::error::x%";
  c.fails = true;
  const std::string text = GithubCommands(std::span(&c, 1));
  EXPECT_EQ(
      text.find("::error title=infer-bench%3A a%2Cb%3Ac%0A%3A%3Aerror%3A%3Ax%25::B is slower"), 0u);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_NE(text.find("+3.00 %25"), std::string::npos);
}

TEST(Conclusion, OneLineForEachAndOfItsKind) {
  const Conclusion all[] = {Of(Verdict::kSame, {0, -0.01, 0.01}),
                            Of(Verdict::kInconclusive, {0, -0.1, 0.1}),
                            Of(Verdict::kSlower, {0.03, 0.02, 0.04})};
  const std::string text = GithubCommands(all);
  EXPECT_NE(text.find("::notice "), std::string::npos);
  EXPECT_NE(text.find("::warning "), std::string::npos);
  EXPECT_EQ(text.find("::error "), std::string::npos);  // slower, but the gate allows it
}

TEST(Conclusion, MarkdownCellsStayCells) {
  Conclusion c = Of(Verdict::kSame, {0, -0.01, 0.01});
  c.title = "a|b\nc<d";
  const std::string text = MarkdownTable(std::span(&c, 1));
  EXPECT_NE(text.find("| a\\|b c&lt;d |"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

}  // namespace
}  // namespace infer
