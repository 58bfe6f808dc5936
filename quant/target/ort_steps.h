#pragma once
/// The kernels that ONNX Runtime's CPU provider launches for a graph on one thread, foretold by its
/// rewrites: Q and DQ that become part of integer kernels (CheckTarget's table), activations and
/// additions that f32 convolutions and products take in, copies between the layouts that
/// convolutions want. Nothing is run. tests/judge/ort_costs.py measures what a step of each family
/// takes, and how far the sum of a model's steps is off.
#include <span>
#include <string_view>
#include <vector>

#include "quant/target/check.h"

namespace infer {

/// Work of a step, in the amounts that prices are for.
struct OrtStep {
  std::string_view family;     ///< one of OrtFamilies()
  double mflop = 0;            ///< million operations; of pools, million elements of windows; of
                               ///< integer convolutions in groups, million elements copied; of
                               ///< dequantized weights, million runs of elements of one scale
  double kb = 0;               ///< 1,000 bytes read and written, columns and sums in i32 included
  double launches = 1;         ///< of groups, each its own product, as many
  const Node* node = nullptr;  ///< where it begins; of a copy between layouts, its reader
};

/// Kinds of kernels: operator, geometry and numbers.
std::span<const std::string_view> OrtFamilies();

/// In the order of the nodes. Nodes of unknown extents are steps without work. Bodies of control
/// flow are not looked into. `g` as it will be written; extents of its inputs should be numbers.
/// `standard_only`: the writer takes operators apart that the file's opset lacks, where
/// com.microsoft has them.
std::vector<OrtStep> OrtStepsOf(const Graph& g, const FileVersions& file, const Target& target,
                                bool standard_only = false);

}  // namespace infer
