#include "datasets/dataset.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "datasets/readers/inflate.h"
#include "datasets/readers/npy.h"
#include "tests/datasets/test_files.h"

namespace infer {
namespace {

using ::infer::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Bytes(const Tensor& t) { return *NpyBytes(t); }

TEST(Dataset, BatchesOfAnArray) {
  const TempDir dir;
  const auto x = dir.Write("x.npy", Bytes(Tensor::Of<uint8_t>({3, 2}, {1, 2, 3, 4, 5, 6})));
  const auto y = dir.Write("y.npy", Bytes(Tensor::Of<int32_t>({3}, {7, 8, 9})));
  const Result<Dataset> d = OpenDataset({.data = x, .labels = y, .preprocess = "scale=10"});
  ASSERT_TRUE(d.ok()) << d.status().message();
  EXPECT_EQ(d->size(), 3);
  const int64_t indices[] = {2, 0};
  const Result<Batch> b = d->Read(indices);
  ASSERT_TRUE(b.ok());
  EXPECT_TRUE(BitEqual(b->inputs[0].second, Tensor::Of<float>({2, 2}, {50, 60, 10, 20})));
  EXPECT_EQ(b->inputs[0].first, "");
  EXPECT_THAT(b->labels, ElementsAre(9, 7));
  EXPECT_EQ(*d->SampleHash(1), *d->SampleHash(1));
  EXPECT_NE(*d->SampleHash(1), *d->SampleHash(2));
}

TEST(Dataset, ColumnMajorArraysToo) {
  const TempDir dir;
  const auto x =
      dir.Write("x.npy", testing::Npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}",
                                      std::string("\1\4\2\5\3\6", 6)));
  const Result<Dataset> d = OpenDataset({.data = x});
  ASSERT_TRUE(d.ok());
  EXPECT_TRUE(
      BitEqual(d->ReadRange(1, 1)->inputs[0].second, Tensor::Of<uint8_t>({1, 3}, {4, 5, 6})));
}

TEST(Dataset, MissingFolderIsNamed) {
  EXPECT_THAT(OpenDataset({.data = "no_such_folder"}).status().message(),
              HasSubstr("no_such_folder: no such file or folder"));
}

TEST(Dataset, RawNeedsItsType) {
  const TempDir dir;
  const auto x = dir.Write("x.raw", "abcdef");
  EXPECT_THAT(OpenDataset({.data = x}).status().message(), HasSubstr("unknown kind"));
  const Result<Dataset> d = OpenDataset({.data = x, .raw_type = "u8[3]"});
  ASSERT_TRUE(d.ok());
  EXPECT_EQ(d->size(), 2);
  EXPECT_FALSE(d->has_labels());
}

TEST(Dataset, WhatDoesNotFitIsRefused) {
  const TempDir dir;
  const auto x = dir.Write("x.npy", Bytes(Tensor::Zeros(DType::kU8, {3, 2})));
  const auto two = dir.Write("two.csv", "1\n2\n");
  EXPECT_THAT(OpenDataset({.data = x, .labels = two}).status().message(),
              HasSubstr("2 labels for 3 samples"));
  const auto files = dir.Write("files.csv", "a.png,1\n");
  EXPECT_THAT(OpenDataset({.data = x, .labels = files}).status().message(),
              HasSubstr("names files"));
  const auto scalar = dir.Write("s.npy", Bytes(Tensor::Scalar<float>(1)));
  EXPECT_THAT(OpenDataset({.data = scalar}).status().message(), HasSubstr("is a scalar"));
  const auto none = dir.Write("n.npy", Bytes(Tensor::Zeros(DType::kU8, {0, 2})));
  EXPECT_FALSE(OpenDataset({.data = none}).ok());
  EXPECT_EQ(OpenDataset({.data = dir.Path("absent.npy")}).status().code(), Code::kIo);
  EXPECT_THAT(OpenDataset({.data = dir.path()}).status().message(),
              AllOf(HasSubstr("no .png"), HasSubstr(".npz of one array per input name")));
  dir.Write("labels.csv", "../x.png,1\n");
  EXPECT_THAT(OpenDataset({.data = dir.path()}).status().message(), HasSubstr("leaves the folder"));
  dir.Write("labels.csv", "x.png,1\n");
  EXPECT_THAT(OpenDataset({.data = dir.path()}).status().message(), HasSubstr("is not in"));
  EXPECT_THAT(OpenDataset({.data = x, .preprocess = "a=b"}).status().message(),
              HasSubstr("unknown key"));
}

