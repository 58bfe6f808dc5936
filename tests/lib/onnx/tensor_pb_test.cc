/// Single tensors as TensorProto files.
#include <gmock/gmock.h>

#include <fstream>

#include "lib/onnx/export.h"
#include "tests/lib/onnx/models.h"

namespace infer {
namespace {

using ::testing::ElementsAre;

TEST(TensorPb, RoundTripsEveryType) {
  TempDir dir;
  for (int t = 1; t < kNumDTypes; ++t) {
    const auto dtype = static_cast<DType>(t);
    SCOPED_TRACE(Name(dtype));
    Tensor in = Tensor::Zeros(dtype, {5});
    if (dtype == DType::kString)
      in = Tensor::OfStrings({2}, {"a", ""});
    else
      in.mutable_raw()[0] = std::byte{1};
    ASSERT_TRUE(WriteTensorPb(in, dir / "t.pb", "t").ok());
    auto out = ReadDatumPb(dir / "t.pb");
    ASSERT_TRUE(out.ok()) << out.status().message();
    EXPECT_TRUE(BitEqual(out->tensor(), in));
  }
}

TEST(TensorPb, ReadsTypedFields) {
  TempDir dir;
  auto read = [&](const onnx::TensorProto& p) {
    std::ofstream(dir / "t.pb", std::ios::binary) << p.SerializeAsString();
    auto d = ReadDatumPb(dir / "t.pb");
    EXPECT_TRUE(d.ok()) << d.status().message();
    return d.ok() ? d->tensor() : Tensor();
  };
  onnx::TensorProto p;
  p.add_dims(3);
  p.set_data_type(static_cast<int>(DType::kI8));
  for (int v : {-1, 2, -128}) p.add_int32_data(v);
  EXPECT_THAT(read(p).ToInts(), ElementsAre(-1, 2, -128));
  p.set_data_type(static_cast<int>(DType::kBool));
  EXPECT_THAT(read(p).ToInts(), ElementsAre(1, 1, 1));
  p.clear_int32_data();
  p.set_data_type(static_cast<int>(DType::kI4));  // two elements per entry, the first one lower
  p.add_int32_data(0x2f);
  p.add_int32_data(0x08);
  EXPECT_THAT(read(p).ToInts(), ElementsAre(-1, 2, -8));
  p.clear_int32_data();
  p.set_data_type(static_cast<int>(DType::kF16));
  for (int v : {0x3c00, 0xc000, 0}) p.add_int32_data(v);
  EXPECT_THAT(read(p).ToFloats(), ElementsAre(1, -2, 0));
  p.clear_int32_data();
  p.set_data_type(static_cast<int>(DType::kU32));
  for (uint64_t v : {uint64_t{0}, uint64_t{7}, uint64_t{4294967295}}) p.add_uint64_data(v);
  EXPECT_THAT(read(p).ToInts(), ElementsAre(0, 7, 4294967295));
}

TEST(TensorPb, ReadsLargePackedFieldsFromTheFile) {
  TempDir dir;
  onnx::TensorProto p;
  p.add_dims(100'000);
  p.set_data_type(onnx::TensorProto::INT64);
  for (int64_t i = 0; i < 100'000; ++i) p.add_int64_data((i - 50'000) * 1'000'003);
  std::ofstream(dir / "t.pb", std::ios::binary) << p.SerializeAsString();
  auto d = ReadDatumPb(dir / "t.pb");
  ASSERT_TRUE(d.ok()) << d.status().message();
  for (int64_t i = 0; i < 100'000; ++i) ASSERT_EQ(d->tensor().IntAt(i), (i - 50'000) * 1'000'003);
}

}  // namespace
}  // namespace infer
