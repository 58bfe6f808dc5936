#pragma once
/// AWQ in a graph: finds operands whose scales can be moved, searches scales for the layers that
/// read them, and folds them: into those layers' weights, and their inverse into what makes the
/// operand. The graph computes the same numbers before rounding, and no node is added.
///
/// An operand can be scaled when only products read it whose weights are constant, and it comes,
/// through values that nobody else reads, from constants that scale each of its columns: scale and
/// bias of a normalization, a factor, or the weights of a product (behind bias, Relu, a gate,
/// Transpose). Operands of residual sums and graph inputs are left out.
#include <map>
#include <set>

#include "quant/algorithm/hessian.h"
#include "quant/algorithm/scale_search.h"

namespace infer {

/// A product whose weights will be rounded.
struct ScaledProduct {
  Node* node = nullptr;  ///< MatMul or Gemm
  BlockGrid grid;
};

/// What became of the weights of one product.
struct FoldedScale {
  double exponent = 0;       ///< scale = rms(x)^exponent
  double nearest_error = 0;  ///< relative, held out, of the weights as they were, plainly rounded
};

/// Scales what it can of `g` in place; values and nodes stay the same objects, constants change,
/// those in `frozen` excepted.
/// Returns the scaled weights by name. Errors as SumHessians(); on failure `g` may be scaled in
/// part, which changes no result but by rounding.
Result<std::map<std::string, FoldedScale>> FoldInputScales(
    Graph& g, std::span<const ScaledProduct> products, const std::set<const Value*>& frozen,
    const Samples& samples, const Backend& backend, const ScaleRounder& round,
    const HessianOptions& options = {});

}  // namespace infer
