/// Cast between types on the device: the bits of the reference, for every f16 and around every
/// border of the integers.
#include <cmath>
#include <cstring>

#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

constexpr DType kCastTypes[] = {DType::kF32, DType::kF16,  DType::kI32, DType::kU8,
                                DType::kI8,  DType::kBool, DType::kI64};

/// Around every power of two, with both signs, and what is no number.
std::vector<double> Borders() {
  std::vector<double> values = {0.0, -0.0, INFINITY, -INFINITY, NAN, 65504, 65519, 65520, 3e38};
  for (int e = -30; e <= 64; ++e)
    for (const double near :
         {1.0, 1 + 0x1p-11, 1 + 0x1p-10, 1 + 0x1.8p-10, 1 + 0x1p-23, 1 - 0x1p-24})
      for (const double sign : {1.0, -1.0}) values.push_back(sign * std::ldexp(near, e));
  for (const float tiny : {1e-45f, 5.9e-8f, 2.98e-8f, 2.9803e-8f, 8.9e-8f, 6.1e-5f})
    for (const float sign : {1.0f, -1.0f}) values.push_back(sign * tiny);
  return values;
}

Tensor CastOperand(DType from) {
  if (from == DType::kF16) {
    Tensor all(from, {65536});
    for (int64_t i = 0; i < 65536; ++i)
      reinterpret_cast<uint16_t*>(all.mutable_raw())[i] = static_cast<uint16_t>(i);
    return all;
  }
  const std::vector<double> values = Borders();
  Tensor t(from, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.Set(static_cast<int64_t>(i), values[i]);
  if (from != DType::kI64) return t;
  // Whole numbers that f32 holds between two of its own.
  for (int64_t i = 0; i < t.num_elements() / 2; ++i)
    t.SetInt(i, (int64_t{1} << (24 + i % 39)) * (i % 2 ? 1 : -1) + i % 5 - 2);
  return t;
}

TEST(VulkanCast, EveryTypeHasTheBitsOfTheReference) {
  for (const bool bytes : {true, false}) {
    const auto backend =
        VulkanOver(bytes ? VulkanOptions() : VulkanOptions{.disable = {"int8", "int16"}});
    for (const DType from : kCastTypes)
      for (const DType to : kCastTypes) {
        if (from == to || (!bytes && BitWidth(to) >= 32)) continue;
        const Tensor x = CastOperand(from);
        const Graph g =
            ParsedGraph(Cat("graph g(x: ", Name(from), "[", x.num_elements(),
                            "]) -> (y) { y = Cast(x) {to=", static_cast<int>(to), "} }"));
        SCOPED_TRACE(Cat(Name(from), " to ", Name(to)));
        const std::vector<Datum> inputs = {x};
        const auto want = *Evaluate(g, inputs);
        const auto program = backend->Compile(g, {});
        ASSERT_TRUE(program.ok()) << program.status().message();
        EXPECT_EQ((*program)->steps()[0].kernel, "vulkan:cast");
        const auto got = RunOnce(**program, inputs);
        ASSERT_TRUE(got.ok()) << got.status().message();
        const Tensor &a = (*got)[0].tensor(), &b = want[0].tensor();
        int shown = 0;
        for (int64_t i = 0; i < b.num_elements() && shown < 3; ++i) {
          const auto width = static_cast<size_t>(BitWidth(to) / 8);
          if (std::memcmp(a.raw() + static_cast<size_t>(i) * width,
                          b.raw() + static_cast<size_t>(i) * width, width) == 0)
            continue;
          ++shown;
          ADD_FAILURE() << "of " << x.At(i) << ": " << a.At(i) << ", not " << b.At(i);
        }
      }
  }
}

}  // namespace
}  // namespace infer
