#include "tools/zoo/zoo.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <map>

#include "lib/ir/eval.h"
#include "lib/ir/verify.h"
#include "lib/ops/registry.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using ::testing::HasSubstr;

const OpRegistry& Ops() {
  static const OpRegistry* ops = new OpRegistry(AllOps());
  return *ops;
}

/// "Add=8 Conv=20 ...".
std::string Histogram(const Graph& g) {
  std::map<std::string, int> count;
  for (const auto& n : g.nodes()) ++count[std::string(n->op())];
  std::vector<std::string> items;
  for (const auto& [op, n] : count) items.push_back(Cat(op, "=", n));
  return Join(items, " ");
}

/// What tests/judge/zoo_equals_torch.py wrote from torch's own exports.
std::map<std::string, std::string> TorchHistograms() {
  std::ifstream file(INFER_SOURCE_DIR "/tests/tools/zoo/torch_histograms.txt");
  std::map<std::string, std::string> all;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    all[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return all;
}

class Zoo : public ::testing::TestWithParam<std::string_view> {};

TEST_P(Zoo, OperatorsAreTorchs) {
  if (GetParam().ends_with("-int4")) GTEST_SKIP() << "torch exports no MatMulNBits";
  const Result<Model> m = MakeZooModel(GetParam(), {}, Ops());
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_EQ(Histogram(m->graph), TorchHistograms()[std::string(GetParam())]);
  EXPECT_EQ(m->info.opsets.at(""), 14);
  const Status verified = Verify(m->graph);
  EXPECT_TRUE(verified.ok()) << verified.message();
  for (const Value* v : m->graph.outputs()) EXPECT_TRUE(v->shape().is_static()) << v->name();
}

/// Inputs of a run: tokens 0 ... 99 and all-ones masks, images and caches from a normal
/// distribution.
std::vector<Datum> InputsOf(const Graph& g) {
  std::vector<Datum> inputs;
  Random random(1);
  for (const Value* v : g.inputs()) {
    Tensor t(v->dtype(), v->shape().static_dims());
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      if (v->dtype() == DType::kF32)
        t.Set(i, random.Normal());
      else
        t.SetInt(i, v->name() == "input_ids"   ? random.Below(100)
                    : v->name() == "seqlens_k" ? 3
                                               : v->name() == "attention_mask");
    }
    inputs.emplace_back(std::move(t));
  }
  return inputs;
}

/// Of a size that reference kernels run in seconds.
ZooOptions SmallOptions(std::string_view name) {
  ZooOptions o;
  for (const ZooModel& m : ZooModels())
    if (m.name == name) {
      if (m.resolution > 0) o.resolution = 64;
      if (m.sequence > 1) o.sequence = 8;
      if (m.open_sequence) o.sequence = 3;
    }
  o.past = 5;
  if (o.resolution == 0 || name == "vit-b16") o.layers = 2;
  return o;
}

TEST_P(Zoo, ActivationsNeitherVanishNorExplode) {
  if (GetParam() == "vgg16") GTEST_SKIP() << "31 GFLOP on reference kernels; it has no small size";
  if (GetParam() == "qwen2-0.5b-int4")
    GTEST_SKIP() << "the code of tinyllama-1.1b-int4, 5 times its vocabulary";
  const Result<Model> m = MakeZooModel(GetParam(), SmallOptions(GetParam()), Ops());
  ASSERT_TRUE(m.ok()) << m.status().message();
  const std::vector<Datum> inputs = InputsOf(m->graph);
  const Result<std::vector<Datum>> outputs = Evaluate(m->graph, inputs);
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  for (const Datum& d : *outputs) {
    double sum = 0, squares = 0;
    const std::vector<float> x = d.tensor().ToFloats();
    for (const float v : x) {
      ASSERT_TRUE(std::isfinite(v));
      sum += static_cast<double>(v);
      squares += static_cast<double>(v) * static_cast<double>(v);
    }
    const double n = static_cast<double>(x.size());
    const double deviation = std::sqrt(squares / n - sum / n * sum / n);
    EXPECT_GT(deviation, 0.02);
    EXPECT_LT(deviation, GetParam() == "yolo" ? 2000 : 20);  // yolo answers in pixels
  }
}

