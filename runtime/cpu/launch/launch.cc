#include "runtime/cpu/launch/launch.h"

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

}  // namespace infer
