#pragma once
/// f32 -> f16 or bf16: weights and computation, with a range check before and f32 kept where 16
/// bits do not do. Casts stand only where f32 and 16 bits meet.
///
/// Laws
///  - An operand or result with magnitudes above half of the type's largest number (overflow), or a
///    tensor whose rounding to the type errs more than rounding of normal numbers can (its elements
///    become subnormal or zero), keeps its node in f32; the report says which and why. Constants
///    are always checked. Computed values are checked where there are samples; without, operators
///    whose results grow (Exp, Pow, sums) stay f32, and so does what follows a constant that
///    overflows, up to an operator of bounded results.
///  - Operators of one table stay f32 whatever their range (float_rules.h).
///  - Light operators (no products, no weights) that would lie between f32 neighbours stay f32
///    when that spares casts.
///  - Inputs and outputs of the graph keep their types unless asked otherwise.
#include <stop_token>

#include "quant/calibrate/samples.h"
#include "quant/scheme/node_filter.h"
#include "quant/scheme/report.h"
#include "runtime/api/program.h"

namespace infer {

struct NarrowOptions {
  DType to = DType::kF16;  ///< kF16 or kBF16
  bool keep_io = true;     ///< inputs and outputs of the graph stay f32
  bool prepare = true;     ///< simplify and fuse first
  std::vector<NodePattern> include, exclude;
  int threads = 0;
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// Converts `g`. `samples` may be empty (count 0): then computed values are not checked, and the
/// report warns. Per layer the report has precision "f16" or "bf16", or "f32" with the reason. On
/// failure `g` is unchanged. InvalidArgument: a pattern that matches nothing, a graph that is
/// quantized. Unsupported: no node can be in 16 bits.
Result<QuantizeReport> NarrowFloats(Graph& g, const Samples& samples, const Backend& backend,
                                    const NarrowOptions& options = {});

}  // namespace infer
