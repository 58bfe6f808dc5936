#include "datasets/readers/npy.h"

#include <gmock/gmock.h>

#include "datasets/readers/inflate.h"
#include "datasets/readers/npz.h"
#include "lib/support/strings.h"
#include "tests/datasets/test_files.h"

namespace infer {
namespace {

using ::infer::testing::FromHex;
using ::infer::testing::Npy;
using ::infer::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<Tensor> Load(std::string bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  INFER_ASSIGN(const StoredArray a, ParseNpy(DataBytes::OfMemory(std::move(bytes), "f"), 0, size));
  return a.Load();
}

TEST(Npy, WritesWhatItReads) {
  for (const Tensor& t :
       {Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, -0.5f}), Tensor::Scalar<int64_t>(7),
        Tensor::Zeros(DType::kU8, {0, 4}), Tensor::Of<bool>({2}, {true, false}),
        Tensor::Of<double>({1, 1, 2}, {1e300, -1})}) {
    const Result<std::string> bytes = NpyBytes(t);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ((bytes->size() - static_cast<size_t>(t.byte_size())) % 64, 0u);
    const Result<Tensor> back = Load(*bytes);
    ASSERT_TRUE(back.ok()) << back.status().message();
    EXPECT_TRUE(BitEqual(*back, t)) << ToString(t);
  }
  EXPECT_EQ(NpyBytes(Tensor::Zeros(DType::kBF16, {1})).status().code(), Code::kUnsupported);
}

TEST(Npy, Texts) {
  const Tensor t =
      Tensor::OfStrings({2, 2}, {"a", "", "na\u00efve \U0001f600", std::string("b\0c", 3)});
  const Result<std::string> bytes = NpyBytes(t);
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_THAT(*bytes, HasSubstr("'<U7'"));
  const Result<Tensor> back = Load(*bytes);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(ToString(back->dims()), "[2,2]");
  EXPECT_THAT(back->strings(),
              ElementsAre("a", "", "na\u00efve \U0001f600", std::string("b\0c", 3)));
  const auto size = static_cast<int64_t>(bytes->size());
  const auto row = ParseNpy(DataBytes::OfMemory(*bytes, "f"), 0, size)->LoadRow(1);
  EXPECT_THAT(row->strings(), ElementsAre("na\u00efve \U0001f600", std::string("b\0c", 3)));
  EXPECT_EQ(NpyBytes(Tensor::OfStrings({1}, {"\xff"})).status().code(), Code::kUnsupported);
}

TEST(Npy, TextsOfOtherForms) {
  const auto load = [](std::string_view rest, std::string data) {
    return Load(Npy(Cat("{'descr': '", rest, "}"), std::move(data)));
  };
  const auto bytes =
      load("|S2', 'fortran_order': True, 'shape': (2, 2)", std::string("a\0bcd\0\0\0", 8));
  ASSERT_TRUE(bytes.ok()) << bytes.status().message();
  EXPECT_THAT(bytes->strings(), ElementsAre("a", "d", "bc", ""));
  const auto big =
      load(">U1', 'fortran_order': False, 'shape': (1,)", std::string("\0\0\0\xe9", 4));
  ASSERT_TRUE(big.ok()) << big.status().message();
  EXPECT_THAT(big->strings(), ElementsAre("\u00e9"));
  for (const auto& [rest, data] :
       {std::pair{"<U1', 'fortran_order': False, 'shape': (1,)", "\1\1\1\1"},
        std::pair{"|S1', 'fortran_order': False, 'shape': (1,)", "\xff"},
        std::pair{"<U2', 'fortran_order': False, 'shape': (1,)", "abcd"},
        std::pair{"<U0', 'fortran_order': False, 'shape': (9,)", ""},
        std::pair{"<Ux', 'fortran_order': False, 'shape': (1,)", "abcd"}})
    EXPECT_EQ(load(rest, data).status().code(), Code::kInvalidModel) << rest;
}

TEST(Npy, ColumnMajorAndBigEndian) {
  const std::string fortran = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n";
  const Result<Tensor> f = Load(Npy(fortran, std::string("\1\4\2\5\3\6", 6)));
  ASSERT_TRUE(f.ok()) << f.status().message();
  EXPECT_TRUE(BitEqual(*f, Tensor::Of<uint8_t>({2, 3}, {1, 2, 3, 4, 5, 6})));
  const std::string big = "{\"shape\": (2,), \"descr\": \">i2\", \"fortran_order\": False}";
  const Result<Tensor> b = Load(Npy(big, std::string("\1\2\xff\xfe", 4)));
  ASSERT_TRUE(b.ok()) << b.status().message();
  EXPECT_TRUE(BitEqual(*b, Tensor::Of<int16_t>({2}, {258, -2})));
}

