#pragma once
/// The reference kernel of recurrent layers: products and cells in double, one sample after the
/// other.
///
/// Letters: S steps, B batch, I input size, H hidden size, D directions, G gates per cell.
#include "lib/ops/op_def.h"

namespace infer {

enum class RecurrentCell : uint8_t { kRnn, kGru, kLstm };

/// Of the gates, in the order in which attribute `activations` has them per direction.
std::vector<std::string> DefaultActivations(RecurrentCell cell);
/// One of them, with its parameters.
struct RecurrentActivation {
  double (*fn)(double x, double alpha, double beta);
  double alpha, beta, clip;
  std::string_view name;  ///< lower case
  /// `clip` bounds what goes in; NaN stays.
  double operator()(double x) const {
    return fn(x > clip ? clip : x < -clip ? -clip : x, alpha, beta);
  }
};
/// Those of all directions, in order. Errors: see CheckActivations.
Result<std::vector<RecurrentActivation>> ReadActivations(const OpCall& call, RecurrentCell cell);
/// Unsupported for an activation that nobody knows, InvalidModel for too few of them.
Status CheckActivations(const OpCall& call, RecurrentCell cell);

/// Runs the layer and sets the outputs Y, Y_h and Y_c. `x`, `w` [D, G H, I] and `r` [D, G H, H] are
/// in f32 or f64; the other operands (B, sequence_lens, initial_h, initial_c, P) are the call's
/// inputs 3 to 7. With `quantized_state` the state goes into the products with R as 8 bits, of one
/// range for all samples of a step. InvalidModel for lengths beyond S.
Status RunRecurrent(OpRun& run, RecurrentCell cell, const Tensor& x, const Tensor& w,
                    const Tensor& r, bool quantized_state = false);

}  // namespace infer
