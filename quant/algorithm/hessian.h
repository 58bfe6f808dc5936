#pragma once
/// Second moments of what weights are multiplied with: H = X^T X over the rows of an operand. A
/// layer y = X W^T whose weights change by D errs by tr(D H D^T) in squared outputs, so H is all
/// that data-driven rounding needs of the data (Optimal Brain Quantization, arXiv 2208.11580).
///
/// A row is what one output element is a dot product with: a row of the last axis for MatMul and
/// Gemm, a window of the input (im2col) for Conv, the channels of a position for ConvTranspose; of
/// windows and positions an evenly spaced part is taken.
///
/// Memory: depth^2 floats per operand, whatever the number of samples; operands that do not fit
/// into the budget together are summed in several passes over the samples.
#include <limits>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/ir/graph.h"
#include "quant/calibrate/samples.h"
#include "runtime/api/program.h"

namespace infer {

/// Sums over rows; for a grouped convolution one matrix per group.
struct Hessian {
  int64_t depth = 0, groups = 1;
  int64_t rows = 0;        ///< that were summed, per group
  std::vector<float> sum;  ///< [groups, depth, depth], symmetric
  std::span<const float> group(int64_t g) const {
    const auto n = static_cast<size_t>(depth * depth);
    return std::span(sum).subspan(static_cast<size_t>(g) * n, n);
  }
  bool finite() const;
  /// Pre: the same depth and groups, or *this is empty.
  void Add(const Hessian& o);
};

/// Disjoint rows: `fit` chooses codes and scales, `held_out` judges what was chosen.
struct HessianPair {
  Hessian fit, held_out;
};

/// The operand of a weighted layer, and how rows are read from it.
struct RowSource {
  std::string value;           ///< f32 value of the graph
  const Node* conv = nullptr;  ///< windows of this convolution; nullptr: rows of the last axis
  int64_t depth = 0, groups = 1;
  bool positions = false;    ///< rows of axis 1 instead: what ConvTranspose multiplies
  std::string weights = {};  ///< of LayerSourceOf: the constant's name
  /// Equal for sources that have the same rows.
  std::string Key() const;
};

/// How `node` reads the operand that its weights are multiplied with. InvalidArgument with the
/// reason: no MatMul, Gemm or Conv, weights that are not constant, a transposed operand.
Result<RowSource> SourceOf(const Node& node);
/// The same for the constant `operand` of Conv, ConvTranspose (one group), LSTM, GRU and RNN. The
/// recurrent weights multiply the layer's own results, which stand for the states before them: one
/// direction, whose results are read. The outputs that overlap in a ConvTranspose are added; here
/// each counts by itself. InvalidArgument with the reason.
Result<RowSource> LayerSourceOf(const Node& node, size_t operand);

struct HessianOptions {
  int64_t conv_windows = 64;               ///< or positions, taken of each image, evenly spaced
  int64_t max_bytes = int64_t{512} << 20;  ///< of the sums that are held at once
  /// Sources of longer rows are summed when their turn comes, never together with earlier ones.
  int64_t max_depth = std::numeric_limits<int64_t>::max();
  int threads = 0;
  int level = 0;  ///< of the rewrites that the graph is compiled with
  Progress progress = nullptr;
  std::stop_token stop = {};
};

/// Of enough samples every fourth is held out; of fewer, every fourth eighth of a sample's rows.
inline constexpr int64_t kHoldOutSamplesFrom = 8;

/// Sums of `sources` (distinct keys), in one pass over `samples`. InvalidArgument: no samples, a
/// value that is no computed f32 tensor of the graph. Cancelled: the stop token fired.
Result<std::map<std::string, HessianPair>> SumHessians(const Graph& graph,
                                                       std::span<const RowSource> sources,
                                                       const Samples& samples,
                                                       const Backend& backend,
                                                       const HessianOptions& options = {});

/// Bytes that a pair of `source` takes.
int64_t HessianBytes(const RowSource& source);

}  // namespace infer
