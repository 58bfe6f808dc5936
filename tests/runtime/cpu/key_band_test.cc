/// Which keys a query sees, whatever numbers a model holds.
#include <gtest/gtest.h>

#include <limits>

#include "runtime/cpu/kernels/attention/attention.h"

namespace infer {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

/// By the definition, in numbers that hold all sums.
KeyRange Wanted(const KeyBand& band, int64_t i, int64_t n, int64_t valid) {
  __extension__ using Wide = __int128;
  const Wide at = band.valid_arg >= 0 ? Wide{i} + valid - band.queries : Wide{i} + band.position;
  KeyRange range;
  bool any = false;
  for (int64_t k = 0; k < n; ++k) {
    const bool seen = k < band.keys && (band.valid_arg < 0 || k < valid) &&
                      (band.left < 0 || Wide{k} >= at - band.left) &&
                      (band.right < 0 || Wide{k} <= at + band.right);
    if (!seen) continue;
    if (!any) range.begin = k;
    range.end = k + 1;
    any = true;
  }
  return range;
}

TEST(KeyBand, AnyNumbers) {
  constexpr int64_t kNumbers[] = {kLeast, kLeast + 1, -9, -1, 0, 1, 3, 5, 9, kMost - 1, kMost};
  for (const int64_t left : kNumbers)
    for (const int64_t right : kNumbers)
      for (const int64_t valid : kNumbers)
        for (const int valid_arg : {-1, 0})
          for (const int64_t i : {0, 2, 4}) {
            KeyBand band;
            band.left = std::max<int64_t>(left, -1);
            band.right = std::max<int64_t>(right, -1);
            band.position = valid_arg < 0 ? valid : 0;
            band.valid_arg = valid_arg;
            band.queries = 5;
            int64_t number = valid;
            std::byte* args[] = {reinterpret_cast<std::byte*>(&number)};
            const KeyRange got = band.Of(0, i, 7, args), want = Wanted(band, i, 7, valid);
            ASSERT_TRUE(0 <= got.begin && got.begin <= got.end && got.end <= 7);
            if (want.begin == want.end)
              ASSERT_EQ(got.begin, got.end) << left << " " << right << " " << valid << " " << i;
            else
              ASSERT_TRUE(got.begin == want.begin && got.end == want.end)
                  << left << " " << right << " " << valid << " " << valid_arg << " " << i;
          }
}

}  // namespace
}  // namespace infer