std::vector<std::string_view> Names() {
  std::vector<std::string_view> names;
  for (const ZooModel& m : ZooModels()) names.push_back(m.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, Zoo, ::testing::ValuesIn(Names()), [](const auto& info) {
  std::string name(info.param);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

/// The same network and weights, spelled as other exporters do.
TEST_P(Zoo, EveryStyleComputesTheSame) {
  if (GetParam().ends_with("-int4")) GTEST_SKIP() << "written in one style only";
  if (GetParam() == "vgg16") GTEST_SKIP() << "no style of its own: Conv, Relu, MaxPool and Gemm";
  ZooOptions o = SmallOptions(GetParam());
  std::vector<Datum> inputs, golden;
  for (size_t style = 0; style < kZooStyles.size(); ++style) {
    o.style = static_cast<ZooStyle>(style);
    const Result<Model> m = MakeZooModel(GetParam(), o, Ops());
    ASSERT_TRUE(m.ok()) << m.status().message();
    const Status verified = Verify(m->graph);
    ASSERT_TRUE(verified.ok()) << verified.message();
    if (style == 0) {
      inputs = InputsOf(m->graph);
      for (size_t i = 0; i < inputs.size(); ++i)  // a token that is not seen
        if (m->graph.inputs()[i]->name() == "attention_mask") inputs[i].tensor().SetInt(3, 0);
    }
    Result<std::vector<Datum>> outputs = Evaluate(m->graph, inputs);
    ASSERT_TRUE(outputs.ok()) << kZooStyles[style] << ": " << outputs.status().message();
    if (style == 0) golden = *std::move(outputs);
    for (size_t i = 0; style > 0 && i < golden.size(); ++i) {
      const Tensor &a = golden[i].tensor(), &b = (*outputs)[i].tensor();
      ASSERT_EQ(a.dims(), b.dims());
      double worst = 0, largest = 0;
      for (int64_t e = 0; e < a.num_elements(); ++e) {
        worst = std::max(worst, std::abs(a.At(e) - b.At(e)));
        largest = std::max(largest, std::abs(a.At(e)));
      }
      EXPECT_LE(worst, 2e-4 * largest) << kZooStyles[style] << ", output " << i;
    }
  }
}

TEST(ZooOptionsTest, BatchResolutionSequenceAndSeed) {
  const auto make = [](std::string_view name, const ZooOptions& o) {
    Result<Model> m = MakeZooModel(name, o, Ops());
    EXPECT_TRUE(m.ok()) << m.status().message();
    return *std::move(m);
  };
  const Model free = make("resnet18", {.batch = 0, .resolution = 96});
  EXPECT_EQ(free.graph.inputs()[0]->shape().ToString(), "[batch,3,96,96]");
  EXPECT_EQ(free.graph.outputs()[0]->shape().ToString(), "[batch,1000]");
  const Model bert = make("bert-base", {.batch = 3, .sequence = 7, .layers = 1});
  EXPECT_EQ(bert.graph.outputs()[0]->shape().ToString(), "[3,7,768]");
  const Model step = make("gpt2-small-kv", {.batch = 2, .past = 9, .layers = 1});
  EXPECT_EQ(step.graph.FindValue("present.0.key")->shape().ToString(), "[2,12,10,64]");
  // A target of a Reshape that says 0 copies an extent: of a flattened operand it is another one.
  const Model open = make("gpt2-small", {.batch = 0, .sequence = 5, .layers = 1});
  const Result<std::vector<Datum>> two =
      Evaluate(open.graph, std::vector<Datum>{Tensor::Zeros(DType::kI64, {2, 5})});
  ASSERT_TRUE(two.ok()) << two.status().message();
  EXPECT_EQ((*two)[0].tensor().dims(), (Dims{2, 5, 50257}));
  const Model a = make("squeezenet1.1", {.seed = 1}), b = make("squeezenet1.1", {.seed = 1}),
              c = make("squeezenet1.1", {.seed = 2});
  EXPECT_EQ(Fingerprint(a.graph), Fingerprint(b.graph));
  EXPECT_NE(Fingerprint(a.graph), Fingerprint(c.graph));
}

/// One step with caches that grow, and with caches of a fixed length that have room: the same
/// weights, so the same logits.
TEST(ZooInt4, BothCachesGiveTheSameLogits) {
  constexpr int64_t kPast = 6;
  const Model grown = *MakeZooModel("gpt2-small-kv-int4", {.past = kPast, .layers = 1}, Ops());
  const Model fixed = *MakeZooModel("gpt2-small-gqa-int4", {.past = kPast + 3, .layers = 1}, Ops());
  std::vector<Datum> inputs = InputsOf(grown.graph), more = InputsOf(fixed.graph);
  more[0] = inputs[0];
  more[1] = Tensor::Of<int64_t>({1, 1}, {kPast});
  more[2] = Tensor::Of<int32_t>({1}, {kPast});
  for (size_t c : {1, 2}) {
    Tensor& cache = more[c + 2].tensor();
    for (int64_t head = 0; head < 12; ++head)
      for (int64_t i = 0; i < kPast * 64; ++i)
        cache.Set(head * (kPast + 3) * 64 + i, inputs[c].tensor().At(head * kPast * 64 + i));
  }
  const auto want = Evaluate(grown.graph, inputs), got = Evaluate(fixed.graph, more);
  ASSERT_TRUE(want.ok() && got.ok()) << got.status().message();
  for (int64_t i = 0; i < 50257; ++i)
    ASSERT_NEAR((*got)[0].tensor().At(i), (*want)[0].tensor().At(i), 1e-4) << i;
}

TEST(ZooOptionsTest, WhatDoesNotFitIsRefused) {
  struct Case {
    std::string_view name;
    ZooOptions options;
    std::string message;
  };
  for (const Case& c : {Case{"resnet", {}, "there are resnet18, resnet50"},
                        Case{"vgg16", {.resolution = 64}, "multiple of 224"},
                        Case{"vit-b16", {.resolution = 100}, "no multiple"},
                        Case{"vit-b16", {.batch = 0}, "one batch size"},
                        Case{"yolo", {.resolution = 100}, "no multiple"},
                        Case{"bert-base", {.sequence = 513}, "512 positions"},
                        Case{"gpt2-small-kv", {.past = 1024}, "1024 positions"},
                        Case{"bert-base", {.resolution = 224}, "has no resolution"},
                        Case{"resnet18", {.sequence = 8}, "has no sequence"},
                        Case{"resnet18", {.batch = -1}, "batch -1"},
                        Case{"squeezenet1.1", {.resolution = 4}, "squeezenet1.1"}}) {
    const Result<Model> m = MakeZooModel(c.name, c.options, Ops());
    ASSERT_FALSE(m.ok()) << c.name << c.message;
    EXPECT_THAT(m.status().message(), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace infer
