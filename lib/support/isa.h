#pragma once
/// Instruction sets that loops are compiled for, and which of them run. A table of loops is written
/// once, in a file NAME.inc, and compiled once per instruction set that its line in a list names
/// (runtime/cpu/simd/tables.inc; tools/cmake/Isa.cmake makes the files). This header is read by
/// such files: it has no inline functions, since the linker could keep a copy that was compiled for
/// a newer processor.
#include <cstdint>

namespace infer {

/// Each runs where those before it do, but for kVbmi, which asks for kAvx512 alone.
enum class Isa : uint8_t {
  kGeneric,  ///< what every processor of the architecture has
  kAvx2,     ///< with FMA
  kAvx512,   ///< F, BW, DQ and VL
  kVnni,     ///< AVX-512 VNNI
  kVbmi,     ///< AVX-512 VBMI
};
inline constexpr const char* kIsaNames[] = {"generic", "avx2", "avx512", "vnni", "vbmi"};

#if defined(__x86_64__)
inline constexpr bool kIsX86 = true;
#else
inline constexpr bool kIsX86 = false;
#endif

/// The processor has it.
bool HasIsa(Isa isa);
/// The processor has it, and the environment variable INFER_MAX_ISA allows it
/// (docs/compatibility.md). Read once.
bool RunsIsa(Isa isa);

/// The table of type T compiled for `isa`; defined by T's .inc file.
template <class T, Isa isa>
const T& Compiled();

}  // namespace infer
