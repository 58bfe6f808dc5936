#include "runtime/cpu/simd/loops.h"

#include <cstdlib>
#include <string_view>

#include "runtime/cpu/simd/attention.h"
#include "runtime/cpu/simd/byte_attention.h"
#include "runtime/cpu/simd/bytes.h"
#include "runtime/cpu/simd/depthwise.h"
#include "runtime/cpu/simd/elements.h"
#include "runtime/cpu/simd/look_up.h"
#include "runtime/cpu/simd/one_query.h"
#include "runtime/cpu/simd/pairs.h"
#include "runtime/cpu/simd/panels.h"
#include "runtime/cpu/simd/weight_only.h"

namespace infer::simd {
namespace {

#ifdef INFER_X86
enum class Isa : uint8_t { kGeneric, kAvx2, kAvx512 };

Isa BestIsa() {
  static const Isa isa = [] {
    const char* text = std::getenv("INFER_MAX_ISA");
    const std::string_view cap = text ? text : "";
    const bool avx2_at_most = cap == "avx2" || cap == "avx2_vnni";
    if (cap == "sse4" || cap == "avx") return Isa::kGeneric;
    if (!avx2_at_most && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      return Isa::kAvx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::kAvx2;
    return Isa::kGeneric;
  }();
  return isa;
}

bool HasVnni() {
  const char* cap = std::getenv("INFER_MAX_ISA");
  return BestIsa() == Isa::kAvx512 && __builtin_cpu_supports("avx512vnni") &&
         !(cap && std::string_view(cap) == "avx512");
}
#endif

void LookUp(const uint8_t* x, uint8_t* y, int64_t n, const uint8_t* table) {
  for (int64_t i = 0; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace

LookUpFn TheLookUp() {
#ifdef INFER_X86
  if (BestIsa() == Isa::kAvx512 && __builtin_cpu_supports("avx512vbmi")) return LookUpVbmi;
#endif
  return LookUp;
}

const Loops& TheLoops() {
#ifdef INFER_X86
  if (BestIsa() == Isa::kAvx512) return Avx512Loops();
  if (BestIsa() == Isa::kAvx2) return Avx2Loops();
#endif
  return GenericLoops();
}

const Elements& TheElements() {
#ifdef INFER_X86
  if (BestIsa() == Isa::kAvx512) return Avx512Elements();
  if (BestIsa() == Isa::kAvx2) return Avx2Elements();
#endif
  return GenericElements();
}

const Depthwise& TheDepthwise() {
#ifdef INFER_X86
  if (BestIsa() == Isa::kAvx512) return Avx512Depthwise();
  if (BestIsa() == Isa::kAvx2) return Avx2Depthwise();
#endif
  return GenericDepthwise();
}

const Panels* ThePanels() {
#ifdef INFER_X86
  if (BestIsa() == Isa::kAvx512) return &Avx512Panels();
  if (BestIsa() == Isa::kAvx2) return &Avx2Panels();
#endif
  return nullptr;
}

const OneQuery& TheOneQuery() {
#ifdef INFER_X86
  if (BestIsa() == Isa::kAvx512) return Avx512OneQuery();
  if (BestIsa() == Isa::kAvx2) return Avx2OneQuery();
#endif
  return GenericOneQuery();
}

std::vector<const WeightOnly*> AllWeightOnly() {
  std::vector<const WeightOnly*> all = {&GenericWeightOnly()};
#ifdef INFER_X86
  if (BestIsa() != Isa::kGeneric) all.push_back(&Avx2WeightOnly());
  if (BestIsa() == Isa::kAvx512) all.push_back(&Avx512WeightOnly());
  if (HasVnni()) all.push_back(&VnniWeightOnly());
#endif
  return all;
}

const WeightOnly& TheWeightOnly() {
  static const WeightOnly* best = AllWeightOnly().back();
  return *best;
}

MultiplyBytesFn TheMultiplyBytes() {
#ifdef INFER_X86
  if (HasVnni()) return MultiplyBytesVnni;
#endif
  return nullptr;
}

const ByteAttentionLoops* TheByteAttentionLoops() {
#ifdef INFER_X86
  if (HasVnni()) return &VnniByteAttentionLoops();
#endif
  return nullptr;
}

const AttentionLoops* TheAttentionLoops() {
#ifdef INFER_X86
  if (BestIsa() == Isa::kAvx512) return &Avx512AttentionLoops();
  if (BestIsa() == Isa::kAvx2) return &Avx2AttentionLoops();
#endif
  return nullptr;
}

const Pairs& ThePairs() {
#ifdef INFER_X86
  if (BestIsa() == Isa::kAvx512) return Avx512Pairs();
  if (BestIsa() == Isa::kAvx2) return Avx2Pairs();
#endif
  return GenericPairs();
}

}  // namespace infer::simd
