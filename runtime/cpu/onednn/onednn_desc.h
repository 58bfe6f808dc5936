#pragma once
/// Behind onednn.h, for onednn*.cc alone: our tensors as oneDNN's memory descriptors and back, and
/// what it throws as a Status.
#include <oneapi/dnnl/dnnl.hpp>

#include "lib/support/strings.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer::onednn {

const dnnl::engine& Engine();

/// Dense and row-major.
dnnl::memory::desc PlainDesc(dnnl::memory::data_type type, const Dims& dims);
/// Plain when the bytes are those of the dense row-major form.
Layout LayoutOf(const dnnl::memory::desc& md);
/// Unsupported for an extent above kMostCounted.
Result<dnnl::memory::desc> DescOf(const Spec& s);

/// What oneDNN 2.6 takes for certain: its kernels, and the search for their blocks, keep extents,
/// strides, pads and numbers of pixels in `int`, rounded up to blocks; beyond it they divide by
/// zero, wrap, or search without an end.
inline constexpr int64_t kMostCounted = int64_t{1} << 30;
/// Unsupported unless every number is within kMostCounted.
Status CheckCounts(const Dims& counts);
/// Unsupported unless the product of the extents from dimension `first` on is within kMostCounted.
Status CheckProduct(const Dims& dims, size_t first);

/// Throws std::bad_alloc where no room is left for the machine code of a primitive: oneDNN does not
/// look at the result of its mmap.
void CheckRoomForCode();

/// Runs `f`; what oneDNN throws becomes a Status.
template <typename F>
auto Guarded(F&& f) -> decltype(f()) {
  CheckRoomForCode();
  try {
    return f();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) throw std::bad_alloc();
    return Unsupported(Cat("oneDNN has no implementation (", e.what(), ")"));
  }
}

}  // namespace infer::onednn
