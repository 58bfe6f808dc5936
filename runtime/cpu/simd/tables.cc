/// The choice between instruction sets: for each table of tables.inc, and for the loops that one
/// instruction set has.
#include "lib/support/isa_tables.h"
#include "runtime/cpu/simd/attention.h"
#include "runtime/cpu/simd/byte_attention.h"
#include "runtime/cpu/simd/byte_sums.h"
#include "runtime/cpu/simd/bytes.h"
#include "runtime/cpu/simd/depthwise.h"
#include "runtime/cpu/simd/elements.h"
#include "runtime/cpu/simd/folds.h"
#include "runtime/cpu/simd/fourier.h"
#include "runtime/cpu/simd/look_up.h"
#include "runtime/cpu/simd/loops.h"
#include "runtime/cpu/simd/models.h"
#include "runtime/cpu/simd/one_query.h"
#include "runtime/cpu/simd/pairs.h"
#include "runtime/cpu/simd/panels.h"
#include "runtime/cpu/simd/pools.h"
#include "runtime/cpu/simd/samples.h"
#include "runtime/cpu/simd/skinny.h"
#include "runtime/cpu/simd/sparse.h"
#include "runtime/cpu/simd/tiles.h"
#include "runtime/cpu/simd/weight_only.h"

namespace infer {

#define INFER_ISA_TABLE(file, Type, rounding, generic, avx2, avx512, vnni)              \
  template <>                                                                           \
  std::vector<const simd::Type*> AllTables<simd::Type>() {                              \
    return RunningTables<simd::Type, generic, avx2, avx512, vnni>();                    \
  }                                                                                     \
  std::conditional_t<generic, const simd::Type&, const simd::Type*> simd::The##Type() { \
    return BestTable<simd::Type, generic>();                                            \
  }
#include "runtime/cpu/simd/tables.inc"
#undef INFER_ISA_TABLE

namespace simd {

int64_t Skinny::LanesOf(int64_t depth) const {
  int64_t n = lanes;
  while (n > depth) n = n > 4 ? n / 2 : 1;
  return n;
}

int64_t Skinny::PaddedDepth(int64_t depth) const {
  const int64_t n = LanesOf(depth);
  return (depth + n - 1) / n * n;
}

void Skinny::PackDots(const float* from, int64_t step, int64_t depth, float* to) const {
  const int64_t n = LanesOf(depth), whole = depth / n * n, padded = PaddedDepth(depth);
  for (int64_t c = 0; c < padded; ++c) {
    const int64_t at = c < whole ? c : c - padded + depth;
    to[c] = c < whole || at >= whole ? from[at * step] : 0.0f;
  }
}

namespace {

void LookUp(const uint8_t* x, uint8_t* y, int64_t n, const uint8_t* table) {
  for (int64_t i = 0; i < n; ++i) y[i] = table[x[i]];
}

}  // namespace

LookUpFn TheLookUp() {
  if constexpr (kHasAvx512Loops)
    if (RunsIsa(Isa::kVbmi)) return LookUpVbmi;
  return LookUp;
}

MultiplyBytesFn TheMultiplyBytes() {
  if constexpr (kHasAvx512Loops)
    if (RunsIsa(Isa::kVnni)) return MultiplyBytesVnni;
  return nullptr;
}

const SparseBytes* TheSparseBytes() {
  if constexpr (kHasAvx512Loops)
    if (RunsIsa(Isa::kVnni)) return &kSparseBytesVnni;
  return nullptr;
}

}  // namespace simd
}  // namespace infer
