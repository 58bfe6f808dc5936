#include "datasets/preprocess.h"

#include <gmock/gmock.h>

#include "datasets/resize.h"
#include "tests/datasets/test_files.h"

namespace infer {
namespace {

using ::infer::testing::Fold31;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Pixel (y, x, c) = (7x + 13y + 29c + xy(c + 1)) mod 256.
Tensor TestImage(int64_t h, int64_t w) {
  Tensor t(DType::kU8, {h, w, 3});
  auto out = t.mutable_data<uint8_t>();
  size_t i = 0;
  for (int64_t y = 0; y < h; ++y)
    for (int64_t x = 0; x < w; ++x)
      for (int64_t c = 0; c < 3; ++c)
        out[i++] = static_cast<uint8_t>(7 * x + 13 * y + 29 * c + x * y * (c + 1));
  return t;
}

Tensor Do(std::string_view text, const Tensor& t) {
  const Result<Preprocess> p = ParsePreprocess(text);
  EXPECT_TRUE(p.ok()) << p.status().message();
  const Result<Tensor> out = Apply(*p, t);
  EXPECT_TRUE(out.ok()) << text << ": " << out.status().message();
  return out.ok() ? *out : Tensor();
}

TEST(Preprocess, TextRoundTrip) {
  for (const char* text :
       {"", "flatten", "scale=2", "scale=1", "mean=0.5", "dtype=f16", "shape=784x1",
        "source=chw,resize=256,interp=bicubic,crop=224x200,order=bgr,mean=1:2:3,std=4:5:6,"
        "layout=nchw,dtype=f32"}) {
    const Result<Preprocess> p = ParsePreprocess(text);
    ASSERT_TRUE(p.ok()) << p.status().message();
    EXPECT_EQ(p->ToString(), text);
    EXPECT_EQ(p->empty(), std::string_view(text).empty());
  }
  EXPECT_EQ(ParsePreprocess(" scale = 1/4 , flatten ")->ToString(), "scale=0.25,flatten");
}

TEST(Preprocess, ErrorsNameTheKey) {
  for (const auto& [text, message] :
       {std::pair("crop=0", "'crop=0': expected S or HxW"),
        std::pair("crop=1x2x3", "expected S or HxW"), std::pair("crop", "write crop=VALUE"),
        std::pair("resize=99999999", "expected S or HxW"), std::pair("size=3", "unknown key"),
        std::pair("crop=3,crop=4", "'crop=4': given twice"), std::pair("order=rbg", "one of rgb"),
        std::pair("std=1:0:1", "'std=1:0:1': expected numbers other than 0"),
        std::pair("mean=1:b", "numbers joined"), std::pair("scale=1/0", "fraction"),
        std::pair("scale=nan", "fraction"), std::pair("dtype=f33", "element type"),
        std::pair("flatten=1", "takes no value"), std::pair("flatten,shape=3", "exclude"),
        std::pair("layout=chw", "one of nhwc"), std::pair(",", "unknown key")}) {
    const Status s = ParsePreprocess(text).status();
    EXPECT_EQ(s.code(), Code::kInvalidArgument) << text;
    EXPECT_THAT(s.message(), HasSubstr(message));
  }
}

struct Resized {
  Preprocess::Interp interp;
  int64_t height, width;
  uint32_t fold;
};

TEST(Preprocess, ResizeIsPillows) {
  using I = Preprocess::Interp;
  // Pillow 9.4: Image.fromarray(TestImage(37, 53)).resize((width, height), filter).
  for (const Resized& r : {Resized{I::kBilinear, 20, 20, 649840296u},
                           {I::kBilinear, 64, 80, 1103565354u},
                           {I::kBilinear, 5, 53, 2831274034u},
                           {I::kBilinear, 37, 9, 1511252972u},
                           {I::kBilinear, 1, 1, 126111u},
                           {I::kBicubic, 20, 20, 697383212u},
                           {I::kBicubic, 64, 80, 1856299516u},
                           {I::kBicubic, 5, 53, 2015026957u},
                           {I::kBicubic, 37, 9, 232700430u},
                           {I::kBicubic, 1, 1, 126111u},
                           {I::kNearest, 20, 20, 1121769688u},
                           {I::kNearest, 64, 80, 3297908608u},
                           {I::kNearest, 5, 53, 1128510597u},
                           {I::kNearest, 37, 9, 1065284613u},
                           {I::kNearest, 1, 1, 114693u}}) {
    const Tensor t = ResizeImage(TestImage(37, 53), r.height, r.width, r.interp);
    EXPECT_EQ(Fold31(t.data<uint8_t>()), r.fold)
        << static_cast<int>(r.interp) << " " << r.height << "x" << r.width;
  }
}

TEST(Preprocess, GreyIsPillows) {
  EXPECT_EQ(Fold31(Do("order=grey", TestImage(37, 53)).data<uint8_t>()), 4097110073u);
}

TEST(Preprocess, ShorterSideAndCentre) {
  EXPECT_THAT(Do("resize=20", TestImage(37, 53)).dims(), ElementsAre(20, 28, 3));
  EXPECT_THAT(Do("resize=20", TestImage(53, 37)).dims(), ElementsAre(28, 20, 3));
  EXPECT_THAT(Do("resize=10x30", TestImage(53, 37)).dims(), ElementsAre(10, 30, 3));
  const Tensor t = Do("crop=2x4", TestImage(5, 7));
  EXPECT_THAT(t.dims(), ElementsAre(2, 4, 3));
  EXPECT_EQ(t.data<uint8_t>()[0], 7 * 1 + 13 * 1 + 1);  // row (5-2)/2, column (7-4)/2
}

TEST(Preprocess, NormaliseAfterOrderThenLayout) {
  const Tensor t = Do("order=bgr,mean=1:2:3,std=2:4:8,scale=1/2,layout=nchw",
                      Tensor::Of<uint8_t>({1, 2, 3}, {10, 20, 30, 40, 50, 60}));
  EXPECT_THAT(t.dims(), ElementsAre(3, 1, 2));
  EXPECT_THAT(t.data<float>(), ElementsAre(7, 14.5f, 2, 5.75f, 0.25f, 2.125f));
}

TEST(Preprocess, SourcePlanesAreFound) {
  const Tensor chw = Do("layout=nchw", TestImage(4, 5));
  EXPECT_THAT(chw.dims(), ElementsAre(3, 4, 5));
  EXPECT_TRUE(BitEqual(Do("layout=nhwc", chw), TestImage(4, 5)));
  EXPECT_THAT(Do("mean=1:2:3", chw).dims(), ElementsAre(3, 4, 5));  // layout stays
  EXPECT_THAT(Do("source=chw,layout=nhwc", Tensor::Zeros(DType::kU8, {3, 4, 3})).dims(),
              ElementsAre(4, 3, 3));
  EXPECT_THAT(Do("layout=nchw", Tensor::Zeros(DType::kU8, {28, 27})).dims(),
              ElementsAre(1, 28, 27));
}

TEST(Preprocess, TypesAndShapes) {
  const Tensor x = Tensor::Of<uint8_t>({2, 2}, {0, 1, 254, 255});
  EXPECT_EQ(Do("scale=1/255", x).data<float>()[1], static_cast<float>(1.0 / 255));
  EXPECT_EQ(Do("scale=1/255,dtype=f64", x).data<double>()[2], 254.0 * (1.0 / 255));
  EXPECT_THAT(Do("scale=2,dtype=u8", x).data<uint8_t>(), ElementsAre(0, 2, 255, 255));
  EXPECT_EQ(Do("dtype=f16", x).dtype(), DType::kF16);
  EXPECT_THAT(Do("flatten", x).dims(), ElementsAre(4));
  EXPECT_THAT(Do("shape=4x1", x).dims(), ElementsAre(4, 1));
  EXPECT_THAT(Do("flatten", Tensor::Zeros(DType::kF32, {2, 3, 4, 5})).dims(), ElementsAre(120));
  EXPECT_TRUE(BitEqual(Do("", x), x));
  EXPECT_THAT(Do("order=rgb", x).dims(), ElementsAre(2, 2, 3));
}

TEST(Preprocess, SamplesThatDoNotFit) {
  for (const auto& [text, dims, message] :
       {std::tuple("crop=9", Dims{8, 9, 3}, "smaller than crop=9x9"),
        std::tuple("crop=1", Dims{9}, "is no image"),
        std::tuple("mean=1:2", Dims{4, 4, 3}, "3 channels, but mean or std has 2"),
        std::tuple("order=bgr", Dims{4, 4, 5}, "neither 1 nor 3 channels"),
        std::tuple("shape=5", Dims{4}, "cannot take shape"),
        std::tuple("resize=65536", Dims{1, 60000, 3}, "too narrow"),
        std::tuple("resize=4", Dims{0, 4, 3}, "no pixels")}) {
    const Status s = Apply(*ParsePreprocess(text), Tensor::Zeros(DType::kU8, dims)).status();
    EXPECT_EQ(s.code(), Code::kInvalidModel) << text;
    EXPECT_THAT(s.message(), HasSubstr(message));
  }
  EXPECT_FALSE(Apply(*ParsePreprocess("resize=4"), Tensor::Zeros(DType::kF32, {5, 5, 3})).ok());
  EXPECT_FALSE(Apply(*ParsePreprocess("scale=2"), Tensor::OfStrings({1}, {"a"})).ok());
}

}  // namespace
}  // namespace infer
