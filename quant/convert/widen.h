#pragma once
/// Models stored in f16 or bf16, as f32: quantization rounds f32 weights and computes scales of f32
/// values.
#include "lib/ir/graph.h"

namespace infer {

/// Whether a layer, bodies included, has weights of f16 or bf16.
bool HasHalfLayers(const Graph& g);

/// Weights, computation and bodies in f32; inputs and outputs of the graph keep names and types, by
/// casts. Every number is kept, and nothing is rounded between. Unsupported, with the node's name,
/// where a value stays in 16 bits; then the graph is unchanged.
Status WidenFloats(Graph& g);

}  // namespace infer