TEST(Dataset, SplitIsDisjointCompleteAndFixed) {
  const Result<DataSplit> s = SplitSamples(10, 4, 7);
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->calib.size(), 4u);
  std::set<int64_t> all(s->calib.begin(), s->calib.end());
  all.insert(s->eval.begin(), s->eval.end());
  EXPECT_EQ(all.size(), 10u);
  EXPECT_EQ(SplitSamples(10, 4, 7)->calib, s->calib);
  EXPECT_NE(SplitSamples(1000, 400, 7)->calib, SplitSamples(1000, 400, 8)->calib);
  EXPECT_EQ(SplitSamples(9, 0, 1)->calib.size(), 4u);
  EXPECT_EQ(SplitSamples(5000, 0, 1)->calib.size(), 1000u);
  EXPECT_FALSE(SplitSamples(1, 0, 1).ok());
  EXPECT_FALSE(SplitSamples(5, 5, 1).ok());
  EXPECT_FALSE(SplitSamples(0, 0, 1).ok());
}

TEST(Dataset, SharedSamplesAreFound) {
  const TempDir dir;
  const auto a = dir.Write("a.npy", Bytes(Tensor::Of<uint8_t>({3, 1}, {1, 2, 3})));
  const auto b = dir.Write("b.npy", Bytes(Tensor::Of<uint8_t>({3, 1}, {3, 4, 3})));
  EXPECT_EQ(*CountShared(*OpenDataset({.data = a}), *OpenDataset({.data = b})), 2);
  EXPECT_EQ(*CountShared(*OpenDataset({.data = b}), *OpenDataset({.data = a})), 1);
}

TEST(Demo, PartsAreDisjointAndWhatTheReadmeSays) {
  const std::string root = INFER_SOURCE_DIR "/datasets/demo/";
  const auto open = [&](const std::string& part) {
    return OpenDataset({.data = root + part + "_images.npy",
                        .labels = root + part + "_labels.csv",
                        .preprocess = "resize=32,interp=nearest,scale=1/255,layout=nchw"});
  };
  const Result<Dataset> train = open("train"), calib = open("calib"), eval = open("eval");
  ASSERT_TRUE(train.ok() && calib.ok() && eval.ok()) << eval.status().message();
  EXPECT_EQ(train->size(), 997);
  EXPECT_EQ(calib->size(), 200);
  EXPECT_EQ(eval->size(), 600);
  EXPECT_EQ(*CountShared(*calib, *eval), 0);
  EXPECT_EQ(*CountShared(*train, *eval), 0);
  EXPECT_EQ(*CountShared(*train, *calib), 0);
  const Result<Batch> b = eval->ReadRange(0, 2);
  ASSERT_TRUE(b.ok());
  EXPECT_EQ(b->inputs[0].second.dims(), (Dims{2, 1, 32, 32}));
  for (int64_t digit = 0; digit < 10; ++digit)
    EXPECT_GT(std::count(eval->labels().begin(), eval->labels().end(), digit), 40) << digit;
}

/// Against NumPy and Pillow on real data: CRC-32 of the bytes that they compute.
class RealData : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* root = std::getenv("INFER_TEST_DATA");
    if (!root) GTEST_SKIP() << "INFER_TEST_DATA is not set";
    root_ = std::string(root) + "/labelled/";
    if (!std::filesystem::is_directory(root_)) GTEST_SKIP() << root_ << " is not there";
  }
  uint32_t Crc(const DataOptions& o, int64_t count) {
    const Result<Dataset> d = OpenDataset(o);
    EXPECT_TRUE(d.ok()) << d.status().message();
    if (!d.ok()) return 0;
    const Result<Batch> b = d->ReadRange(0, std::min(count, d->size()));
    EXPECT_TRUE(b.ok()) << b.status().message();
    if (!b.ok()) return 0;
    const auto bytes = b->inputs[0].second.bytes();
    return Crc32({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  std::string root_;
};

TEST_F(RealData, Cifar) {
  EXPECT_EQ(Crc({.data = root_ + "cifar10_dev_images_u8_nhwc.npy",
                 .labels = root_ + "cifar10_dev_labels.npy",
                 .preprocess = "mean=.4914:.4822:.4465,std=.2023:.1994:.2010,scale=1/255,"
                               "layout=nchw"},
                1000),
            1510418756u);
}

TEST_F(RealData, Mnist) {
  const std::string images = root_ + "mnist_dev_images_u8.npy";
  EXPECT_EQ(Crc({.data = images, .preprocess = "layout=nchw,dtype=f32"}, 5000), 4193701418u);
  EXPECT_EQ(Crc({.data = images, .preprocess = "scale=1/255,shape=784x1"}, 5000), 1293393966u);
}

TEST_F(RealData, ImageNet) {
  EXPECT_EQ(Crc({.data = root_ + "imagenet_dev_256x256_u8_nhwc.npy",
                 .labels = root_ + "imagenet_dev_labels.npy",
                 .preprocess = "crop=224,order=bgr,mean=103.939:116.779:123.68,layout=nchw"},
                20),
            2970582353u);
}

#ifdef INFER_HAVE_JPEG
TEST_F(RealData, JpegFolder) {
  EXPECT_EQ(
      Crc({.data = root_ + "imagenet_jpeg", .preprocess = "resize=278,crop=256,order=rgb"}, 10),
      772730060u);
}
#endif

}  // namespace
}  // namespace infer
