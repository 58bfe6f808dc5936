#pragma once
/// Layouts as kernels ask for them: a list that may be shorter than the operands.
#include <vector>

#include "runtime/plan_ir/kernel.h"

namespace infer {

/// Of operand `i`; plain where the list ends before it.
inline Layout LayoutAt(const std::vector<Layout>& wanted, size_t i) {
  return i < wanted.size() ? wanted[i] : Layout();
}

inline int64_t BytesIn(const Layout& layout, const Operand& o) {
  return layout.plain() ? o.plain_bytes() : layout.bytes;
}

}  // namespace infer
