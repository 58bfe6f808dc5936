#include "quant/search/weights.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "quant/scheme/op_rules.h"
#include "quant/scheme/quant_params.h"
#include "quant/weight_only/write.h"

namespace infer {
namespace {

constexpr int kAccuracyLevel = 4;  // of MatMulNBits: kernels may round activations to 8 bits

/// The axis of the weights with an index per output channel (Gather: per row of the table); -1
/// where no axis is.
int ChannelAxis(const Node& node, size_t operand) {
  return IsTable(node) ? 0 : WeightAxis(node, operand);
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

Tensor ToHalf(const Tensor& w) {
  Tensor half(DType::kF16, w.dims());
  const auto from = w.data<float>();
  const auto to = half.mutable_data<Half>();
  for (size_t i = 0; i < from.size(); ++i) to[i] = Half{FloatToF16(from[i])};
  return half;
}

}  // namespace

std::optional<size_t> StoredWeights(const Node& node) {
  size_t operand = 1;
  if (IsTable(node)) {
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
  const auto layout = WeightLayoutOf(node);
  const bool fits = layout && layout->is_window ? rank >= 3 : rank == 2;
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

Result<WeightWriter::Written> WeightWriter::WriteF16(const Node& node, size_t operand) {
  const std::string& name = node.input(operand)->name();
  Tensor half = ToHalf(*node.input(operand)->constant());
  Written out;
  out.bytes = half.byte_size();
  NodeOptions options;
  options.name = name + "_widened";
  options.output_names = {options.name};
  Value* const stored = editor_.AddConstant(std::move(half), name + "_f16");
  INFER_ASSIGN(out.weights,
               editor_.Add("Cast", {stored}, {{"to", static_cast<int64_t>(DType::kF32)}}, "",
                           std::move(options)));
  return out;
}

WeightWriter::Written WeightWriter::StoreTable(const Node& node, Precision p) {
  const Tensor& table = *node.input(0)->constant();
  const std::string& name = node.input(0)->name();
  Written out;
  if (p == Precision::kF16Weights) {
    Tensor half = ToHalf(table);
    out.bytes = half.byte_size();
    out.weights = editor_.AddConstant(std::move(half), name + "_f16");
    return out;
  }
  const QuantParams params = ChooseWeightParams(table, 0, {DType::kI8, true, false});
  Tensor factors = Tensor::Of<float>({table.dim(0), 1}, params.scale);
  out.bytes = table.num_elements() + factors.byte_size();
  out.weights = editor_.AddConstant(QuantizeTensor(table, params), name + "_quantized");
  out.factors = editor_.AddConstant(std::move(factors), name + "_factors");
  return out;
}

RowsOf::RowsOf(const Node& node, size_t operand) {
  const Tensor& w = *node.input(operand)->constant();
  // The rows of a block matrix are channels. Where channels lie last, codes go back as they lay.
  by_columns_ = w.rank() == 2 && ChannelAxis(node, operand) == 1;
  const int64_t first = w.dim(0), second = w.num_elements() / first;
  if (by_columns_) turned_ = Transposed(w.data<float>(), first, second);
  view_ = {by_columns_ ? std::span<const float>(turned_) : w.data<float>(),
           by_columns_ ? second : first, by_columns_ ? first : second};
}

BlockGrid GridOf(Precision p, int64_t depth) {
  if (IsNBits(p)) return {p == Precision::kInt8NBits ? 8 : 4, 64, true, false};
  return {4, std::min<int64_t>(p == Precision::kInt4Wide ? 256 : 64, depth), true, true};
}

Result<WeightWriter::Written> WeightWriter::WriteInt4(const Node& node, size_t operand,
                                                      const BlockQuantized& q) {
  const std::string& name = node.input(operand)->name();
  const Tensor& w = *node.input(operand)->constant();
  const bool by_columns = w.rank() == 2 && ChannelAxis(node, operand) == 1;
  const BlockGrid& grid = q.grid;
  const int64_t blocks = q.blocks();
  Tensor codes(DType::kI4, {w.dim(0), w.num_elements() / w.dim(0)});
  Tensor scales(DType::kF32, by_columns ? Dims{blocks, q.rows} : Dims{q.rows, blocks});
  const auto scale = scales.mutable_data<float>();
  for (int64_t r = 0; r < q.rows; ++r) {
    for (int64_t k = 0; k < q.depth; ++k)
      codes.SetInt(by_columns ? k * q.rows + r : r * q.depth + k,
                   q.codes[static_cast<size_t>(r * q.depth + k)] - grid.middle());
    for (int64_t b = 0; b < blocks; ++b)
      scale[static_cast<size_t>(by_columns ? b * q.rows + r : r * blocks + b)] =
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

Result<int64_t> WeightWriter::WriteNBits(Node& node, size_t operand, const BlockQuantized& q) {
  WeightGroup group;
  group.source = node.input(operand);
  group.rows_first = ChannelAxis(node, operand) == 0;
  group.rows = q.rows;
  group.depth = q.depth;
  group.grid = q.grid;
  group.readers = {0};
  group.has_product = true;
  WeightPlan plan;
  plan.readers.push_back({&node, operand, WeightUse::kProduct, "", 0});
  WeightScheme scheme;
  scheme.grid = q.grid;
  INFER_ASSIGN(const WrittenWeights written,
               WriteGroup(g_, plan, group, q, scheme, kAccuracyLevel));
  return written.bytes;
}

Result<int64_t> WeightWriter::Write(Node& node, Precision p, const BlockQuantized* rounded) {
  const size_t operand = *StoredWeights(node);
  if (IsNBits(p)) return WriteNBits(node, operand, *rounded);
  const auto key =
      std::tuple(static_cast<const Value*>(node.input(operand)), p, ChannelAxis(node, operand));
  auto at = written_.find(key);
  const bool first = at == written_.end();
  const bool looks_up = IsTable(node) && !IsBlocks(p);
  if (first && looks_up) {
    at = written_.emplace(key, StoreTable(node, p)).first;
  } else if (first) {
    editor_.InsertBefore(*g_.nodes().front());
    INFER_ASSIGN(const Written w, p == Precision::kF16Weights ? WriteF16(node, operand)
                                  : p == Precision::kInt8Weights
                                      ? WriteInt8(node, operand)
                                      : WriteInt4(node, operand, *rounded));
    at = written_.emplace(key, w).first;
  }
  const Written& stored = at->second;
  if (looks_up)
    INFER_TRY(LookUpRows(editor_, node, stored.weights, stored.factors));
  else
    editor_.SetOperand(node, operand, stored.weights);
  return first ? stored.bytes : 0;
}

}  // namespace infer