TEST(Npy, VersionsTwoAndThree) {
  const std::string header = "{'descr': '|i1', 'fortran_order': False, 'shape': (1,)}";
  for (const char version : {'\2', '\3'}) {
    std::string bytes("\x93NUMPY", 6);
    bytes += version;
    bytes += std::string("\0", 1);
    bytes += static_cast<char>(header.size());
    bytes += std::string("\0\0\0", 3) + header + "\5";
    const Result<Tensor> t = Load(bytes);
    ASSERT_TRUE(t.ok()) << t.status().message();
    EXPECT_TRUE(BitEqual(*t, Tensor::Of<int8_t>({1}, {5})));
  }
}

TEST(Npy, AnyByteIsABool) {
  const Result<Tensor> t =
      Load(Npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,)}", std::string("\7\0", 2)));
  ASSERT_TRUE(t.ok());
  EXPECT_TRUE(BitEqual(*t, Tensor::Of<bool>({2}, {true, false})));
}

TEST(Npy, RefusesHostileFiles) {
  struct Case {
    std::string bytes, message;
    Code code = Code::kInvalidModel;
  };
  const auto with = [](std::string_view descr, std::string_view shape) {
    return Npy(Cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", shape, "}"),
               "12345678");
  };
  const Case cases[] = {
      {with("|O", "(1,)"), "pickle"},
      {with("|V4", "(1,)"), "'|V4'", Code::kUnsupported},
      {with("|V2", "(1,)"), "'|V2'", Code::kUnsupported},
      {with("<f4", "(3,)"), "truncated"},
      {with("<f4", "(4611686018427387904, 4)"), "impossible extents"},
      {with("<f4", "(99999999999999999999,)"), "shape"},
      {with("<f4", "(-1,)"), "shape"},
      {with("<f4", "(1,"), "shape"},
      {with("|u1", "(" + std::string(80, '1') + ")"), "shape"},
      {with("|u1", "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"), "rank"},
      {Npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "1234"),
       "structured"},
      {Npy("{'descr': '<f4', 'shape': (1,)}", "1234"), "missing"},
      {Npy("{'descr': '<f4', 'descr': '<f4', 'shape': (1,)}", "1234"), "unexpected key"},
      {Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "1234"), "after"},
      {std::string("\x93NUMPY\1\0\xff\xff{", 11), "too short"},
      {std::string("\x93NUMPY\1\0\xff\xff{}", 12), "truncated header"},
      {std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12), "header of"},
      {std::string("\x93NUMPY\4\0\2\0{}", 12), "version 4"},
      {"not numpy at all", "no magic"},
      {"", "too short"},
  };
  for (const Case& c : cases) {
    const Status s = Load(c.bytes).status();
    EXPECT_EQ(s.code(), c.code) << c.message << ": " << s.message();
    EXPECT_THAT(s.message(), HasSubstr(c.message));
    EXPECT_THAT(s.message(), ::testing::StartsWith("f: "));
  }
}

// Written by numpy.savez_compressed(x=arange(6, float32).reshape(3, 2), labels=[2, 0, 1]).
const std::string_view kCompressed =
    "504b030414000000080000002100ccca9cbd550000009800000005001400782e6e7079010010009800000000"
    "00000055000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f5452"
    "9498179f5f94920a12774bcc294e058a17672416a402f91ac63a0a469a3a0ab50a64032e063068b007120e40"
    "04c40d40bcc00100504b0304140000000800000021008a1ace134a000000980000000a0014006c6162656c73"
    "2e6e70790100100098000000000000004a000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5"
    "a06e9369a1aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91ac63a9a3a0ab50a"
    "14002e260654c008a501504b0102140314000000080000002100ccca9cbd5500000098000000050000000000"
    "000000000000800100000000782e6e7079504b01021403140000000800000021008a1ace134a000000980000"
    "000a000000000000000000000080018c0000006c6162656c732e6e7079504b050600000000020002006b0000"
    "00120100000000";
// numpy.savez(x=arange(6, int16).reshape(3, 2)).
const std::string_view kStored =
    "504b030414000000000000002100758823bb8c0000008c00000005001400782e6e7079010010008c00000000"
    "0000008c00000000000000934e554d5059010076007b276465736372273a20273c6932272c2027666f727472"
    "616e5f6f72646572273a2046616c73652c20277368617065273a2028332c2032292c207d2020202020202020"
    "2020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "2020202020200a000001000200030004000500504b0102140314000000000000002100758823bb8c0000008c"
    "000000050000000000000000000000800100000000782e6e7079504b0506000000000100010033000000c300"
    "00000000";

Result<std::vector<StoredArray>> Archive(std::string bytes, const ReadLimits& limits = {}) {
  return ParseNpz(DataBytes::OfMemory(std::move(bytes), "f.npz"), limits);
}

TEST(Npz, ReadsStoredRowsInPlace) {
  const auto arrays = Archive(FromHex(kStored));
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  ASSERT_EQ(arrays->size(), 1u);
  const StoredArray& x = arrays->front();
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.source->name(), "f.npz");
  const Result<Tensor> row = x.LoadRow(2);
  ASSERT_TRUE(row.ok());
  EXPECT_TRUE(BitEqual(*row, Tensor::Of<int16_t>({2}, {4, 5})));
}

