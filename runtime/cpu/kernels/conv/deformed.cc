#include "runtime/cpu/kernels/conv/deformed.h"

#include <limits>

#include "runtime/cpu/kernels/common/kernels.h"

namespace infer {

Result<Deformed> Deformed::Of(const Node& node, const Dims& x, const Dims& w, const Dims& y) {
  if (x.size() != 4) return Unsupported("not of two dimensions");
  INFER_ASSIGN(const ConvGeometry g, ReadConvGeometry(node.def(), node.attrs(), x, w));
  if (g.output_dims() != y) return Unsupported("extents do not fit");
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (NumElements(g.input) > kMost) return Unsupported("places beyond 32 bits");
  Deformed d;
  d.batch = g.batch;
  d.channels = g.in_channels;
  d.groups = g.groups;
  d.offset_groups = node.Attr<int64_t>("offset_group");
  d.height = g.input[0];
  d.width = g.input[1];
  d.results = g.out_channels;
  d.outputs = NumElements(g.output);
  d.output_width = g.output[1];
  d.positions = g.kernel_size();
  d.rows = g.window.axes[0];
  d.columns = g.window.axes[1];
  for (const WindowAxis& a : g.window.axes)
    if (a.stride * NumElements(g.output) + a.extent() + a.pad_begin > kMost / 4)
      return Unsupported("places beyond 32 bits");
  return d;
}

DeformedBlock::DeformedBlock(const Deformed& d, int64_t image, int64_t first, int64_t count)
    : d_(d), loops_(simd::TheSamples()), image_(image), first_(first), count_(count) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t o = first + i;
    top_[i] = static_cast<int32_t>(o / d.output_width * d.rows.stride - d.rows.pad_begin);
    left_[i] = static_cast<int32_t>(o % d.output_width * d.columns.stride - d.columns.pad_begin);
  }
}

void DeformedBlock::Find(const float* offset, const float* mask, int64_t k, int64_t p) {
  const int64_t moved = (image_ * d_.offset_groups + k) * d_.positions + p;
  simd::MovedSamples samples;
  samples.height = static_cast<int32_t>(d_.height);
  samples.width = static_cast<int32_t>(d_.width);
  samples.top = top_;
  samples.left = left_;
  samples.row = static_cast<int32_t>(p / d_.columns.kernel * d_.rows.dilation);
  samples.column = static_cast<int32_t>(p % d_.columns.kernel * d_.columns.dilation);
  samples.down = offset + moved * 2 * d_.outputs + first_;
  samples.along = samples.down + d_.outputs;
  loops_.moved_taps(samples, count_, at_, weight_);
  factor_ = mask ? mask + moved * d_.outputs + first_ : nullptr;
}

std::string RefuseDeformed(const StepCall& call) {
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  const Node& n = call.main();
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  for (size_t i = 1; i < 5; ++i)
    if (n.input(i) == n.input(0)) return "two operands are one value";
  return "";
}

}  // namespace infer
