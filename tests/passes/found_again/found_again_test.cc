// Fused operators that leave for a file of an older opset are written as the nodes that define
// them; who reads the file, our runtime too, has to find them again. Runs on the examples of every
// rule of fusion: a new rule needs no new test code.
#include <gmock/gmock.h>

#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "passes/pass/pipeline.h"
#include "tests/passes/graphs.h"

namespace infer {
namespace {

/// Nodes more than before, of rules whose examples leave open what the reader would have to know.
int64_t Allowed(const std::string& rule, const std::string& example) {
  const bool unknown = example.find("f32[N,?]") != std::string::npos;
  if (rule == "fuse-layernorm-bias" && unknown) return 2;
  if ((rule == "fuse-layernorm-scale" || rule == "fuse-rmsnorm-scale") && unknown) return 1;
  // Groups of one channel: the scale that the definition applies behind them stays a node.
  if (rule == "fold-norm-scale" || rule == "fold-norm-shift") return 1;
  // A mask of U keys for T: whether it is broadcast is not known before the run.
  if (rule == "fuse-attention" && example.find("m: f32[U]") != std::string::npos) return 6;
  // An Attention that was one from the start may have a mask with fewer keys, which is padded.
  if (rule == "attention-cache" && example.find("w: f32[S,1]") != std::string::npos) return 6;
  if (rule == "attention-key-extent") return 2;
  // Keys and values are one tensor: both caches are the same Concat.
  if (rule == "attention-heads-last" && example.find("_, p, p)") != std::string::npos) return 2;
  return 0;
}

class FoundAgain : public testing::TestWithParam<int> {};

std::vector<Rule> Fusions() {
  std::vector<Rule> fusions;
  for (ListedRule& r : AllRules())
    if (r.level >= 2 && !r.ort_only) fusions.push_back(std::move(r.rule));
  return fusions;
}

TEST_P(FoundAgain, BehindAFileOfThisOpset) {
  const int opset = GetParam();
  int written = 0;
  for (const Rule& rule : Fusions())
    for (const std::string& example : rule.fires_on) {
      Model fused(Parsed(example));
      ASSERT_TRUE(Optimize(fused.graph).ok());
      const int64_t nodes = StatisticsOf(fused.graph).nodes;
      const auto bytes = ExportModelBytes(fused, {.opset = opset});
      if (!bytes.ok() && bytes.status().code() == Code::kUnsupported) continue;
      ASSERT_TRUE(bytes.ok()) << rule.name << ": " << bytes.status().message();
      auto read = ImportModelBytes(*bytes, Ops());
      ASSERT_TRUE(read.ok()) << rule.name << ": " << read.status().message();
      ++written;
      const std::string file = Print(read->graph);
      ASSERT_TRUE(Optimize(read->graph).ok());
      EXPECT_LE(StatisticsOf(read->graph).nodes, nodes + Allowed(rule.name, example))
          << rule.name << ": " << example << "\nis fused as\n"
          << Print(fused.graph) << "\nis written as\n"
          << file << "\nand that is fused as\n"
          << Print(read->graph);
    }
  EXPECT_GT(written, 100);
}

INSTANTIATE_TEST_SUITE_P(Opsets, FoundAgain, testing::Values(13, 17, 20));

}  // namespace
}  // namespace infer
