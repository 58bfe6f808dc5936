#pragma once
/// Writes a plan into the graph as QuantizeLinear / DequantizeLinear (ONNX opset 13 and later).
/// Pure rewrite: no number is measured here.
///
/// Layout, as integer runtimes recognise it:
///   value       v -> QuantizeLinear(scale, zero_point) -> DequantizeLinear -> readers
///   weights     DequantizeLinear(s8 constant, scale[C], zero_point[C]), axis = output channels
///   bias        DequantizeLinear(s32 constant, scale[C] = x_scale * w_scale[C]), axis 0; f32 where
///               activations have 16 bits
/// Relu and Clip whose bounds the integers' own saturation reproduces are removed. A value all of
/// whose readers read the rounded one gives its name to it, so that comparing golden and quantized
/// values by name compares what readers read.
#include "quant/calibrate/calibrate.h"
#include "quant/scheme/plan.h"
#include "quant/scheme/report.h"

namespace infer {

/// `plan` was made for `g` and is used up. InvalidArgument: `table` lacks an observed value.
Status InsertQdq(Graph& g, const QuantPlan& plan, const CalibrationTable& table,
                 const QuantScheme& scheme, QuantizeReport& report);

}  // namespace infer
