/// WeightSource: elements that go where a form can give them, and come back as they were.
#include "runtime/plan_ir/weight_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/support/memory_limit.h"

namespace infer {
namespace {

constexpr int64_t kCount = 1 << 16, kBytes = kCount * 4;

Tensor Numbers() {
  Tensor t(DType::kF32, {kCount});
  for (int64_t i = 0; i < kCount; ++i) t.Set(i, static_cast<double>(i));
  return t;
}

WeightSource::Form Backwards(const Tensor& t) {
  auto buffer = Buffer::Allocate(kBytes);
  const auto from = t.data<float>();
  std::reverse_copy(from.begin(), from.end(), reinterpret_cast<float*>(buffer->mutable_data()));
  return buffer;
}

Result<Tensor> Forwards(const Buffer& form) {
  Tensor t(DType::kF32, {kCount});
  const auto* const from = reinterpret_cast<const float*>(form.data());
  std::reverse_copy(from, from + kCount, t.mutable_data<float>().begin());
  return t;
}

Result<WeightSource::Form> GetBackwards(WeightSource& source, bool gives_back, int* packed) {
  return source.Get(
      "backwards",
      [&](const Tensor& t) -> Result<WeightSource::Form> {
        ++*packed;
        return Backwards(t);
      },
      gives_back ? WeightSource::UnpackFn(Forwards) : nullptr);
}

int64_t Held(int64_t before) { return (ChargedMemory() - before) / kBytes; }

TEST(WeightSource, ElementsStayUntilTheyMayGo) {
  const int64_t before = ChargedMemory();
  int packed = 0;
  WeightSource source(Numbers());
  ASSERT_TRUE(GetBackwards(source, true, &packed).ok());
  EXPECT_EQ(Held(before), 2);
  source.LetElementsGo();
  EXPECT_EQ(Held(before), 1);
  ASSERT_TRUE(GetBackwards(source, true, &packed).ok());
  EXPECT_EQ(packed, 1);
  {
    const auto first = source.Elements(), second = source.Elements();
    ASSERT_TRUE(first.ok() && second.ok());
    EXPECT_EQ(first->raw(), second->raw());
    EXPECT_EQ(first->data<float>()[5], 5);
    EXPECT_EQ(Held(before), 2);
  }
  EXPECT_EQ(Held(before), 1);
}

TEST(WeightSource, AFormWithoutAWayBackLeavesThem) {
  const int64_t before = ChargedMemory();
  int packed = 0;
  WeightSource source(Numbers());
  source.LetElementsGo();
  ASSERT_TRUE(GetBackwards(source, false, &packed).ok());
  EXPECT_EQ(Held(before), 2);
}

TEST(WeightSource, PlainElementsAreAForm) {
  const int64_t before = ChargedMemory();
  WeightSource source(Numbers());
  source.LetElementsGo();
  const auto plain = source.Plain();
  ASSERT_TRUE(plain.ok());
  const auto elements = source.Elements();
  ASSERT_TRUE(elements.ok());
  EXPECT_EQ(elements->raw(), (*plain)->data());
  EXPECT_EQ(Held(before), 1);
}

/// The first form gives the elements, and is held for that; the next takes its place.
TEST(WeightSource, FormsThatNobodyAsksForGo) {
  const int64_t before = ChargedMemory();
  int packed = 0;
  WeightSource source(Numbers());
  source.LetElementsGo();
  ASSERT_TRUE(source.Plain().ok());
  ASSERT_TRUE(GetBackwards(source, false, &packed).ok());
  EXPECT_EQ(Held(before), 2);
  source.ForgetForms();
  EXPECT_EQ(Held(before), 2);  // asked for since the last time
  source.ForgetForms();
  EXPECT_EQ(Held(before), 1);
  ASSERT_TRUE(source.Elements().ok());
  ASSERT_TRUE(GetBackwards(source, true, &packed).ok());
  EXPECT_EQ(packed, 2);
  EXPECT_EQ(Held(before), 1);
  source.ForgetForms();
  source.ForgetForms();
  ASSERT_TRUE(source.Elements().ok());
  EXPECT_EQ(source.Elements()->data<float>()[7], 7);
}

TEST(WeightSource, AnotherSourcesFormMayHoldThem) {
  const int64_t before = ChargedMemory();
  WeightSource source(Numbers());
  source.LetElementsGo();
  const WeightSource::Form form = Backwards(Numbers());
  source.HeldBy(form, Forwards);
  EXPECT_EQ(Held(before), 1);
  EXPECT_EQ(source.Elements()->data<float>()[9], 9);
}

}  // namespace
}  // namespace infer
