#include "runtime/cpu/kernels/common/zero_share.h"

namespace infer {

double ShareOfSample(int64_t count, FunctionRef<bool(int64_t)> is_zero) {
  constexpr int64_t kSampled = 1024;
  int64_t zeros = 0;
  // Places that no period of a pattern meets.
  uint64_t place = 0;
  for (int64_t i = 0; i < kSampled; ++i) {
    place = place * 6364136223846793005u + 1442695040888963407u;
    zeros += is_zero(static_cast<int64_t>((place >> 33) % static_cast<uint64_t>(count)));
  }
  return static_cast<double>(zeros) / static_cast<double>(kSampled);
}

}  // namespace infer
