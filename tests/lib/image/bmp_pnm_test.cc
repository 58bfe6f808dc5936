/// BMP and PNM, from files that are put together here, and formats that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/image/decode.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace std::string_literals;
using namespace std::string_view_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> Pixels(std::string_view bytes, const Dims& dims) {
  const Result<Tensor> t = DecodePixels(bytes, "f");
  EXPECT_TRUE(t.ok()) << t.status().message();
  if (!t.ok()) return {};
  EXPECT_EQ(t->dims(), dims);
  return t->ToInts();
}

Status StatusOf(std::string_view bytes, int64_t max_pixels = kMaxPixels) {
  return DecodePixels(bytes, "f", max_pixels).status();
}

std::string Little(uint32_t value, int bytes = 4) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i);
  return out;
}

struct BmpFile {
  int32_t width, height;
  uint32_t bits;
  std::string palette = "", rows = "";
  uint32_t compression = 0, colours = 0, header = 40;
  int64_t offset = -1;  // of the rows, where not behind the palette

  std::string Bytes() const {
    std::string info = Little(header);
    if (header == 12) {
      info += Little(static_cast<uint32_t>(width), 2) + Little(static_cast<uint32_t>(height), 2);
      info += Little(1, 2) + Little(bits, 2);
    } else {
      info += Little(static_cast<uint32_t>(width)) + Little(static_cast<uint32_t>(height));
      info += Little(1, 2) + Little(bits, 2) + Little(compression) + std::string(12, '\0');
      info += Little(colours) + std::string(4, '\0');
    }
    const auto at = static_cast<uint32_t>(
        offset >= 0 ? offset : static_cast<int64_t>(14 + info.size() + palette.size()));
    return Cat("BM", Little(0), Little(0), Little(at), info, palette, rows);
  }
};

const BmpFile kRgb{2, 2, 24, "", "\1\2\3\4\5\6\0\0\7\10\11\12\13\14\0\0"s};
const BmpFile kPalette{5, 2, 4, "\1\2\3\0\4\5\6\0\7\7\7\0"s, "\0\1\x20\0\x21\0\x10\0"s, 0, 3};

TEST(Bmp, RowsRunUpwardsUnlessTheHeightIsNegative) {
  EXPECT_THAT(Pixels(kRgb.Bytes(), {2, 2, 3}), ElementsAre(9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4));
  BmpFile down = kRgb;
  down.height = -2;
  EXPECT_THAT(Pixels(down.Bytes(), {2, 2, 3}), ElementsAre(3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10));
}

TEST(Bmp, PalettesAreColoursOrGrey) {
  EXPECT_THAT(Pixels(kPalette.Bytes(), {2, 5, 3}),
              ElementsAre(7, 7, 7, 6, 5, 4, 3, 2, 1, 3, 2, 1, 6, 5, 4,  //
                          3, 2, 1, 3, 2, 1, 3, 2, 1, 6, 5, 4, 7, 7, 7));
  const BmpFile bits{10, 1, 1, "\0\0\0\0\xff\xff\xff\0"s, "\xa0\x40\0\0"s};
  EXPECT_THAT(Pixels(bits.Bytes(), {1, 10, 1}), ElementsAre(255, 0, 255, 0, 0, 0, 0, 0, 0, 255));
  BmpFile old{1, 1, 1, "\1\2\3\4\5\6", "\x80\0\0\0"s};
  old.header = 12;
  EXPECT_THAT(Pixels(old.Bytes(), {1, 1, 3}), ElementsAre(6, 5, 4));
}

TEST(Bmp, SixteenAndThirtyTwoBits) {
  const BmpFile five{2, 1, 16, "", "\x1f\x7c\x01\x00"s};
  EXPECT_THAT(Pixels(five.Bytes(), {1, 2, 3}), ElementsAre(255, 0, 255, 0, 0, 8));
  // Green has six bits: 0x21 of 0x3f.
  const BmpFile six{1, 1, 16, Little(0xf800) + Little(0x7e0) + Little(0x1f), "\x20\x04\0\0"s, 3};
  EXPECT_THAT(Pixels(six.Bytes(), {1, 1, 3}), ElementsAre(0, 133, 0));
  const BmpFile alpha{1, 1, 32, "", "\1\2\3\x80"s};
  EXPECT_THAT(Pixels(alpha.Bytes(), {1, 1, 3}), ElementsAre(3, 2, 1));
  const BmpFile ten{1,
                    1,
                    32,
                    Little(0x3ff00000) + Little(0xffc00) + Little(0x3ff),
                    Little(0x3ff00000 | 0x200 << 10 | 1),
                    3};
  EXPECT_THAT(Pixels(ten.Bytes(), {1, 1, 3}), ElementsAre(255, 127, 0));
  const BmpFile none{1, 1, 32, std::string(12, '\0'), "\1\2\3\4", 3};
  EXPECT_THAT(Pixels(none.Bytes(), {1, 1, 3}), ElementsAre(0, 0, 0));
}

