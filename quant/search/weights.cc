#include "quant/search/weights.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "quant/scheme/op_rules.h"
#include "quant/scheme/quant_params.h"
#include "quant/weight_only/round.h"

namespace infer {
namespace {

/// The axis of the weights with an index per output channel (Gather: per row of the table); -1
/// where no axis is.
int ChannelAxis(const Node& node, size_t operand) {
  return node.Is("Gather") ? 0 : WeightAxis(node, operand);
}

Result<Value*> AddDequantize(GraphEditor& editor, const std::string& name, Tensor codes,
                             Tensor scales, AttrMap attrs) {
  NodeOptions options;
  options.name = name + "_dequantized";
  options.output_names = {options.name};
  Value* const c = editor.AddConstant(std::move(codes), name + "_quantized");
  Value* const s = editor.AddConstant(std::move(scales), name + "_scale");
  return editor.Add("DequantizeLinear", {c, s}, std::move(attrs), "", std::move(options));
}

/// [K, N] -> [N, K].
std::vector<float> Transposed(std::span<const float> w, int64_t rows, int64_t columns) {
  std::vector<float> t(w.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      t[static_cast<size_t>(c * rows + r)] = w[static_cast<size_t>(r * columns + c)];
  return t;
}

}  // namespace

std::optional<size_t> StoredWeights(const Node& node) {
  size_t operand = 1;
  if (node.Is("Gather")) {
    if (node.Attr<int64_t>("axis") != 0) return std::nullopt;
    operand = 0;
  } else {
    const QuantOp* op = FindQuantOp(node);
    if (!op || op->role != QuantRole::kWeighted) return std::nullopt;
  }
  const Value* w = node.input(operand);
  if (!w || !w->is_constant() || w->dtype() != DType::kF32) return std::nullopt;
  // A vector, or a stack of matrices, has no axis of channels.
  const int rank = w->constant()->rank();
  const bool fits = node.Is("Conv") || node.Is("ConvTranspose") ? rank >= 3 : rank == 2;
  return fits && w->constant()->num_elements() > 0 ? std::optional(operand) : std::nullopt;
}

Result<WeightWriter::Written> WeightWriter::WriteInt8(const Node& node, size_t operand) {
  const Tensor& w = *node.input(operand)->constant();
  const int axis = ChannelAxis(node, operand);
  const QuantParams params = ChooseWeightParams(w, axis, {DType::kI8, true, false});
  const auto n = static_cast<int64_t>(params.scale.size());
  Written out;
  out.bytes = w.num_elements() + n * 4;
  AttrMap attrs;
  if (axis >= 0) attrs["axis"] = static_cast<int64_t>(axis);
  INFER_ASSIGN(out.weights,
               AddDequantize(editor_, node.input(operand)->name(), QuantizeTensor(w, params),
                             Tensor::Of<float>(axis >= 0 ? Dims{n} : Dims{}, params.scale),
                             std::move(attrs)));
  return out;
}

Result<WeightWriter::Written> WeightWriter::WriteInt4(const Node& node, size_t operand,
                                                      int64_t block) {
  const std::string& name = node.input(operand)->name();
  const Tensor& w = *node.input(operand)->constant();
  const int channels = ChannelAxis(node, operand);
  // The rows of a block matrix are channels. Where channels lie last, codes go back as they lay.
  const bool by_columns = w.rank() == 2 && channels == 1;
  const int64_t first = w.dim(0), second = w.num_elements() / first;
  const std::vector<float> turned =
      by_columns ? Transposed(w.data<float>(), first, second) : std::vector<float>();
  BlockWeights rows{by_columns ? std::span<const float>(turned) : w.data<float>(),
                    by_columns ? second : first, by_columns ? first : second};
  const BlockGrid grid{4, std::min(block, rows.depth), true, true};
  INFER_ASSIGN(const RoundedWeights rounded, MseRounder()({name, {}, rows, grid}));
  const BlockQuantized& q = rounded.q;
  const int64_t blocks = q.blocks();
  Tensor codes(DType::kI4, {first, second});
  Tensor scales(DType::kF32, by_columns ? Dims{blocks, rows.rows} : Dims{rows.rows, blocks});
  const auto scale = scales.mutable_data<float>();
  for (int64_t r = 0; r < rows.rows; ++r) {
    for (int64_t k = 0; k < rows.depth; ++k)
      codes.SetInt(by_columns ? k * rows.rows + r : r * rows.depth + k,
                   q.codes[static_cast<size_t>(r * rows.depth + k)] - grid.middle());
    for (int64_t b = 0; b < blocks; ++b)
      scale[static_cast<size_t>(by_columns ? b * rows.rows + r : r * blocks + b)] =
          q.scales[static_cast<size_t>(r * blocks + b)];
  }
  Written out;
  out.bytes = codes.byte_size() + scales.byte_size();
  AttrMap attrs;
  attrs["axis"] = static_cast<int64_t>(by_columns ? 0 : 1);
  attrs["block_size"] = grid.block;
  INFER_ASSIGN(out.weights,
               AddDequantize(editor_, name, std::move(codes), std::move(scales), std::move(attrs)));
  if (w.rank() == 2) return out;
  const auto rank = static_cast<int64_t>(w.rank());
  Value* const shape = editor_.AddConstant(Tensor::Of<int64_t>({rank}, w.dims()), name + "_shape");
  INFER_ASSIGN(out.weights, editor_.Add("Reshape", {out.weights, shape}));
  return out;
}

Result<int64_t> WeightWriter::Write(Node& node, Precision p) {
  const size_t operand = *StoredWeights(node);
  const auto key =
      std::tuple(static_cast<const Value*>(node.input(operand)), p, ChannelAxis(node, operand));
  auto at = written_.find(key);
  const bool first = at == written_.end();
  if (first) {
    editor_.InsertBefore(*g_.nodes().front());
    INFER_ASSIGN(const Written w,
                 p == Precision::kInt8Weights
                     ? WriteInt8(node, operand)
                     : WriteInt4(node, operand, p == Precision::kInt4Wide ? 256 : 64));
    at = written_.emplace(key, w).first;
  }
  editor_.SetOperand(node, operand, at->second.weights);
  return first ? at->second.bytes : 0;
}

}  // namespace infer