#ifdef INFER_HAVE_ZLIB
TEST(Npz, ReadsDeflated) {
  const auto arrays = Archive(FromHex(kCompressed));
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  ASSERT_EQ(arrays->size(), 2u);
  EXPECT_TRUE(BitEqual(*(*arrays)[0].Load(), Tensor::Of<float>({3, 2}, {0, 1, 2, 3, 4, 5})));
  EXPECT_TRUE(BitEqual(*(*arrays)[1].Load(), Tensor::Of<int64_t>({3}, {2, 0, 1})));
}

TEST(Npz, BudgetAndRatioAndChecksum) {
  ReadLimits limits;
  limits.max_unpacked_bytes = 200;  // each array has 152
  EXPECT_THAT(Archive(FromHex(kCompressed), limits).status().message(), HasSubstr("more than 200"));
  limits = {};
  limits.free_unpacked_bytes = 0;
  limits.max_ratio = 1;
  EXPECT_THAT(Archive(FromHex(kCompressed), limits).status().message(),
              HasSubstr("more than 1 times"));
  std::string bytes = FromHex(kCompressed);
  bytes[0x112 + 16] ^= 1;  // CRC in the directory
  EXPECT_THAT(Archive(bytes).status().message(), HasSubstr("checksum"));
  bytes = FromHex(kCompressed);
  bytes[0x112 + 24] = '\x97';  // says 151 bytes
  EXPECT_THAT(Archive(bytes).status().message(), HasSubstr("more than its header says"));
  bytes[0x112 + 24] = '\x99';
  EXPECT_THAT(Archive(bytes).status().message(), HasSubstr("less than its header says"));
}

TEST(Npz, BombIsStoppedWhereTheRatioBreaks) {
  // A raw DEFLATE block of fixed codes: one zero byte, then matches of 258 zeros, 5 + 8 bits each.
  std::string bits =
      "110"
      "00110000";
  for (int i = 0; i < 40'000; ++i)
    bits +=
        "11000101"
        "00000";
  std::string packed(bits.size() / 8 + 1, '\0');
  for (size_t i = 0; i < bits.size(); ++i)
    packed[i / 8] = static_cast<char>(packed[i / 8] | (bits[i] - '0') << (i % 8));
  const std::string gzip = FromHex("1f8b08000000000000ff") + packed;
  ReadLimits limits;
  limits.max_ratio = 100;
  EXPECT_THAT(Gunzip(gzip, "g", limits).status().message(), HasSubstr("more than 100 times"));
  limits = {};
  limits.max_unpacked_bytes = 1 << 20;
  EXPECT_THAT(Gunzip(gzip, "g", limits).status().message(), HasSubstr("more than 1.0 MiB"));
}
#endif

TEST(Npz, NamesAreNotPaths) {
  const std::string good = FromHex(kStored);
  struct Case {
    std::string name, message;
  };
  for (const Case& c : {Case{"/.npy", "no array name"}, Case{"\\.npy", "no array name"},
                        Case{"..npy", "no array name"}, Case{"x.txt", "no array name"}}) {
    std::string bytes = good;
    bytes.replace(0xc3 + 46, 5, c.name);
    EXPECT_THAT(Archive(bytes).status().message(), HasSubstr(c.message)) << c.name;
  }
}

TEST(Npz, EveryTruncationAndEveryFlippedByteIsSurvived) {
  const std::string good = FromHex(kStored);
  for (size_t n = 0; n < good.size(); ++n) {
    const auto r = Archive(good.substr(0, n));
    EXPECT_FALSE(r.ok()) << n;
  }
  for (size_t i = 0; i < good.size(); ++i)
    for (const int flip : {1, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      const auto r = Archive(bytes);
      if (!r.ok()) continue;
      for (const StoredArray& a : *r) EXPECT_TRUE(a.Load().ok()) << i;
    }
}

TEST(Raw, SizeMustBeAMultiple) {
  const TempDir dir;
  const std::string path = dir.Write("x.raw", "123456789012");
  const auto a = OpenRaw(path, DType::kU8, {2, 3});
  ASSERT_TRUE(a.ok());
  EXPECT_THAT(a->dims, ElementsAre(2, 2, 3));
  EXPECT_THAT(OpenRaw(path, DType::kF32, {2}).status().message(), HasSubstr("no multiple of 8"));
  EXPECT_EQ(OpenRaw(path, DType::kF32, {0}).status().code(), Code::kInvalidArgument);
  const auto type = ParseRawType("f32[3,224]");
  ASSERT_TRUE(type.ok());
  EXPECT_THAT(type->second, ElementsAre(3, 224));
  for (const char* bad : {"f32", "f33[2]", "f32[0]", "f32[2", "f32[a]", "", "u4[2]"})
    EXPECT_FALSE(ParseRawType(bad).ok()) << bad;
}

}  // namespace
}  // namespace infer
