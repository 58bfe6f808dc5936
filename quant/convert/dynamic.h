#pragma once
/// Dynamic INT8: weights are s8 constants, activations are quantized as they come. No data needed.
///
///   MatMul, Gemm DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul(x_scale * w_scale) [-> Add]
///   Conv         DynamicQuantizeLinear -> ConvInteger -> Cast -> Mul(x_scale * w_scale) [-> Add]
///   LSTM         com.microsoft DynamicQuantizeLSTM
///   GRU, RNN     s8 weights through DequantizeLinear; computed in f32 (no dynamic form exists)
///
/// Laws: one DynamicQuantizeLinear per value however many layers read it. Weights are symmetric
/// with a scale per output channel. A step of x is (max - min) / 255 of the whole tensor, so
/// results of one sample depend on what else is in the batch. ONNX Runtime joins the nodes of a
/// MatMul into MatMulIntegerToFloat / DynamicQuantizeMatMul, whence this exact form.
#include "quant/algorithm/weight_grid.h"
#include "quant/scheme/node_filter.h"
#include "quant/scheme/report.h"

namespace infer {

struct DynamicOptions {
  bool per_channel = true;   ///< false: one scale per weight tensor
  bool convolutions = true;  ///< Conv too
  bool prepare = true;       ///< simplify and fuse first
  /// Codes of weights within -63 to 63, for readers that add products of uint8 and int8 in pairs of
  /// 16 bits: of matrix products and recurrent layers (ONNX Runtime without VNNI), and of
  /// convolutions (which it multiplies without pairs).
  bool reduce_range = false, reduce_convolutions = false;
  std::vector<NodePattern> include, exclude;
  /// Changes the prepared weights before they are rounded; nullptr: nothing does.
  WeightChange change = nullptr;
};

/// Rewrites `g`. Precisions in the report: "int8", "int8-weights", or "f32" with the reason. On
/// failure `g` is unchanged. InvalidArgument: a pattern that matches nothing, a graph that is
/// quantized. Unsupported: there is no layer to quantize.
Result<QuantizeReport> QuantizeDynamic(Graph& g, const DynamicOptions& options = {});

}  // namespace infer
