#pragma once
/// Behind onednn.h, for onednn*.cc alone: our tensors as oneDNN's memory descriptors and back, and
/// what it throws as a Status.
#include <oneapi/dnnl/dnnl.hpp>

#include "lib/support/strings.h"
#include "runtime/cpu/onednn.h"

namespace infer::onednn {

const dnnl::engine& Engine();

/// Dense and row-major.
dnnl::memory::desc PlainDesc(dnnl::memory::data_type type, const Dims& dims);
/// Plain when the bytes are those of the dense row-major form.
Layout LayoutOf(const dnnl::memory::desc& md);
Result<dnnl::memory::desc> DescOf(const Spec& s);

/// Runs `f`; what oneDNN throws becomes a Status.
template <typename F>
auto Guarded(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    return Unsupported(Cat("oneDNN has no implementation (", e.what(), ")"));
  }
}

}  // namespace infer::onednn
