/// BatchNormalization through oneDNN, in the layout of its operand.
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/onednn/onednn.h"

namespace infer {
namespace {

std::string RefuseBatchNorm(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const Node& n = call.main();
  if (std::string r = RefuseUnlessF32(call); !r.empty()) return r;
  if (n.outputs().size() > 1 || n.Attr<int64_t>("training_mode") != 0)
    return "training results are wanted";
  if (call.step.inputs.size() != 5) return "one value stands twice";
  return "";
}

std::unique_ptr<Kernel> MakeBatchNormKernel(const StepCall& call) {
  const float epsilon = call.main().Attr<float>("epsilon");
  return KernelOf(
      [epsilon](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
        if (in[0].dims.size() < 2 || in[0].dims.size() > 5) return Unsupported("rank");
        INFER_ASSIGN(const onednn::Made made,
                     onednn::MakeBatchNorm({DType::kF32, in[0].dims, in[0].layout}, epsilon));
        using onednn::Arg;
        Prepared p;
        p.name = made.name;
        p.in_layouts = {in[0].layout, {}, {}, {}, {}};
        p.out_layouts = {made.dst};
        p.scratch_bytes = made.scratch_bytes;
        p.in_place = true;
        p.launch = MakeLaunch(made,
                              {{Arg::kSrc, 0},
                               {Arg::kScale, 1},
                               {Arg::kShift, 2},
                               {Arg::kMean, 3},
                               {Arg::kVariance, 4},
                               {Arg::kDst, 5}},
                              6);
        return p;
      });
}

}  // namespace

KernelList NormKernels() {
  return {{"BatchNormalization", "", "onednn", RefuseBatchNorm, MakeBatchNormKernel}};
}

}  // namespace infer
