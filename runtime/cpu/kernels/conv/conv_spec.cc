#include "runtime/cpu/kernels/conv/conv_spec.h"

#include <algorithm>

#include "lib/ir/roles.h"
#include "runtime/cpu/kernels/common/spatial.h"
#include "runtime/plan_ir/function_kernel.h"

namespace infer {
namespace {

void SetWeights(onednn::ConvSpec& s, const Dims& w, int64_t groups, bool constant) {
  const Dims kernel(w.begin() + 2, w.end());
  const int64_t k = NumElements(kernel);
  // [OC, IC/G, k] of Conv; [IC, OC/G, k] of ConvTranspose, seen as [G, OC/G, IC/G, k].
  const int64_t oc = s.transposed ? w[1] : w[0] / groups;
  const int64_t ic = s.transposed ? w[0] / groups : w[1];
  s.weights.dims = {oc, ic};
  s.weights.strides = s.transposed ? Dims{k, oc * k} : Dims{ic * k, k};
  const Dims inner = Strides(kernel);
  s.weights.dims.insert(s.weights.dims.end(), kernel.begin(), kernel.end());
  s.weights.strides.insert(s.weights.strides.end(), inner.begin(), inner.end());
  if (groups > 1) {
    s.weights.dims.insert(s.weights.dims.begin(), groups);
    s.weights.strides.insert(s.weights.strides.begin(), oc * ic * k);
  }
  // Weights that come with the run are put into the layout that is fastest before each of them,
  // where they lie as oneDNN counts their axes.
  s.weights.any = constant || (!s.transposed && groups == 1);
}

}  // namespace

Result<AskedConv> AskedConv::Of(const Node& node, const Dims& src, const Dims& dst, const Dims& w,
                                bool constant) {
  AskedConv asked;
  onednn::ConvSpec& s = asked.spec;
  s.transposed = IsTransposedConvolution(node);
  s.src = {DType::kF32, src, {}, {}, true};
  s.dst = {DType::kF32, dst, {}, {}, true};
  if (node.input(2)) s.bias = {DType::kF32, {dst[1]}};
  INFER_ASSIGN(const Spatial spatial,
               SpatialOf(node, Dims(w.begin() + 2, w.end()), src, dst, s.transposed));
  s.strides = spatial.strides;
  s.dilations = spatial.dilations;
  s.pads_begin = spatial.pads_begin;
  s.pads_end = spatial.pads_end;
  SetWeights(s, w, node.Attr<int64_t>("group"), constant);
  asked.is_column =
      constant && src.size() == 4 && src[3] == 1 && dst[3] == 1 && w[3] == 1 && src[2] > 1;
  return asked;
}

void AskedConv::SwapSpatialAxes() {
  for (Dims* list : {&spec.src.dims, &spec.dst.dims, &spec.weights.dims, &spec.weights.strides,
                     &spec.strides, &spec.dilations, &spec.pads_begin, &spec.pads_end})
    std::swap(list->end()[-1], list->end()[-2]);
}

Status CheckConvOperands(std::span<const Operand> in, const Operand& out, const ConvOperands& at) {
  if (!NoneEmpty(in, {&out, 1})) return Unsupported("an operand is empty");
  if (at.x == at.weights || at.x == at.bias)
    return Unsupported("operand and weights are one value");
  if (at.residual >= 0 && in[static_cast<size_t>(at.residual)].dims != out.dims)
    return Unsupported("the residual is broadcast");
  return {};
}

bool HasNoDirectConv(const AskedConv& asked, const Epilogue& epilogue) {
  const Result<std::string> name =
      onednn::ConvImplementation(asked.spec, {.post_ops = epilogue.ops});
  return !name.ok() || name->find("gemm") != std::string::npos ||
         name->find("ref") != std::string::npos;
}

}  // namespace infer
