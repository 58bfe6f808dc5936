#pragma once
/// Layers that compute in f32 with weights that are stored in 8 bits: DequantizeLinear of an i8
/// constant, symmetric, a scale per output channel, in front of the node (ONNX opset 13). The
/// finished file spells most of them as Cast and Mul, below opset 13 all of them
/// (quant/convert/cast_and_mul.h). Of a table the rows that are looked up are multiplied, by a
/// scale of each row.
#include "quant/scheme/plan.h"
#include "quant/scheme/report.h"

namespace infer {

/// Nodes of the plan that stay f32 not because the user said so, and whose weights can be stored:
/// of Conv, ConvTranspose, MatMul, Gemm, LSTM, GRU and RNN, 512 numbers at least, and large tables
/// of Gather, read by nobody who wants them in f32. By the name of their first result, in
/// topological order.
Result<std::vector<std::string>> StorableLayers(const Graph& g, const QuantPlan& plan);

/// The plan's nodes that `names` has, in the graph where the plan is written already. report.layers
/// are those of plan.nodes. Gives the first results of those that it stored, by their names there.
Result<std::set<std::string>> StoreLayers(Graph& g, const QuantPlan& plan,
                                          const std::set<std::string>& names,
                                          QuantizeReport& report);

}  // namespace infer
