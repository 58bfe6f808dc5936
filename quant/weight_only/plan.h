#pragma once
/// Which constants become weights of few bits, and which nodes read them. Reads the graph, changes
/// nothing, rounds nothing.
///
/// Covered in blocks: the second operand of MatMul and Gemm (also behind a Transpose), and tables
/// that Gather looks up along axis 0. A head that is tied to the embeddings, by reading the same
/// constant or an equal one, shares their numbers: they are stored once, in nbits where a block
/// divides the depth. Stored in 8 bits per channel and computed in f32: weights of Conv,
/// ConvTranspose, LSTM, GRU and RNN.
#include <string>
#include <vector>

#include "quant/algorithm/weight_grid.h"
#include "quant/scheme/node_filter.h"
#include "quant/weight_only/block.h"

namespace infer {

enum class WeightFormat : uint8_t {
  kNBits,  ///< MatMulNBits and GatherBlockQuantized of com.microsoft
  kQdq,    ///< DequantizeLinear of ONNX, in blocks (opset 21)
};

/// What to store in which grid.
struct WeightScheme {
  BlockGrid grid;
  WeightFormat format = WeightFormat::kNBits;
  bool lookups = true;  ///< tables of Gather
  int lookup_bits = 0;  ///< of tables that no product shares; 0: as the grid
  bool layers = true;   ///< weights of convolutions and recurrent operators, in 8 bits
  /// Such weights stay f32 where 8 bits make a larger relative error (root of the squares).
  double layer_error = 0.02;
  std::vector<NodePattern> include;  ///< empty: every node
  std::vector<NodePattern> exclude;  ///< wins over include
};
/// InvalidArgument: what the format cannot store.
Status CheckScheme(const WeightScheme& scheme);

enum class WeightUse : uint8_t { kProduct, kLookup, kLayer };

/// A node that reads weights.
struct WeightReader {
  Node* node = nullptr;
  size_t operand = 0;
  WeightUse use = WeightUse::kProduct;
  std::string reason;  ///< why its weights stay as they are; "" where they do not
  int group = -1;      ///< index into WeightPlan::groups
};

/// Numbers that are stored once.
struct WeightGroup {
  Value* source = nullptr;  ///< constant, f32
  /// source, seen as a matrix, is [rows, depth], else [depth, rows]
  bool rows_first = false;
  int64_t rows = 0, depth = 0;
  int axis = -1;  ///< of kLayer: the axis of the channels; -1: per tensor
  BlockGrid grid;
  std::vector<size_t> readers;  ///< indices into WeightPlan::readers
  bool is_layer = false;
  bool has_lookup = false, has_product = false;
};

struct WeightPlan {
  std::vector<WeightReader> readers;  ///< topological order; also those that stay f32
  std::vector<WeightGroup> groups;
};

/// `original`: the graph before it was prepared; its names also count for patterns (may be `g`).
/// InvalidArgument: a pattern that matches nothing or does not compile, or CheckScheme().
Result<WeightPlan> PlanWeights(const Graph& g, const Graph& original, const WeightScheme& scheme);

/// How the constants of the plan's products and convolutions will be stored.
WeightGrids GridsOf(const WeightPlan& plan);

/// The numbers of a group as [rows, depth]; a copy where they lie the other way.
class GroupWeights {
 public:
  explicit GroupWeights(const WeightGroup& group);
  BlockWeights view() const { return view_; }

 private:
  Tensor source_;
  std::vector<float> copy_;
  BlockWeights view_;
};

}  // namespace infer
