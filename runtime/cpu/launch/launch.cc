#include "runtime/cpu/launch/launch.h"

#include <algorithm>
#include <cstring>

#include "lib/support/parallel.h"

namespace infer {

Prepared MakeCopy(int64_t bytes) {
  Prepared p;
  p.name = "copy";
  p.launch = LaunchOf([bytes](std::byte* const* args) {
    ParallelFor(bytes, 1 << 18, [args](int64_t begin, int64_t end) {
      std::memcpy(args[1] + begin, args[0] + begin, static_cast<size_t>(end - begin));
    });
  });
  return p;
}

bool NoneEmpty(std::span<const Operand> in, std::span<const Operand> out) {
  auto full = [](const Operand& o) { return NumElements(o.dims) > 0; };
  return std::all_of(out.begin(), out.end(), full) &&
         std::all_of(in.begin(), in.end(), [&](const Operand& o) { return o.constant || full(o); });
}

}  // namespace infer
