/// ImageDecoder: pixel formats, and what a stream that is no image gives. The formats of files are
/// the business of tests/lib/image.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lib/ops/run_op.h"

namespace infer {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

OpResult Decode(std::string_view file, const std::string& format) {
  Tensor x(DType::kU8, {static_cast<int64_t>(file.size())});
  std::copy(file.begin(), file.end(), reinterpret_cast<char*>(x.mutable_raw()));
  return RunOp("ImageDecoder", {{"pixel_format", format}}, {x});
}

TEST(ImageDecoder, ColoursInEveryPixelFormat) {
  const auto file = "P6 2 1 255 \xe2\x51\xfb\1\2\3"sv;
  EXPECT_THAT(Decode(file, "RGB").y().ToInts(), ElementsAre(226, 81, 251, 1, 2, 3));
  EXPECT_THAT(Decode(file, "BGR").y().ToInts(), ElementsAre(251, 81, 226, 3, 2, 1));
  EXPECT_THAT(Decode(file, "Grayscale").y().ToInts(), ElementsAre(144, 2));
  EXPECT_EQ(Decode(file, "BGR").y().dims(), (Dims{1, 2, 3}));
  EXPECT_EQ(Decode(file, "Grayscale").y().dims(), (Dims{1, 2, 1}));
}

TEST(ImageDecoder, GreyInEveryPixelFormat) {
  const auto file = "P5 1 2 255 \5\6"sv;
  EXPECT_THAT(Decode(file, "RGB").y().ToInts(), ElementsAre(5, 5, 5, 6, 6, 6));
  EXPECT_THAT(Decode(file, "BGR").y().ToInts(), ElementsAre(5, 5, 5, 6, 6, 6));
  EXPECT_THAT(Decode(file, "Grayscale").y().ToInts(), ElementsAre(5, 6));
}

TEST(ImageDecoder, RgbIsTheDefault) {
  const Tensor x =
      Tensor::Of<uint8_t>({11}, {'P', '2', ' ', '1', ' ', '1', ' ', '5', ' ', '1', ' '});
  const OpResult r = RunOp("ImageDecoder", {}, {x});
  ASSERT_TRUE(r.status.ok()) << r.status.message();
  EXPECT_THAT(r.y().ToInts(), ElementsAre(51, 51, 51));
}

TEST(ImageDecoder, WhatIsBrokenIsAnEmptyMatrix) {
  const auto file = "P6 1 2 255 \1\2\3\4\5\6"sv;
  for (size_t n = 0; n < file.size(); ++n) {
    const OpResult r = Decode(file.substr(0, n), "BGR");
    ASSERT_TRUE(r.status.ok()) << r.status.message();
    EXPECT_EQ(r.y().dims(), (Dims{0, 0, 3})) << n;
  }
  EXPECT_EQ(Decode("GIF89a", "Grayscale").y().dims(), (Dims{0, 0, 1}));
}

TEST(ImageDecoder, WhatIsBeyondUsIsAnError) {
  const Status webp = Decode("RIFF\4\0\0\0WEBPVP8 "sv, "RGB").status;
  EXPECT_EQ(webp.code(), Code::kUnsupported);
  EXPECT_THAT(webp.message(), HasSubstr("a WebP image"));
  const Status huge = Decode("P5 1000000 1000000 255 ", "RGB").status;
  EXPECT_EQ(huge.code(), Code::kResource);
  EXPECT_THAT(huge.message(), HasSubstr("the limit is"));
}

TEST(ImageDecoder, InferenceKnowsTheChannelsAndChecks) {
  const ValueType file = TensorType{DType::kU8, Shape({Dim()})};
  const Inferred grey = InferOp("ImageDecoder", {file}, {{"pixel_format", "Grayscale"s}});
  ASSERT_TRUE(grey.status.ok());
  EXPECT_EQ(grey.types[0].tensor().shape.dims()[2], Dim(1));
  EXPECT_THAT(InferOp("ImageDecoder", {file}, {{"pixel_format", "RGBA"s}}).status.message(),
              HasSubstr("pixel_format is 'RGBA'"));
  const ValueType matrix = TensorType{DType::kU8, Shape({Dim(), Dim()})};
  EXPECT_FALSE(InferOp("ImageDecoder", {matrix}).status.ok());
  const ValueType floats = TensorType{DType::kF32, Shape({Dim()})};
  EXPECT_FALSE(InferOp("ImageDecoder", {floats}).status.ok());
}

}  // namespace
}  // namespace infer