TEST(Bmp, EveryTruncationIsAnError) {
  for (const BmpFile& f : {kRgb, kPalette}) {
    const std::string good = f.Bytes();
    // The padding of the last row may be missing.
    for (size_t n = 0; n + 3 < good.size(); ++n)
      EXPECT_EQ(StatusOf(std::string_view(good).substr(0, n)).code(), Code::kInvalidModel) << n;
  }
}

TEST(Bmp, EveryByteMayBeAnything) {
  for (const BmpFile& f : {kRgb, kPalette})
    for (size_t i = 0; i < f.Bytes().size(); ++i)
      for (const int byte : {0, 1, 0x7f, 0x80, 0xff}) {
        std::string bytes = f.Bytes();
        bytes[i] = static_cast<char>(byte);
        EXPECT_NE(StatusOf(bytes, 1 << 16).code(), Code::kInternal);
      }
}

TEST(Bmp, ExtentsOfNothingAndHugeOnes) {
  for (const int32_t n : {0, -1, INT32_MIN}) {
    BmpFile f = kRgb;
    f.width = n;
    EXPECT_EQ(StatusOf(f.Bytes()).code(), Code::kInvalidModel) << n;
  }
  BmpFile f = kRgb;
  f.height = 0;
  EXPECT_EQ(StatusOf(f.Bytes()).code(), Code::kInvalidModel);
  for (const int32_t n : {INT32_MAX, INT32_MIN}) {
    f.width = INT32_MAX;
    f.height = n;
    EXPECT_EQ(StatusOf(f.Bytes()).code(), Code::kResource) << n;
  }
  f.width = f.height = 8192;  // under the limit, but not in the file
  EXPECT_THAT(StatusOf(f.Bytes()).message(), HasSubstr("8192 x 8192 pixels are not inside"));
}

TEST(Bmp, WhatHeadersSayIsChecked) {
  const auto broken = [](auto change) {
    BmpFile f = kPalette;
    change(f);
    return StatusOf(f.Bytes());
  };
  EXPECT_THAT(broken([](BmpFile& f) { f.colours = 2; }).message(), HasSubstr("beyond the palette"));
  EXPECT_THAT(broken([](BmpFile& f) { f.colours = 17; }).message(), HasSubstr("17 colours"));
  EXPECT_THAT(broken([](BmpFile& f) { f.colours = ~0u; }).message(), HasSubstr("colours"));
  EXPECT_THAT(broken([](BmpFile& f) { f.bits = 7; }).message(), HasSubstr("7 bits"));
  EXPECT_THAT(broken([](BmpFile& f) { f.header = 41; }).message(), HasSubstr("header of 41"));
  EXPECT_THAT(broken([](BmpFile& f) { f.offset = 0; }).message(), HasSubstr("not inside"));
  EXPECT_THAT(broken([](BmpFile& f) { f.offset = ~0u; }).message(), HasSubstr("not inside"));
  EXPECT_THAT(broken([](BmpFile& f) { f.compression = 3; }).message(), HasSubstr("compression 3"));
  EXPECT_EQ(broken([](BmpFile& f) { f.compression = 2; }).code(), Code::kUnsupported);
  EXPECT_EQ(broken([](BmpFile& f) { f.compression = 5; }).code(), Code::kUnsupported);
  const BmpFile gap{1, 1, 32, Little(5) + Little(0) + Little(0), "\1\2\3\4", 3};
  EXPECT_THAT(StatusOf(gap.Bytes()).message(), HasSubstr("a mask of 5"));
}

TEST(Pnm, TextAndBinaryAreTheSame) {
  for (const std::string_view f :
       {"P2 # a\n2 #b\r2\n255\n0 7\n9 255"sv, "P5\n2 2 255\n\0\7\11\xff"sv})
    EXPECT_THAT(Pixels(f, {2, 2, 1}), ElementsAre(0, 7, 9, 255));
  for (const std::string_view f : {"P3 1 2 255 1 2 3 4 5 6"sv, "P6 1 2 255 \1\2\3\4\5\6"sv})
    EXPECT_THAT(Pixels(f, {2, 1, 3}), ElementsAre(1, 2, 3, 4, 5, 6));
  for (const std::string_view f :
       {"P1 9 2\n100000001 0 1 0 0 0 0 0 0 0"sv, "P4 9 2\n\x80\xff\x40\0"sv})
    EXPECT_THAT(Pixels(f, {2, 9, 1}), ElementsAre(0, 255, 255, 255, 255, 255, 255, 255, 0,  //
                                                  255, 0, 255, 255, 255, 255, 255, 255, 255));
}

