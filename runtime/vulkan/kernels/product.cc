#include "runtime/vulkan/kernels/product.h"

#include "lib/ir/roles.h"
#include "runtime/vulkan/kernels/walk.h"

namespace infer::vulkan {
namespace {

/// Rows of a product without a batch of weights are one matrix.
Result<Product> OfMatMul(const Dims& a_dims, const Dims& b_dims) {
  Dims a = a_dims, b = b_dims;
  if (a.empty() || b.empty()) return Unsupported("an operand is a scalar");
  if (a.size() == 1) a.insert(a.begin(), 1);
  if (b.size() == 1) b.push_back(1);
  if (b.size() == 2) a = {NumElements(a) / a.back(), a.back()};
  Product p;
  p.m = a[a.size() - 2];
  p.k = a.back();
  p.n = b.back();
  p.a_row = p.k;
  p.a_column = 1;
  p.b_row = p.n;
  p.b_column = 1;
  const Dims a_lead(a.begin(), a.end() - 2), b_lead(b.begin(), b.end() - 2);
  INFER_ASSIGN(const Dims lead, Broadcast(a_lead, b_lead));
  const Walk w = BroadcastWalk(lead, {a_lead, b_lead});
  if (w.dims.size() > 2) return Unsupported("more than two batch axes that are not one");
  const size_t skipped = 2 - w.dims.size();
  for (size_t d = 0; d < w.dims.size(); ++d) {
    p.batch[skipped + d] = w.dims[d];
    p.a_batch[skipped + d] = w.strides[0][d] * p.m * p.k;
    p.b_batch[skipped + d] = w.strides[1][d] * p.k * p.n;
  }
  return p;
}

Result<Product> OfGemm(const Node& node, const Dims& a, const Dims& b) {
  Product p;
  const bool trans_a = node.Attr<int64_t>("transA") != 0,
             trans_b = node.Attr<int64_t>("transB") != 0;
  if (a.size() != 2 || b.size() != 2) return Unsupported("operands of other ranks than two");
  p.m = a[trans_a ? 1 : 0];
  p.k = a[trans_a ? 0 : 1];
  p.n = b[trans_b ? 0 : 1];
  p.a_row = trans_a ? 1 : a[1];
  p.a_column = trans_a ? a[1] : 1;
  p.b_row = trans_b ? 1 : b[1];
  p.b_column = trans_b ? b[1] : 1;
  p.alpha = node.Attr<float>("alpha");
  p.beta = node.Attr<float>("beta");
  return p;
}

}  // namespace

Result<Product> ProductOf(const Node& node, const Dims& a, const Dims& b) {
  return TakesBias(node) ? OfGemm(node, a, b) : OfMatMul(a, b);
}

}  // namespace infer::vulkan
