#include "quant/calibrate/number_loops.h"

namespace infer {

std::vector<const NumberLoops*> AllNumberLoops() {
  std::vector<const NumberLoops*> all = {&GenericNumberLoops()};
#ifdef INFER_X86
  if (__builtin_cpu_supports("avx2")) all.push_back(&Avx2NumberLoops());
  if (__builtin_cpu_supports("avx512f")) all.push_back(&Avx512NumberLoops());
#endif
  return all;
}

const NumberLoops& TheNumberLoops() {
  static const NumberLoops& best = *AllNumberLoops().back();
  return best;
}

}  // namespace infer
