#pragma once
/// Choice between the tables of loops compiled for several instruction sets (isa.h). Not for .inc
/// files.
#include <type_traits>
#include <vector>

#include "lib/support/isa.h"

namespace infer {

/// Loops for kAvx512 and newer are compiled (tools/cmake/Isa.cmake).
#if defined(__x86_64__) && !defined(INFER_WITHOUT_AVX512)
constexpr bool kHasAvx512Loops = true;
#else
constexpr bool kHasAvx512Loops = false;
#endif

/// Tables of type T that run on this machine, best last. Declared for each table of a list.
template <class T>
std::vector<const T*> AllTables();

/// AllTables of a table that is compiled for the instruction sets that are true.
template <class T, bool kGeneric, bool kAvx2, bool kAvx512, bool kVnni>
std::vector<const T*> RunningTables() {
  std::vector<const T*> all;
  if constexpr (kGeneric) all.push_back(&Compiled<T, Isa::kGeneric>());
  if constexpr (kAvx2 && kIsX86)
    if (RunsIsa(Isa::kAvx2)) all.push_back(&Compiled<T, Isa::kAvx2>());
  if constexpr (kAvx512 && kHasAvx512Loops)
    if (RunsIsa(Isa::kAvx512)) all.push_back(&Compiled<T, Isa::kAvx512>());
  if constexpr (kVnni && kHasAvx512Loops)
    if (RunsIsa(Isa::kVnni)) all.push_back(&Compiled<T, Isa::kVnni>());
  return all;
}

/// The best of AllTables<T>(): a reference where a generic one is compiled (`kAlways`), else a
/// pointer, nullptr where none runs.
template <class T, bool kAlways>
std::conditional_t<kAlways, const T&, const T*> BestTable() {
  static const T* const best = [] {
    const auto all = AllTables<T>();
    return all.empty() ? nullptr : all.back();
  }();
  if constexpr (kAlways)
    return *best;
  else
    return best;
}

}  // namespace infer
