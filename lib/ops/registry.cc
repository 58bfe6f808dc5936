#include "lib/ops/registry.h"

#include "lib/ops/families.h"

namespace infer {

OpRegistry AllOps() {
  const std::span<const OpDef> families[] = {
      ControlFlowOps(),
      IdentityOps(),
  };
  return OpRegistry(families);
}

}  // namespace infer
