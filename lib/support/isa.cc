#include "lib/support/isa.h"

#include <cstdlib>
#include <string_view>

namespace infer {
namespace {

/// The newest instruction set that INFER_MAX_ISA allows; backends refuse a text that is none of
/// theirs.
Isa Cap() {
  const char* text = std::getenv("INFER_MAX_ISA");
  const std::string_view cap = text ? text : "";
  if (cap == "sse4" || cap == "avx") return Isa::kGeneric;
  if (cap == "avx2" || cap == "avx2_vnni") return Isa::kAvx2;
  if (cap == "avx512") return Isa::kAvx512;
  return Isa::kVnni;
}

}  // namespace

bool HasIsa([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case Isa::kGeneric: return true;
    case Isa::kAvx2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case Isa::kAvx512: return avx512;
    case Isa::kVnni: return avx512 && __builtin_cpu_supports("avx512vnni");
    case Isa::kVbmi: return avx512 && __builtin_cpu_supports("avx512vbmi");
  }
#endif
  return isa == Isa::kGeneric;
}

bool RunsIsa(Isa isa) {
  static const Isa cap = Cap();
  return HasIsa(isa) && (isa == Isa::kVbmi ? Isa::kAvx512 : isa) <= cap;
}

}  // namespace infer