TEST(Pnm, OtherLargestValuesAreScaledToTheNearest) {
  EXPECT_THAT(Pixels("P2 4 1 3 0 1 2 3", {1, 4, 1}), ElementsAre(0, 85, 170, 255));
  EXPECT_THAT(Pixels("P5 3 1 65535 \0\0\x80\0\xff\xff"sv, {1, 3, 1}), ElementsAre(0, 128, 255));
  EXPECT_THAT(Pixels("P2 2 1 1000 999 2", {1, 2, 1}), ElementsAre(255, 1));
}

TEST(Pnm, EveryTruncationIsAnError) {
  for (const std::string_view good :
       {"P1 2 2 0110"sv, "P2 2 1 9 1 2"sv, "P3 1 1 9 1 2 3"sv, "P4 9 1\n\1\2"sv,
        "P5 2 1 255\n\1\2"sv, "P6 1 1 999\n\0\1\0\2\0\3"sv}) {
    ASSERT_TRUE(StatusOf(good).ok()) << good << ": " << StatusOf(good).message();
    for (size_t n = 0; n < good.size(); ++n)
      EXPECT_EQ(StatusOf(good.substr(0, n)).code(), Code::kInvalidModel) << good << " " << n;
    for (size_t i = 0; i < good.size(); ++i)
      for (const char c : {'\0', '0', '9', '#', '\n', '-', '\xff'}) {
        std::string bytes(good);
        bytes[i] = c;
        EXPECT_NE(StatusOf(bytes, 1 << 16).code(), Code::kInternal);
      }
  }
}

TEST(Pnm, WhatHeadersSayIsChecked) {
  for (const std::string_view f :
       {"P5 0 2 255 "sv, "P5 2 0 255 "sv, "P5 -1 2 255 "sv, "P5 1 1 0 \0"sv, "P5 1 1 65536 \0\0"sv,
        "P5 99999999999999999999 1 255 "sv, "P5 1 1 255"sv, "P2 1 1 9 10"sv, "P5 1 1 9 \x0a"sv,
        "P1 1 1 2"sv, "P2 1 1 255 x"sv, "P2 8192 8192 255 1 2 3"sv, "P5 1 1 #"sv, "P5 # 1 1 9 1"sv})
    EXPECT_EQ(StatusOf(f).code(), Code::kInvalidModel) << f;
  EXPECT_EQ(StatusOf("P5 1000000000 1000000000 255 ").code(), Code::kResource);
}

TEST(Formats, WhatIsNotDecodedIsNamed) {
  EXPECT_THAT(StatusOf("RIFF\4\0\0\0WEBPVP8 "sv).message(), HasSubstr("a WebP image"));
  EXPECT_THAT(StatusOf("\0\0\0\x0cjP  \r\n\x87\n\0"sv).message(), HasSubstr("a JPEG 2000 image"));
  EXPECT_THAT(StatusOf("\xff\x4f\xff\x51\0"sv).message(), HasSubstr("a JPEG 2000 image"));
  EXPECT_THAT(StatusOf("II*\0\10\0\0\0"sv).message(), HasSubstr("a TIFF image"));
  EXPECT_THAT(StatusOf("MM\0*\0\0\0\10"sv).message(), HasSubstr("a TIFF image"));
  EXPECT_THAT(StatusOf("P7\nWIDTH 1\n").message(), HasSubstr("a PAM image"));
  EXPECT_EQ(StatusOf("P7\nWIDTH 1\n").code(), Code::kUnsupported);
  for (const std::string_view f : {""sv, "B"sv, "P"sv, "P5"sv, "GIF89a"sv, "RIFF\4\0\0\0WAVE"sv})
    EXPECT_EQ(StatusOf(f).code(), Code::kInvalidModel) << f;
}

TEST(Luma, IsExactForGrey) {
  for (int i = 0; i < 256; ++i) {
    const auto v = static_cast<uint8_t>(i);
    EXPECT_EQ(Luma(v, v, v), v);
  }
  EXPECT_EQ(Luma(226, 81, 251), 144);
}

}  // namespace
}  // namespace infer
