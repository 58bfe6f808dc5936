/// Pooling through oneDNN, in the layout of its operand.
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer {
namespace {

using Kind = onednn::PoolSpec::Kind;

std::string RefusePool(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (call.main().output(1)) return "the indices are wanted";
  return RefuseUnlessF32(call);
}

/// `in` and `out` as they lie: what is in bf16 stays so where no number is rounded again.
void SetOperands(Kind kind, const Operand& in, const Operand& out, onednn::PoolSpec& spec) {
  const bool bf16 = onednn::IsBf16(in.layout);
  const bool widened = bf16 && kind != Kind::kMax;
  spec.kind = kind;
  spec.src = {DType::kF32, in.dims,
              widened ? onednn::ChannelsLast(DType::kF32, in.dims) : in.layout};
  spec.dst = {DType::kF32, out.dims, {}, {}, true, bf16 && !widened};
}

Result<Prepared> PrepareSpec(const onednn::PoolSpec& spec) {
  INFER_ASSIGN(const onednn::Made made, onednn::MakePool(spec));
  Prepared p;
  p.name = made.name;
  p.in_layouts = {spec.src.layout};
  p.out_layouts = {made.dst};
  p.scratch_bytes = made.scratch_bytes;
  p.launch = MakeLaunch(made, {{onednn::Arg::kSrc, 0}, {onednn::Arg::kDst, 1}}, 2);
  return p;
}

Result<Prepared> PreparePool(const Node& node, const Operand& in, const Operand& out) {
  INFER_ASSIGN(const Spatial s, SpatialOf(node, {}, in.dims, out.dims, false));
  for (int64_t d : s.dilations)
    if (d != 1) return Unsupported("dilation");
  onednn::PoolSpec spec;
  Kind kind = Kind::kMax;
  if (node.Is("AveragePool")) {
    const bool counts = node.Attr<int64_t>("count_include_pad") != 0;
    if (counts && node.Attr<int64_t>("ceil_mode") != 0)
      return Unsupported("ceil_mode with counted padding");
    kind = counts ? Kind::kAverageWithPadding : Kind::kAverage;
  }
  SetOperands(kind, in, out, spec);
  spec.kernel = s.kernel;
  spec.strides = s.strides;
  spec.pads_begin = s.pads_begin;
  spec.pads_end = s.pads_end;
  for (size_t i = 0; i < s.kernel.size(); ++i)
    if (s.pads_begin[i] >= s.kernel[i] || s.pads_end[i] >= s.kernel[i])
      return Unsupported("a window lies in the padding");
  return PrepareSpec(spec);
}

Result<Prepared> PrepareGlobal(Kind kind, const Operand& in, const Operand& out) {
  onednn::PoolSpec spec;
  SetOperands(kind, in, out, spec);
  spec.kernel.assign(in.dims.begin() + 2, in.dims.end());
  spec.strides = Dims(spec.kernel.size(), 1);
  spec.pads_begin = spec.pads_end = Dims(spec.kernel.size(), 0);
  return PrepareSpec(spec);
}

std::unique_ptr<Kernel> MakePoolKernel(const StepCall& call) {
  const Node& node = call.main();
  return KernelOf(
      [&node](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        if (in[0].dims.size() < 3 || in[0].dims.size() > 5)
          return Unsupported("only 1 to 3 spatial dimensions");
        if (node.Is("GlobalAveragePool")) return PrepareGlobal(Kind::kAverage, in[0], out[0]);
        if (node.Is("GlobalMaxPool")) return PrepareGlobal(Kind::kMax, in[0], out[0]);
        return PreparePool(node, in[0], out[0]);
      });
}

}  // namespace

KernelList PoolKernels() {
  return {{"MaxPool", "", "onednn", RefusePool, MakePoolKernel},
          {"AveragePool", "", "onednn", RefusePool, MakePoolKernel},
          {"GlobalAveragePool", "", "onednn", RefusePool, MakePoolKernel},
          {"GlobalMaxPool", "", "onednn", RefusePool, MakePoolKernel}};
}

}  // namespace infer
