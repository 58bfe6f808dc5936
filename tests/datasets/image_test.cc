#include "datasets/readers/image.h"

#include <gmock/gmock.h>

#include "tests/datasets/test_files.h"

namespace infer {
namespace {

using ::infer::testing::Fold31;
using ::infer::testing::FromHex;
using ::testing::HasSubstr;

#ifdef INFER_HAVE_PNG
const std::string_view kGreyPng =
    "89504e470d0a1a0a0000000d4948445200000008000000060800000000db6e80270000002349444154789c63"
    "64608700465e0e0860e1e58400165e2e0860e1e58600165e1e0800002d9a01e3ee621f790000000049454e44"
    "ae426082";
const std::string_view kRgbaPng =
    "89504e470d0a1a0a0000000d4948445200000008000000060806000000fe05dffb0000004d49444154789c75"
    "c5d10d80200c40418da515ca4b2124feb988fb0fe600c0c7e5cee3fd0e33bbcc4c560ba0772eb223806547b2"
    "93560ba085967604308f963c867a8c6901b446d3da87d6fe4c7ec1f007f0870aae920000000049454e44ae42"
    "6082";
const std::string_view kPalettePng =
    "89504e470d0a1a0a0000000d4948445200000008000000060203000000836b37680000000c504c544570a3c2"
    "496f94315170153250589717220000001b49444154789c63f8ff8be1df528657a10c2b0318a632304c610400"
    "4fd006fffbe255a80000000049454e44ae426082";
#endif
#ifdef INFER_HAVE_JPEG
const std::string_view kJpeg =
    "ffd8ffe000104a46494600010100000100010000ffdb00430003020203020203030303040303040508050504"
    "04050a070706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f1718161418121415"
    "14ffdb00430103040405040509050509140d0b0d141414141414141414141414141414141414141414141414"
    "1414141414141414141414141414141414141414141414141414ffc000110800060008030122000211010311"
    "01ffc4001f0000010501010101010100000000000000000102030405060708090a0bffc400b5100002010303"
    "020403050504040000017d01020300041105122131410613516107227114328191a1082342b1c11552d1f024"
    "33627282090a161718191a25262728292a3435363738393a434445464748494a535455565758595a63646566"
    "6768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7"
    "b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffc400"
    "1f0100030101010101010101010000000000000102030405060708090a0bffc400b511000201020404030407"
    "05040400010277000102031104052131061241510761711322328108144291a1b1c109233352f0156272d10a"
    "162434e125f11718191a262728292a35363738393a434445464748494a535455565758595a63646566676869"
    "6a737475767778797a82838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6b7b8b9"
    "bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9faffda000c030100"
    "02110311003f00e23e09fecf7a4eab0472ce632aabb88dbce00cd14515df9fe6189c04a9470d2e5e64dbd13e"
    "be699f012949cdab9fffd9";
#endif

struct Decoded {
  std::string_view hex;
  int64_t channels;
  uint32_t fold;  // of Pillow's decoded bytes: 31 h + byte
};

class Images : public ::testing::TestWithParam<Decoded> {};

TEST_P(Images, SameBytesAsPillow) {
  const Result<Tensor> t = DecodeImage(FromHex(GetParam().hex), "f");
  ASSERT_TRUE(t.ok()) << t.status().message();
  EXPECT_EQ(t->dims(), (Dims{6, 8, GetParam().channels}));
  EXPECT_EQ(Fold31(t->data<uint8_t>()), GetParam().fold);
}

TEST_P(Images, EveryTruncationAndManyFlipsAreSurvived) {
  const std::string good = FromHex(GetParam().hex);
  for (size_t n = 0; n + 1 < good.size(); ++n) {
    const Result<Tensor> t = DecodeImage(std::string_view(good).substr(0, n), "f");
    if (n + 20 < good.size()) {
      EXPECT_FALSE(t.ok()) << n;
    }
  }
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x41);
    ReadLimits limits;
    limits.max_pixels = 1 << 16;
    const Result<Tensor> t = DecodeImage(bytes, "f", limits);
    if (!t.ok()) {
      EXPECT_NE(t.status().code(), Code::kInternal);
    }
  }
}

#ifdef INFER_HAVE_PNG
INSTANTIATE_TEST_SUITE_P(Png, Images,
                         ::testing::Values(Decoded{kGreyPng, 1, 72939108},
                                           Decoded{kRgbaPng, 3, 992348320},
                                           Decoded{kPalettePng, 3, 1409974964}));

TEST(Image, HugeHeadersAreRefusedBeforeAllocation) {
  std::string bytes = FromHex(kGreyPng);
  ReadLimits limits;
  limits.max_pixels = 47;
  EXPECT_THAT(DecodeImage(bytes, "f", limits).status().message(), HasSubstr("8 x 6 pixels"));
}
#endif
#ifdef INFER_HAVE_JPEG
INSTANTIATE_TEST_SUITE_P(Jpeg, Images, ::testing::Values(Decoded{kJpeg, 3, 3028208879}));

TEST(Image, HugeJpegIsRefusedBeforeAllocation) {
  std::string bytes = FromHex(kJpeg);
  const size_t sof = bytes.find("\xff\xc0");
  for (int i = 0; i < 4; ++i) bytes[sof + 5 + static_cast<size_t>(i)] = '\x7f';
  EXPECT_THAT(DecodeImage(bytes, "f").status().message(), HasSubstr("32639 x 32639 pixels"));
}
#endif

TEST(Image, OtherFormatsAreNamed) {
  EXPECT_EQ(DecodeImage("GIF89a", "f").status().code(), Code::kInvalidModel);
  EXPECT_TRUE(IsImagePath("a/b.JPEG"));
  EXPECT_FALSE(IsImagePath("a/b.npy"));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Images);

}  // namespace
}  // namespace infer
