/// The panels of every instruction set of this machine against plain loops in double.
#include "runtime/cpu/simd/panels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lib/support/isa_tables.h"
#include "lib/support/random.h"
#include "lib/tensor/tensor.h"

namespace infer::simd {
namespace {

/// Aligned, random in [-1, 1).
class Floats {
 public:
  Floats(int64_t n, Random& random)
      : buffer_(Buffer::Allocate(static_cast<size_t>(n) * sizeof(float))), n_(n) {
    for (int64_t i = 0; i < n; ++i) data()[i] = static_cast<float>(random.Uniform() * 2 - 1);
  }
  float* data() { return reinterpret_cast<float*>(buffer_->mutable_data()); }
  int64_t size() const { return n_; }

 private:
  std::shared_ptr<Buffer> buffer_;
  int64_t n_;
};

/// On every instruction set with vectors that this machine has; on ARM there is none.
using PanelsOf = testing::TestWithParam<const Panels*>;
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PanelsOf);
INSTANTIATE_TEST_SUITE_P(, PanelsOf, testing::ValuesIn(AllTables<Panels>()),
                         [](const auto& info) { return std::string(info.param->isa); });

TEST_P(PanelsOf, ProductsOfEveryNumberOfRows) {
  const Panels* p = GetParam();
  const int64_t lanes = p->lanes;
  Random random(3);
  for (int rows = 1; rows <= p->max_rows; ++rows)
    for (int64_t blocks : {0, 1, 5})
      for (bool add : {false, true}) {
        const int64_t stride = (rows + 3) * lanes, depth = blocks * lanes;
        Floats a(std::max<int64_t>(1, blocks) * stride, random), b((depth + 1) * lanes, random);
        Floats d((rows + 1) * lanes, random), start(lanes, random);
        const std::vector<float> before(d.data(), d.data() + d.size());
        PanelCall call{a.data(), stride, b.data(), blocks, d.data(), start.data(), add};
        call.lo = -0.5f;
        p->multiply(rows, call);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t j = 0; j < lanes; ++j) {
            double want = static_cast<double>(start.data()[j]);
            if (add) want += static_cast<double>(before[static_cast<size_t>(r * lanes + j)]);
            for (int64_t k = 0; k < depth; ++k)
              want += static_cast<double>(a.data()[k / lanes * stride + r * lanes + k % lanes]) *
                      static_cast<double>(b.data()[k * lanes + j]);
            EXPECT_NEAR(d.data()[r * lanes + j], std::max(want, -0.5), 2e-5)
                << p->isa << " rows " << rows << " blocks " << blocks;
          }
        for (int64_t j = 0; j < lanes; ++j)  // nothing behind the rows is written
          EXPECT_EQ(d.data()[rows * lanes + j], before[static_cast<size_t>(rows * lanes + j)]);
      }
}

TEST_P(PanelsOf, WideProductsOfEveryNumberOfRows) {
  const Panels* p = GetParam();
  const int64_t lanes = p->lanes, width = 2 * lanes;
  Random random(3);
  for (int rows = 1; rows <= p->wide_rows; ++rows)
    for (int64_t blocks : {0, 1, 5})
      for (int ahead : {0, 4, 8, p->lanes})
        for (bool add : {false, true}) {
          const int64_t stride = (rows + 3) * lanes, depth = blocks * lanes, pitch = width + 3;
          Floats a(std::max<int64_t>(1, blocks) * stride, random), b((depth + 1) * width, random);
          Floats d((rows + 1) * pitch, random), start(width, random);
          const std::vector<float> before(d.data(), d.data() + d.size());
          WideCall call{.a = a.data(),
                        .a_stride = stride,
                        .b = b.data(),
                        .blocks = blocks,
                        .d_stride = pitch};
          call.to[0] = {.d = d.data(), .start = start.data(), .add = add, .hi = 0.75f};
          call.ahead = b.data();
          call.ahead_lines = ahead;
          p->multiply_wide(rows, call);
          for (int64_t i = 0; i < d.size(); ++i) {
            const int64_t r = i / pitch, j = i % pitch;
            const float was = before[static_cast<size_t>(i)];
            if (r >= rows || j >= width) {
              EXPECT_EQ(d.data()[i], was) << "row " << r << " column " << j;
              continue;
            }
            double want = static_cast<double>(start.data()[j]);
            if (add) want += static_cast<double>(was);
            for (int64_t k = 0; k < depth; ++k)
              want += static_cast<double>(a.data()[k / lanes * stride + r * lanes + k % lanes]) *
                      static_cast<double>(b.data()[k * width + j]);
            EXPECT_NEAR(d.data()[i], std::min(want, 0.75), 2e-5)
                << p->isa << " rows " << rows << " blocks " << blocks;
          }
        }
}

