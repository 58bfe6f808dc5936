/// Single values as TensorProto, SequenceProto and OptionalProto files.
#include <gmock/gmock.h>
#include <onnx/onnx-data_pb.h>

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

/// The value of `type` that is read from a file with `message`.
template <typename Proto>
Result<Datum> ReadOf(const Proto& message, const ValueType& type) {
  TempDir dir;
  std::ofstream(dir / "v.pb", std::ios::binary) << message.SerializeAsString();
  return ReadDatumPb(dir / "v.pb", type);
}

onnx::TensorProto FloatsProto(int count, bool raw) {
  onnx::TensorProto p;
  p.add_dims(count);
  p.set_data_type(onnx::TensorProto::FLOAT);
  p.set_name("t");
  for (int i = 0; i < count; ++i)
    if (!raw) p.add_float_data(static_cast<float>(i));
  if (raw) p.set_raw_data(std::string(static_cast<size_t>(count) * 4, '\0'));
  return p;
}

const ValueType kFloats = TensorType{DType::kF32, Shape()};

TEST(OptionalPb, TakesTheBareValue) {
  const ValueType type = ValueType::Optional(kFloats);
  for (const bool raw : {false, true}) {
    for (const int count : {0, 3, 2000}) {
      SCOPED_TRACE(count);
      const auto d = ReadOf(FloatsProto(count, raw), type);
      ASSERT_TRUE(d.ok()) << d.status().message();
      ASSERT_TRUE(d->is_tensor());
      EXPECT_EQ(d->tensor().dims(), Dims{count});
    }
  }
  onnx::TensorProto scalar;  // no extents: its data alone tell it from an optional
  scalar.set_data_type(onnx::TensorProto::FLOAT);
  scalar.add_float_data(2);
  const auto d = ReadOf(scalar, type);
  ASSERT_TRUE(d.ok()) << d.status().message();
  ASSERT_TRUE(d->is_tensor());
}

TEST(OptionalPb, TakesOptionals) {
  const ValueType type = ValueType::Optional(kFloats);
  onnx::OptionalProto p;
  auto d = ReadOf(p, type);
  ASSERT_TRUE(d.ok() && d->is_optional());
  EXPECT_FALSE(d->optional().value);
  p.set_name("o");
  p.set_elem_type(onnx::OptionalProto::TENSOR);
  d = ReadOf(p, type);
  ASSERT_TRUE(d.ok() && d->is_optional());
  EXPECT_FALSE(d->optional().value);
  *p.mutable_tensor_value() = FloatsProto(2, true);
  d = ReadOf(p, type);
  ASSERT_TRUE(d.ok() && d->is_optional());
  ASSERT_TRUE(d->optional().value && d->optional().value->is_tensor());
  EXPECT_EQ(d->optional().value->tensor().dims(), Dims{2});
}

TEST(OptionalPb, TakesSequences) {
  const ValueType type = ValueType::Optional(ValueType::Sequence(kFloats));
  onnx::SequenceProto s;
  s.set_elem_type(onnx::SequenceProto::TENSOR);
  auto d = ReadOf(s, type);  // a sequence without elements is one, too
  ASSERT_TRUE(d.ok()) << d.status().message();
  EXPECT_TRUE(d->is_sequence());
  for (int i = 0; i < 2; ++i) *s.add_tensor_values() = FloatsProto(i + 1, true);
  d = ReadOf(s, type);
  ASSERT_TRUE(d.ok() && d->is_sequence());
  EXPECT_EQ(d->sequence().size(), 2u);
  onnx::OptionalProto p;
  p.set_elem_type(onnx::OptionalProto::SEQUENCE);
  *p.mutable_sequence_value() = s;
  d = ReadOf(p, type);
  ASSERT_TRUE(d.ok() && d->is_optional());
  ASSERT_TRUE(d->optional().value && d->optional().value->is_sequence());
  EXPECT_EQ(d->optional().value->sequence().size(), 2u);
}

TEST(SequencePb, IsNotATensor) {
  for (const ValueType& type :
       {ValueType::Sequence(kFloats), ValueType::Optional(ValueType::Sequence(kFloats))}) {
    const auto d = ReadOf(FloatsProto(3, true), type);
    ASSERT_FALSE(d.ok());
    EXPECT_EQ(d.status().code(), Code::kInvalidModel);
    EXPECT_THAT(d.status().message(), ::testing::HasSubstr("holds no sequence"));
  }
}

}  // namespace
}  // namespace infer
