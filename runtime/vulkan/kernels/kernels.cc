#include "runtime/vulkan/kernels/kernels.h"

namespace infer::vulkan {
namespace {

class CopyLaunch final : public Launch {
 public:
  Status Record(Encoder& encoder, std::span<const BufferView> args, LaunchState*) const override {
    return encoder.Copy(args[1], args[0]);
  }
};

}  // namespace

KernelList AllKernels(const Facts& facts) {
  KernelList all;
  using Family = KernelList (*)(const Facts&);
  // Of an operator the kernels of groups come first.
  const Family families[] = {
      QuantProductKernels, QuantCodeKernels, ElementwiseKernels,    ChainKernels,      MoveKernels,
      GatherKernels,       HalfKernels,      MatMulKernels,         MatMulBitsKernels, ConvKernels,
      PoolKernels,         AttentionKernels, GroupAttentionKernels, RecurrentKernels,  RowKernels};
  for (const Family family : families) {
    KernelList list = family(facts);
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

Prepared MakeCopy() {
  Prepared p;
  p.name = "vulkan:copy";
  p.launch = std::make_shared<CopyLaunch>();
  return p;
}

}  // namespace infer::vulkan
