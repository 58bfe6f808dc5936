#pragma once
/// GPTQ: rounds weights one input after the other and lets the inputs still to come make up for the
/// error, which the inverse of the second moments H says how to do. No graph here.
///
/// Sources: Frantar et al., GPTQ (arXiv 2210.17323): Cholesky factor of the inverse, blocked
/// updates, order by activation, damping. Refinement: coordinate descent over the codes as in
/// QuantEase (Behdin et al., arXiv 2309.01885), alternating with least-squares scales; it never
/// raises the error on the data it is given.
///
/// A weight of 0 is a decision that came before (pruning): it keeps the zero point.
#include "quant/algorithm/hessian.h"
#include "quant/weight_only/block.h"

namespace infer {

/// tr((W - Q) H (W - Q)^T) for rows of weights: the squared error of the outputs over the rows of
/// data in H. `h` is [depth, depth].
double OutputError(const BlockWeights& w, const BlockQuantized& q, std::span<const float> h);
/// tr(W H W^T): squared magnitude of the outputs.
double OutputEnergy(const BlockWeights& w, std::span<const float> h);

struct GptqOptions {
  double damping = 0.01;      ///< of the mean diagonal, added to the diagonal
  bool act_order = true;      ///< inputs of large magnitude first
  int64_t update_block = 64;  ///< inputs whose errors are applied together to all later ones
};

/// New codes for `q`, whose scales and zero points stay. `h` comes from `rows` rows of data.
/// InvalidArgument, with the reason: fewer rows than inputs. Unsupported: the factorisation failed.
Status GptqRound(const BlockWeights& w, std::span<const float> h, int64_t rows,
                 const GptqOptions& options, BlockQuantized& q);

struct RefineOptions {
  int sweeps = 4;
  bool keep_scales = false;
  int least = 0;  ///< lower codes are not used
  /// [rows, depth]: 0 where a code stays as it is; empty: the codes of weights of 0.
  std::span<const uint8_t> free = {};
};

/// In each sweep: least-squares scales for the codes (unless they are kept), then one pass of
/// coordinate descent over the codes. Stops when a sweep gains less than a thousandth. OutputError
/// never rises.
void RefineCodes(const BlockWeights& w, std::span<const float> h, const RefineOptions& options,
                 BlockQuantized& q);

}  // namespace infer
