#include "runtime/cpu/simd/loops.h"

#include <cstdlib>
#include <string_view>

namespace infer::simd {

const Loops& TheLoops() {
#ifdef INFER_X86
  static const Loops& loops = []() -> const Loops& {
    const char* text = std::getenv("INFER_MAX_ISA");
    const std::string_view cap = text ? text : "";
    const bool avx2_at_most = cap == "avx2" || cap == "avx2_vnni";
    if (cap == "sse4" || cap == "avx") return GenericLoops();
    if (!avx2_at_most && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      return Avx512Loops();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Avx2Loops();
    return GenericLoops();
  }();
  return loops;
#else
  return GenericLoops();
#endif
}

}  // namespace infer::simd
