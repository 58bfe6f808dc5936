/// infer.hpp, the C++ header over the C API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <stdexcept>
#include <vector>

#include "runtime/c_api/infer.hpp"

namespace c_api_cpp_test {
namespace {

namespace api = infer::api;
using testing::HasSubstr;

const std::string kDigits = INFER_SOURCE_DIR "/datasets/demo/digits.onnx";
const std::string kSmall = INFER_SMALL_MODEL;  // the same interface, a hundredth of the cost
const std::vector<int64_t> kDims = {1, 1, 32, 32};

std::vector<float> ImageOf(size_t i) {
  std::vector<float> image(1024);
  for (size_t p = 0; p < image.size(); ++p)
    image[p] = std::sin(0.01F * static_cast<float>(p * (1 + i % 3)));
  return image;
}

/// Images that a reader writes over with each call.
struct Source {
  api::Samples samples(size_t count) {
    return {count, [this](size_t i) -> api::Result<std::vector<api::Tensor>> {
              if (fails) return api::Status(INFER_IO, "the disk is gone");
              if (throws) throw std::domain_error("no such image");
              image = ImageOf(i);
              return std::vector<api::Tensor>(inputs, api::Tensor(image, kDims));
            }};
  }
  std::vector<float> image;
  bool fails = false, throws = false;
  size_t inputs = 1;
};

TEST(CppApi, LoadsRunsAndTells) {
  const api::Model model = api::Model::Load(kDigits).value();
  ASSERT_EQ(model.inputs().size(), 1U);
  EXPECT_EQ(model.inputs()[0].dims.back(), 32);
  EXPECT_NE(model.inputs()[0].symbols.front(), "");
  EXPECT_EQ(model.outputs()[0].dtype, INFER_F32);
  EXPECT_EQ(model.warnings(), "");
  api::SessionOptions options;
  options.threads = 1;
  api::Session session = api::Session::Make(model, options).value();
  const std::vector<float> image = ImageOf(0);
  const api::Outputs outputs = session.Run({api::Tensor(image, kDims)}).value();
  ASSERT_EQ(outputs.size(), 1U);
  const api::Tensor scores = outputs.at(0).value();
  EXPECT_EQ(scores.dims().size(), 2U);
  EXPECT_EQ(scores.as<float>().value().size(), 10U);
  EXPECT_EQ(scores.as<double>().status().code(), INFER_INVALID_ARGUMENT);
  EXPECT_EQ(outputs.at(1).status().code(), INFER_INVALID_ARGUMENT);
  std::promise<std::vector<float>> told;
  const api::Tensor input(image, kDims);
  session
      .Submit({&input, 1},
              [&](api::Result<api::Outputs> o) {
                const auto numbers = o.value().at(0).value().as<float>().value();
                told.set_value({numbers.begin(), numbers.end()});
              })
      .Check();
  const auto want = scores.as<float>().value();
  EXPECT_THAT(told.get_future().get(), testing::ElementsAreArray(want));
}

TEST(CppApi, FailuresAreStatusOrError) {
  const auto missing = api::Model::Load("/no/such.onnx");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), INFER_IO);
  EXPECT_THAT(missing.status().message(), HasSubstr("/no/such.onnx"));
  try {
    (void)missing.value();
    FAIL();
  } catch (const api::Error& e) {
    EXPECT_EQ(e.code(), INFER_IO);
    EXPECT_THAT(e.what(), HasSubstr("/no/such.onnx"));
  }
  api::Model model = api::Model::Load(kDigits).value();
  EXPECT_EQ(model.Fuse(9).code(), INFER_INVALID_ARGUMENT);
  EXPECT_THROW(model.Fuse(-1).Check(), api::Error);
  api::Session session = api::Session::Make(model).value();
  std::vector<double> wrong(1024);
  EXPECT_EQ(session.Run({api::Tensor(wrong, kDims)}).status().code(), INFER_INVALID_ARGUMENT);
  bool is_told = false;
  EXPECT_TRUE(session.Submit({}, [&](const auto& o) { is_told = !o.ok(); }).ok());
  { const api::Session ended = std::move(session); }
  EXPECT_TRUE(is_told);
}

TEST(CppApi, QuantizesPrunesAndCompares) {
  const api::Model golden = api::Model::Load(kSmall).value();
  api::Model model = api::Model::Load(kSmall).value();
  Source source;
  const api::Samples samples = source.samples(16);
  api::QuantizeOptions options;
  options.recipe = "fast";
  EXPECT_GT(model.Quantize(samples, options).value().integer_layers, 0);
  const auto accuracy = api::Compare(golden, model, samples).value();
  ASSERT_EQ(accuracy.size(), 1U);
  EXPECT_EQ(accuracy[0].name, golden.outputs()[0].name);
  EXPECT_GT(accuracy[0].numbers.sqnr_db, 10);
  api::Model four = api::Model::Load(kSmall).value();
  api::QuantizeOptions weights;
  weights.mode = "weight-only";
  EXPECT_GT(four.Quantize(weights).value().integer_layers, 0);
  api::Model sparse = api::Model::Load(kSmall).value();
  api::PruneOptions half;
  half.sparsity = 0.5;
  EXPECT_GT(sparse.Prune(samples, half).value().zeros, 0);
  EXPECT_EQ(sparse.Prune(api::PruneOptions()).status().code(), INFER_INVALID_ARGUMENT);
}

TEST(CppApi, SamplesThatFail) {
  api::Model model = api::Model::Load(kSmall).value();
  const size_t nodes = model.nodes();
  Source source;
  api::Samples samples = source.samples(16);
  source.fails = true;
  EXPECT_EQ(model.Quantize(samples).status().code(), INFER_IO);
  EXPECT_EQ(model.Quantize(samples).status().message(), "the disk is gone");
  source.fails = false;
  source.throws = true;
  EXPECT_THROW((void)model.Quantize(samples), std::domain_error);
  source.throws = false;
  source.inputs = 2;
  EXPECT_THAT(model.Quantize(samples).status().message(), HasSubstr("has 2 inputs, the model 1"));
  source.inputs = 1;
  samples.SetLabels({1, 2, 3});
  EXPECT_THAT(model.Quantize(samples).status().message(), HasSubstr("3 labels of 16 samples"));
  EXPECT_EQ(model.nodes(), nodes);
  const std::vector<float> image = ImageOf(0);
  const api::Samples held(std::vector<std::vector<api::Tensor>>(12, {api::Tensor(image, kDims)}));
  EXPECT_TRUE(model.Quantize(held).ok());
}

}  // namespace
}  // namespace c_api_cpp_test
