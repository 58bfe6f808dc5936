/// PNG and JPEG. The files were written by Pillow (JPEG) or byte by byte (PNG); the folds are of
/// the pixels that Pillow decodes.
#include <gtest/gtest.h>

#include "lib/image/decode.h"
#include "lib/support/strings.h"
#include "tests/datasets/test_files.h"

namespace infer {
namespace {

using ::infer::testing::Fold31;
using ::infer::testing::FromHex;

/// Cut anywhere and with any byte changed: pixels or a Status, and quickly.
[[maybe_unused]] void ExpectSurvivesDamage(const std::string& good) {
  for (size_t n = 0; n < good.size(); ++n)
    (void)DecodePixels(std::string_view(good).substr(0, n), "f", 1 << 16).ok();
  for (size_t i = 0; i < good.size(); ++i)
    for (const int flip : {0x01, 0x41, 0xff}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      const Result<Tensor> t = DecodePixels(bytes, "f", 1 << 16);
      EXPECT_NE(t.status().code(), Code::kInternal) << i;
    }
}

#ifdef INFER_HAVE_PNG
const std::string_view kGrey16WithGamma =
    "89504e470d0a1a0a0000000d49484452000000080000000610000000008bfe5c640000000467414d41000186"
    "a031e8965f000000714944415478da01660099ff0000001fff3ffe5ffd7ffc9ffbbffadff90001f521f441f3"
    "61f281f1a1f0c1efe1ee0003ea23e943e863e783e6a3e5c3e4e3e30005df25de45dd65dc85dba5dac5d9e5d8"
    "0007d427d347d267d187d0a7cfc7cee7cd0009c929c849c769c689c5a9c4c9c3e9c266bb3ef29156e45e0000"
    "000049454e44ae426082";
const std::string_view kInterlaced =
    "89504e470d0a1a0a0000000d49484452000000080000000608020000010660783a000000a74944415478da01"
    "9c0063ff000000ff00781caf0004a0ff7cbcaf003c0ed7b42a870040aed7b8ca87000250ff3e5ed77a6cafb6"
    "7a87001e07eb5a15c396239bd23173002057eb5c65c398739bd481730022a7eb5eb5c39ac39bd6d173000128"
    "ff1f2feb3d36d75b3dc37944af974b9bb55287d35973000378ff217feb3f86d75d8dc37b94af999b9bb7a287"
    "d5a9730005c8ff23cfeb41d6d75fddc37de4af9beb9bb9f287d7f973afc84e313a4392cb0000000049454e44"
    "ae426082";
const std::string_view kGreyAlpha =
    "89504e470d0a1a0a0000000d4948445200000008000000060804000000540c1770000000714944415478da01"
    "660099ff0000ff1ee13cc35aa578879669b44bd22d0001ff1fe13dc35ba579879769b54bd32d0002ff20e13e"
    "c35ca57a879869b64bd42d0003ff21e13fc35da57b879969b74bd52d0004ff22e140c35ea57c879a69b84bd6"
    "2d0005ff23e141c35fa57d879b69b94bd72d91fd3049024f648b0000000049454e44ae426082";
const std::string_view kPalette2 =
    "89504e470d0a1a0a0000000d4948445200000008000000060203000000836b37680000000c504c5445010203"
    "323c46090807fffefd956ac3d10000000274524e5300809b2b4e18000000174944415478da63909666c8c961"
    "d8b891e1d83106301b002b47050bb3d07da30000000049454e44ae426082";

/// Pixel (x, y) of an image of 8 x 6 pixels, channel c.
template <typename F>
void ExpectPixels(std::string_view hex, int64_t channels, F expected) {
  const Result<Tensor> t = DecodePixels(FromHex(hex), "f");
  ASSERT_TRUE(t.ok()) << t.status().message();
  ASSERT_EQ(t->dims(), (Dims{6, 8, channels}));
  for (int y = 0, i = 0; y < 6; ++y)
    for (int x = 0; x < 8; ++x)
      for (int c = 0; c < channels; ++c, ++i)
        ASSERT_EQ(t->IntAt(i), expected(x, y, c)) << x << " " << y << " " << c;
}

TEST(Png, SixteenBitsLoseTheLowByteWhateverGammaIsStored) {
  ExpectPixels(kGrey16WithGamma, 1, [](int x, int y, int) { return (x * 8191 + y * 501) >> 8; });
}

TEST(Png, InterlacedIsPutInOrder) {
  ExpectPixels(kInterlaced, 3, [](int x, int y, int c) {
    return c == 0 ? x * 30 + y : c == 1 ? x * 7 + y * 40 : 255 - x * 20;
  });
}

TEST(Png, AlphaIsDroppedNotBlended) {
  ExpectPixels(kGreyAlpha, 1, [](int x, int y, int) { return x * 30 + y; });
}

TEST(Png, PaletteOfTwoBitsWithTransparency) {
  constexpr int kColours[4][3] = {{1, 2, 3}, {50, 60, 70}, {9, 8, 7}, {255, 254, 253}};
  ExpectPixels(kPalette2, 3, [&](int x, int y, int c) { return kColours[(x + y) % 4][c]; });
}

TEST(Png, DamageIsSurvived) {
  for (const auto hex : {kGrey16WithGamma, kInterlaced, kGreyAlpha, kPalette2})
    ExpectSurvivesDamage(FromHex(hex));
}

TEST(Png, PixelsThatAreMissingAreAnError) {
  const std::string good = FromHex(kInterlaced);
  // 24 bytes: the last of the data's, their checksum, IEND.
  for (size_t n = 4; n + 24 < good.size(); ++n)
    EXPECT_EQ(DecodePixels(std::string_view(good).substr(0, n), "f").status().code(),
              Code::kInvalidModel)
        << n;
}

TEST(Png, TheLimitIsNotABrokenFile) {
  const Status s = DecodePixels(FromHex(kInterlaced), "f", 47).status();
  EXPECT_EQ(s.code(), Code::kResource);
  EXPECT_EQ(s.message(), "f: 8 x 6 pixels; the limit is 47");
  EXPECT_TRUE(DecodePixels(FromHex(kInterlaced), "f", 48).ok());
}
#else
TEST(Png, IsRefusedByName) {
  EXPECT_EQ(DecodePixels("\x89PNG\r\n", "f").status().code(), Code::kUnsupported);
}
#endif

#ifdef INFER_HAVE_JPEG
const std::string_view kProgressive =
    "ffd8ffe000104a46494600010100000100010000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f1320151312"
    "1213271c1e17202e2931302e292d2c333a4a3e333646372c2d405741464c4e525352323e5a615a50604a5152"
    "4fffdb0043010e0e0e131113261515264f352d354f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f"
    "4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4f4fffc200110800060008030122000211010311"
    "01ffc4001500010100000000000000000000000000000003ffc4001501010100000000000000000000000000"
    "000203ffda000c03010002100310000001a098ffc40017100003010000000000000000000000000000010304"
    "ffda000801010001050296747fffc400191100010500000000000000000000000000000203041231ffda0008"
    "010301013f018ee2a9a7ffc4001811000203000000000000000000000000000002030413ffda000801020101"
    "3f01b523687fffc40014100100000000000000000000000000000000ffda0008010100063f027fffc4001610"
    "00030000000000000000000000000000002131ffda0008010100013f215e1fffda000c030100020003000000"
    "1003ffc4001511010100000000000000000000000000000011ffda0008010301013f108c7fffc40016110003"
    "0000000000000000000000000000001121ffda0008010201013f10614fffc400141001000000000000000000"
    "00000000000000ffda0008010100013f1013ffd9";
const std::string_view kGrey =
    "ffd8ffe000104a46494600010100000100010000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f1320151312"
    "1213271c1e17202e2931302e292d2c333a4a3e333646372c2d405741464c4e525352323e5a615a50604a5152"
    "4fffc0000b080006000801011100ffc40014000100000000000000000000000000000004ffc4001910000105"
    "00000000000000000000000000000305062232ffda0008010100003f00434c750ae4ffd9";
const std::string_view kCmyk =
    "ffd8ffee000e41646f626500640000000000ffdb0043001b12141714111b1716171e1c1b2028422b28252528"
    "513a3d3042605565645f555d5b6a7899816a7190735b5d85b586909ea3abadab6780bcc9baa6c799a8aba4ff"
    "c000140800060008044311004d11005911004b1100ffc4001600010101000000000000000000000000000305"
    "06ffc4001a100002020300000000000000000000000000050103324161ffda000e0443004d0059004b00003f"
    "00143188d422ab85169b34c7ffd9";

TEST(Jpeg, ProgressiveAndGreyAreWhatPillowReads) {
  const Result<Tensor> colours = DecodePixels(FromHex(kProgressive), "f");
  ASSERT_TRUE(colours.ok()) << colours.status().message();
  EXPECT_EQ(colours->dims(), (Dims{6, 8, 3}));
  EXPECT_EQ(Fold31(colours->data<uint8_t>()), 1300861887u);
  const Result<Tensor> grey = DecodePixels(FromHex(kGrey), "f");
  ASSERT_TRUE(grey.ok()) << grey.status().message();
  EXPECT_EQ(grey->dims(), (Dims{6, 8, 1}));
  EXPECT_EQ(Fold31(grey->data<uint8_t>()), 1725238582u);
}

TEST(Jpeg, FourInksAreRefused) {
  const Status s = DecodePixels(FromHex(kCmyk), "f").status();
  EXPECT_EQ(s.code(), Code::kUnsupported);
  EXPECT_EQ(s.message(), "f: a CMYK JPEG; convert it to RGB");
}

TEST(Jpeg, DamageIsSurvived) {
  for (const auto hex : {kProgressive, kGrey, kCmyk}) ExpectSurvivesDamage(FromHex(hex));
}

TEST(Jpeg, TruncationIsAnError) {
  for (const auto hex : {kProgressive, kGrey}) {
    const std::string good = FromHex(hex);
    for (size_t n = 2; n + 2 < good.size(); ++n)
      EXPECT_EQ(DecodePixels(std::string_view(good).substr(0, n), "f").status().code(),
                Code::kInvalidModel)
          << n;
  }
}

TEST(Jpeg, ExtentsOfNothingAndHugeOnes) {
  std::string bytes = FromHex(kGrey);
  const size_t sof = bytes.find("\xff\xc0");
  bytes.replace(sof + 5, 4, "\x7f\x7f\x7f\x7f");
  EXPECT_EQ(DecodePixels(bytes, "f").status().code(), Code::kResource);
  bytes.replace(sof + 5, 4, 4, '\0');
  EXPECT_EQ(DecodePixels(bytes, "f").status().code(), Code::kInvalidModel);
}
#else
TEST(Jpeg, IsRefusedByName) {
  EXPECT_EQ(DecodePixels("\xff\xd8\xff", "f").status().code(), Code::kUnsupported);
}
#endif

}  // namespace
}  // namespace infer
