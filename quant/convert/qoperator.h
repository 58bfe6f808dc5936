#pragma once
/// QDQ -> QOperator: what stands between DequantizeLinear and QuantizeLinear becomes an operator on
/// integers. A graph-to-graph rewrite; no number changes but by the rounding of these operators.
///
///   Conv                    QLinearConv
///   MatMul                  QLinearMatMul; with a float result MatMulInteger -> Cast -> Mul
///   Gemm                    com.microsoft QGemm, with a quantized or a float result
///   Add, Mul, AveragePool, GlobalAveragePool, Concat
///                           com.microsoft QLinearAdd, ...
///   Reshape, Transpose, MaxPool, ... (movement)
///                           the operator itself on integers
///   Relu, Clip before QuantizeLinear
///                           Clip on integers
/// Graph inputs and float readers keep their QuantizeLinear and DequantizeLinear.
#include "lib/ir/graph.h"
#include "quant/scheme/report.h"

namespace infer {

struct QOperatorReport {
  int64_t converted = 0;
  /// Layers that stay DequantizeLinear -> f32 operator: name and reason.
  std::vector<std::pair<std::string, std::string>> kept;
};

/// Rewrites the QDQ graph `g`; layers of `report` that stay float get precision "int8-weights" and
/// the reason. On failure `g` is unchanged. Unsupported: 16-bit or 4-bit codes, which these
/// operators do not take.
Result<QOperatorReport> ConvertToQOperator(Graph& g, QuantizeReport& report);

}  // namespace infer
