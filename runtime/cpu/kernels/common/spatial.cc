#include "runtime/cpu/kernels/common/spatial.h"

#include <algorithm>

namespace infer {

Result<Spatial> SpatialOf(const Node& node, const Dims& kernel, const Dims& src, const Dims& dst,
                          bool transposed) {
  const size_t n = src.size() - 2;
  INFER_ASSIGN(Window w, ReadWindow(node.def(), node.attrs(), static_cast<int>(n), kernel));
  w = ResolvePads(std::move(w), Dims(src.begin() + 2, src.end()), transposed);
  Spatial s;
  for (size_t i = 0; i < n; ++i) {
    const WindowAxis& a = w.axes[i];
    // The strided side of the window: the input of a convolution, the output of its transpose.
    const int64_t wide = transposed ? dst[i + 2] : src[i + 2];
    const int64_t narrow = transposed ? src[i + 2] : dst[i + 2];
    int64_t end = a.pad_end;
    if ((wide + a.pad_begin + end - a.extent()) / a.stride + 1 != narrow ||
        wide + a.pad_begin + end < a.extent())
      end = (narrow - 1) * a.stride + a.extent() - a.pad_begin - wide;
    if (end < 0 || a.pad_begin < 0) return Unsupported("negative padding");
    s.kernel.push_back(a.kernel);
    s.strides.push_back(a.stride);
    s.dilations.push_back(a.dilation);
    s.pads_begin.push_back(a.pad_begin);
    s.pads_end.push_back(end);
  }
  return s;
}

}  // namespace infer