TEST_P(PanelsOf, WideProductsGoToTwoTargets) {
  const Panels* p = GetParam();
  const int64_t lanes = p->lanes, width = 2 * lanes;
  Random random(5);
  for (int rows = 1; rows <= p->wide_rows; ++rows) {
    Floats a(rows * lanes, random), b(lanes * width, random);
    Floats plus(rows * width, random), minus(rows * width, random);
    const std::vector<float> before(minus.data(), minus.data() + minus.size());
    WideCall call{
        .a = a.data(), .a_stride = rows * lanes, .b = b.data(), .blocks = 1, .d_stride = width};
    call.to[0].d = plus.data();
    call.to[1] = {.d = minus.data(), .add = true, .factor = -1};
    call.targets = 2;
    p->multiply_wide(rows, call);
    for (int64_t i = 0; i < plus.size(); ++i) {
      double sum = 0;
      for (int64_t k = 0; k < lanes; ++k)
        sum += static_cast<double>(a.data()[i / width * lanes + k]) *
               static_cast<double>(b.data()[k * width + i % width]);
      EXPECT_NEAR(plus.data()[i], sum, 1e-5);
      EXPECT_NEAR(minus.data()[i], static_cast<double>(before[static_cast<size_t>(i)]) - sum, 1e-5);
    }
  }
}

/// A product by a sum of two panels has the bits of one by the panel that it leaves behind.
TEST_P(PanelsOf, WideProductsBySumsOfPanels) {
  const Panels* p = GetParam();
  const int64_t lanes = p->lanes, width = 2 * lanes, blocks = 3, size = blocks * lanes * width;
  Random random(7);
  for (int rows = 1; rows <= p->wide_rows; ++rows)
    for (int ahead : {0, 4})
      for (bool minus : {false, true}) {
        Floats a(blocks * rows * lanes, random), b(size, random), with(size, random);
        Floats made(size + width, random), d(rows * width, random), again(rows * width, random);
        const std::vector<float> before(made.data(), made.data() + made.size());
        WideCall call{.a = a.data(),
                      .a_stride = rows * lanes,
                      .b = b.data(),
                      .blocks = blocks,
                      .with = with.data(),
                      .minus = minus,
                      .made = made.data(),
                      .d_stride = width};
        call.ahead = b.data();
        call.ahead_lines = ahead;
        call.to[0].d = d.data();
        p->multiply_wide(rows, call);
        for (int64_t i = 0; i < made.size(); ++i) {
          const float sum = i >= size ? before[static_cast<size_t>(i)]
                            : minus   ? b.data()[i] - with.data()[i]
                                      : b.data()[i] + with.data()[i];
          ASSERT_EQ(made.data()[i], sum) << "rows " << rows << " at " << i;
        }
        call.b = made.data();
        call.with = nullptr;
        call.to[0].d = again.data();
        p->multiply_wide(rows, call);
        for (int64_t i = 0; i < d.size(); ++i)
          ASSERT_EQ(d.data()[i], again.data()[i]) << "rows " << rows << " at " << i;
      }
}

TEST_P(PanelsOf, SumsOfQuarters) {
  const Panels* p = GetParam();
  const int64_t lanes = p->lanes, blocks = 2, half = blocks * lanes, depth = 2 * half - 3;
  const int rows = 5, lower_rows = 4;
  Random random(6);
  Floats a((rows + lower_rows) * depth, random), to(7 * rows * half, random);
  p->strassen_rows({.upper = a.data(),
                    .lower = a.data() + rows * depth,
                    .pitch = depth,
                    .depth = depth,
                    .blocks = blocks,
                    .rows = rows,
                    .lower_rows = lower_rows,
                    .to = to.data(),
                    .stride = rows * half});
  const auto at = [&](int64_t row, int64_t k) {
    return row < rows + lower_rows && k < depth ? a.data()[row * depth + k] : 0.0f;
  };
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < half; ++k) {
      const float a11 = at(r, k), a12 = at(r, half + k);
      const float a21 = at(rows + r, k), a22 = at(rows + r, half + k);
      const float want[7] = {a11 + a22, a21 + a22, a11, a22, a11 + a12, a21 - a11, a12 - a22};
      for (int i = 0; i < 7; ++i)
        EXPECT_EQ(to.data()[((i * blocks + k / lanes) * rows + r) * lanes + k % lanes], want[i])
            << "sum " << i << " row " << r << " k " << k;
    }
}

TEST_P(PanelsOf, NaNPassesTheClamp) {
  const Panels* p = GetParam();
  Random random(1);
  Floats a(p->lanes, random), b(p->lanes * p->lanes, random), d(p->lanes, random);
  a.data()[0] = std::nanf("");
  PanelCall call{a.data(), p->lanes, b.data(), 1, d.data()};
  call.lo = 0;
  call.hi = 6;
  p->multiply(1, call);
  for (int j = 0; j < p->lanes; ++j) EXPECT_TRUE(std::isnan(d.data()[j]));
}

}  // namespace
}  // namespace infer::simd
