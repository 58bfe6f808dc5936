#pragma once
/// The constants of a graph that training may change.
#include <string>
#include <vector>

#include "lib/ir/graph.h"

namespace infer {

/// The f32 constants that layers learn, by name, in topological order of their first reader:
/// weights and biases of products and convolutions (a bias also as an Add behind the product),
/// scales and shifts of normalizations. Statistics, embeddings that nothing multiplies by, tables
/// and scalars of formulas stay as they are.
std::vector<std::string> TrainableConstants(const Graph& g);

}  // namespace infer
