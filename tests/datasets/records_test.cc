#include "datasets/readers/records.h"

#include <gmock/gmock.h>

#include "datasets/readers/labels.h"
#include "tests/datasets/test_files.h"

namespace infer {
namespace {

using ::infer::testing::FromHex;
using ::infer::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Tensor> Idx(std::string bytes) {
  INFER_ASSIGN(const StoredArray a, ParseIdx(DataBytes::OfMemory(std::move(bytes), "f")));
  return a.Load();
}

TEST(Idx, ReadsBigEndianElements) {
  const Result<Tensor> u8 = Idx(FromHex("00000802000000020000000301020304050a"));
  ASSERT_TRUE(u8.ok()) << u8.status().message();
  EXPECT_TRUE(BitEqual(*u8, Tensor::Of<uint8_t>({2, 3}, {1, 2, 3, 4, 5, 10})));
  const Result<Tensor> f32 = Idx(FromHex("00000d01000000013fc00000"));
  ASSERT_TRUE(f32.ok());
  EXPECT_TRUE(BitEqual(*f32, Tensor::Of<float>({1}, {1.5f})));
  const Result<Tensor> i16 = Idx(FromHex("00000b0100000001fffe"));
  ASSERT_TRUE(i16.ok());
  EXPECT_TRUE(BitEqual(*i16, Tensor::Of<int16_t>({1}, {-2})));
}

#ifdef INFER_HAVE_ZLIB
TEST(Idx, ReadsGzip) {
  // gzip of 00 00 08 01 00 00 00 02 07 09
  const Result<Tensor> t =
      Idx(FromHex("1f8b08000000000002036360e0606460606062e704007a8201a30a000000"));
  ASSERT_TRUE(t.ok()) << t.status().message();
  EXPECT_TRUE(BitEqual(*t, Tensor::Of<uint8_t>({2}, {7, 9})));
}
#endif

TEST(Idx, RefusesHostileFiles) {
  for (const char* bad :
       {"", "000008", "00000801", "0000080100000005aa", "01000801000000010a", "00000701000000010a",
        "00000800", "000008ff", "00000803ffffffffffffffffffffffff00", "1f8b0800ff"}) {
    const Status s = Idx(FromHex(bad)).status();
    EXPECT_EQ(s.code(), Code::kInvalidModel) << bad << ": " << s.message();
  }
}

TEST(Cifar, ImagesAndLabelsInterleaved) {
  const TempDir dir;
  std::string ten, hundred;
  for (int i = 0; i < 2; ++i) {
    ten += static_cast<char>(3 + i);
    ten += std::string(3072, static_cast<char>(i + 10));
    hundred += '\1';
    hundred += static_cast<char>(50 + i);
    hundred += std::string(3072, static_cast<char>(i + 20));
  }
  for (const auto& [bytes, label, pixel] : {std::tuple(ten, 3, 10), std::tuple(hundred, 50, 20)}) {
    const auto f = OpenCifar(dir.Write("x.bin", bytes));
    ASSERT_TRUE(f.ok()) << f.status().message();
    EXPECT_THAT(f->labels.Load()->ToInts(), ElementsAre(label, label + 1));
    EXPECT_THAT(f->images.dims, ElementsAre(2, 3, 32, 32));
    EXPECT_EQ(f->images.LoadRow(1)->data<uint8_t>()[3071], pixel + 1);
    EXPECT_EQ(f->images.Load()->data<uint8_t>()[0], pixel);
  }
  EXPECT_THAT(OpenCifar(dir.Write("y.bin", "abc")).status().message(), HasSubstr("CIFAR records"));
}

TEST(Labels, Csv) {
  struct Case {
    std::string text;
    std::vector<int64_t> labels;
    std::vector<std::string> files;
  };
  for (const Case& c :
       {Case{"3\n1\n\n", {3, 1}, {}}, Case{"label\r\n3\r\n1\r\n", {3, 1}, {}},
        Case{"file,label\na.png,3\nb.png,0", {3, 0}, {"a.png", "b.png"}},
        Case{"a.png,3\nb.png,0", {3, 0}, {"a.png", "b.png"}},
        Case{"label,file\n4,\"a,\"\"b\"\".png\"\n", {4}, {"a,\"b\".png"}},
        Case{"index,label\n0,7\n1,8\n", {7, 8}, {}}, Case{"image,class\nx.jpg,7\n", {7}, {"x.jpg"}},
        Case{"\xEF\xBB\xBFlabel\n1\n", {1}, {}}}) {
    const auto t = ParseLabelCsv(c.text, "l.csv");
    ASSERT_TRUE(t.ok()) << c.text << t.status().message();
    EXPECT_EQ(t->labels, c.labels) << c.text;
    EXPECT_EQ(t->files, c.files) << c.text;
  }
  for (const auto& [text, message] :
       {std::pair("", "no labels"), std::pair("label\n", "no labels"),
        std::pair("1\nx\n", "row 2: 'x'"), std::pair("1\n-1\n", "row 2"),
        std::pair("a,1\nb\n", "1 columns, expected 2"), std::pair("\"a,1", "quote")})
    EXPECT_THAT(ParseLabelCsv(text, "l.csv").status().message(), HasSubstr(message)) << text;
}

}  // namespace
}  // namespace infer
