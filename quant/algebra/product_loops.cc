#include "quant/algebra/product_loops.h"

#include "lib/support/isa_tables.h"

namespace infer {

#define INFER_ISA_TABLE(file, Type, rounding, generic, avx2, avx512, vnni) \
  template <>                                                              \
  std::vector<const Type*> AllTables<Type>() {                             \
    return RunningTables<Type, generic, avx2, avx512, vnni>();             \
  }                                                                        \
  const Type& The##Type() { return BestTable<Type, generic>(); }
#include "quant/algebra/tables.inc"
#undef INFER_ISA_TABLE

}  // namespace infer
