// Every attention of the zoo is found, in every style: how many, and that none is left spelled out.
#include <gmock/gmock.h>

#include "lib/ops/registry.h"
#include "lib/support/strings.h"
#include "passes/pass/pipeline.h"
#include "tools/zoo/zoo.h"

namespace infer {
namespace {

const OpRegistry& Ops() {
  static const OpRegistry ops = AllOps();
  return ops;
}

struct Case {
  const char* name;
  int64_t sequence, batch, transposes;
};

class AttentionCounts : public testing::TestWithParam<std::tuple<Case, size_t>> {};

TEST_P(AttentionCounts, AllAreFound) {
  const auto& [c, style] = GetParam();
  ZooOptions options{.batch = c.batch, .sequence = c.sequence, .layers = 2};
  options.style = static_cast<ZooStyle>(style);
  auto model = MakeZooModel(c.name, options, Ops());
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto report = Optimize(model->graph);
  ASSERT_TRUE(report.ok()) << report.status().message();
  const auto count = [&](const std::string& op) {
    const auto it = report->after.operators.find(op);
    return it == report->after.operators.end() ? int64_t{0} : it->second;
  };
  EXPECT_EQ(count("Attention"), 2);
  EXPECT_EQ(count("Softmax"), 0);
  EXPECT_LE(count("Transpose"), c.transposes);
  for (const auto& n : model->graph.nodes()) {
    if (!n->Is("Attention")) continue;
    EXPECT_EQ(n->Attr<int64_t>("q_num_heads"), 12);
    EXPECT_EQ(n->Attr<int64_t>("kv_num_heads"), 12);
    EXPECT_NEAR(n->Attr<float>("scale"), 0.125f, 1e-6);  // some write two roots of it
    EXPECT_EQ(n->Attr<int64_t>("is_causal"), std::string_view(c.name) == "gpt2-small");
    EXPECT_EQ(n->input(4) != nullptr, std::string_view(c.name) == "gpt2-small-kv");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, AttentionCounts,
    testing::Combine(testing::Values(Case{"bert-base", 8, 1, 0}, Case{"vit-b16", 0, 1, 1},
                                     Case{"gpt2-small", 8, 1, 0}, Case{"gpt2-small-kv", 1, 1, 0}),
                     testing::Range(size_t{0}, kZooStyles.size())),
    [](const auto& info) {
      std::string name =
          Cat(std::get<0>(info.param).name, "_", kZooStyles[std::get<1>(info.param)]);
      for (char& c : name)
        if (c == '-') c = '_';
      return name;
    });

}  // namespace
}  // namespace infer
