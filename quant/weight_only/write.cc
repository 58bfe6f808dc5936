#include "quant/weight_only/write.h"

#include <algorithm>
#include <set>

#include "lib/ir/replacement.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "quant/convert/layers.h"
#include "quant/scheme/names.h"

namespace infer {
namespace {

/// The rows of `table` that `node` looks up.
Result<Value*> RowsLookedUp(GraphEditor& editor, Value* table, const Node& node,
                            std::string_view part) {
  return editor.Add("Gather", {table, node.input(1)}, {{"axis", int64_t{0}}}, "",
                    {.name = Cat(node.name(), part),
                     .output_names = {editor.FreshName(Cat(node.output()->name(), part))}});
}

class GroupWriter {
 public:
  GroupWriter(Graph& g, const WeightPlan& plan, const WeightGroup& group)
      : g_(g), editor_(g), plan_(plan), group_(group), name_(group.source->name()) {}

  Result<WrittenWeights> NBits(const BlockQuantized& q, int accuracy_level) {
    q_ = &q;
    editor_.InsertBefore(*g_.nodes().front());
    const int64_t blocks = q.blocks(), block = q.grid.block, bits = q.grid.bits;
    const int64_t width = group_.has_product ? blocks * block : q.depth;
    std::vector<uint8_t> fill(static_cast<size_t>(q.rows));
    for (int64_t r = 0; r < q.rows; ++r)
      fill[static_cast<size_t>(r)] = q.zero_points[static_cast<size_t>((r + 1) * blocks - 1)];
    Dims dims{q.rows, width * bits / 8};
    if (group_.has_product) dims = {q.rows, blocks, block * bits / 8};
    Value* const codes = Constant(
        PackRows(q.codes, q.rows, q.depth, width, q.grid.bits, fill, dims), name_ + "_codes");
    Value* const scales =
        Constant(Tensor::Of<float>({q.rows, blocks}, q.scales), NameBeside(name_, "scales"));
    Value* zeros = nullptr;
    if (!q.grid.symmetric) {
      const int64_t per_byte = 8 / bits, padded = (blocks + per_byte - 1) / per_byte * per_byte;
      fill.assign(fill.size(), 0);
      zeros = Constant(PackRows(q.zero_points, q.rows, blocks, padded, q.grid.bits, fill,
                                {q.rows, padded * bits / 8}),
                       NameBeside(name_, "zero_points"));
    }
    Value* table = codes;
    if (group_.has_lookup && group_.has_product) {
      Value* const shape =
          Constant(Tensor::Int64s({q.rows, width * bits / 8}), name_ + "_table_shape");
      INFER_ASSIGN(table, editor_.Add("Reshape", {codes, shape}, {}, "",
                                      {.name = name_ + "_Reshape",
                                       .output_names = {editor_.FreshName(name_ + "_table")}}));
    }
    for (const size_t i : group_.readers) {
      const WeightReader& r = plan_.readers[i];
      if (r.use == WeightUse::kLookup)
        INFER_TRY(LookUpNBits(*r.node, table, scales, zeros));
      else
        INFER_TRY(MultiplyNBits(*r.node, codes, scales, zeros, accuracy_level));
    }
    return written_;
  }

  Result<WrittenWeights> Qdq(const BlockQuantized& q) {
    q_ = &q;
    editor_.InsertBefore(*g_.nodes().front());
    const bool first_rows = group_.has_lookup;
    const int64_t blocks = q.blocks();
    const auto per_output = q.grid.block == 0;
    Value* const codes = Constant(Codes(q.codes, q.rows, q.depth, !first_rows), name_ + "_codes");
    const bool by_rows = first_rows && per_output && q.grid.bits == 8 && q.grid.symmetric;
    Tensor scale = Turned<float>(q.scales, q.rows, blocks, !first_rows);
    if (per_output) scale = scale.Reshaped({q.rows});
    Value* factors = nullptr;  // the scales as a column
    if (by_rows) factors = Constant(scale.Reshaped({q.rows, 1}), NameBeside(name_, "factors"));
    Value* scales = nullptr;
    if (!by_rows || group_.has_product) scales = Constant(scale, NameBeside(name_, "scales"));
    Value* zeros = nullptr;
    if (!q.grid.symmetric) {
      Tensor z = Codes(q.zero_points, q.rows, blocks, !first_rows);
      zeros = Constant(per_output ? z.Reshaped({q.rows}) : z, NameBeside(name_, "zero_points"));
    }
    const AttrMap attrs =
        per_output ? AttrMap{{"axis", int64_t{first_rows ? 0 : 1}}}
                   : AttrMap{{"axis", int64_t{first_rows ? 1 : 0}}, {"block_size", q.grid.block}};
    for (const size_t i : group_.readers) {
      const WeightReader& r = plan_.readers[i];
      if (r.use == WeightUse::kLookup && by_rows) {
        INFER_TRY(LookUpRows(editor_, *r.node, codes, factors));
        continue;
      }
      if (r.use == WeightUse::kLookup && q.grid.bits == 8 && !per_output) {
        INFER_TRY(LookUpBytes(*r.node, codes, scales, zeros));
        continue;
      }
      if (!whole_) {
        editor_.InsertBefore(*g_.nodes().front());
        INFER_ASSIGN(whole_,
                     Dequantize(codes, scales, zeros, attrs, NameBeside(name_, "dequantized")));
      }
      if (r.use == WeightUse::kLookup)
        editor_.SetOperand(*r.node, r.operand, whole_);
      else
        INFER_TRY(MultiplyWhole(*r.node, first_rows));
    }
    return written_;
  }

  Result<WrittenWeights> Layer(const Tensor& codes, std::span<const float> scales) {
    editor_.InsertBefore(*g_.nodes().front());
    Value* const c = Constant(codes, name_ + "_codes");
    const Tensor scale = group_.axis < 0
                             ? Tensor::Scalar(scales[0])
                             : Tensor::Of<float>({static_cast<int64_t>(scales.size())}, scales);
    Value* const s = Constant(scale, NameBeside(name_, "scales"));
    const AttrMap attrs =
        group_.axis < 0 ? AttrMap{} : AttrMap{{"axis", static_cast<int64_t>(group_.axis)}};
    INFER_ASSIGN(Value * whole, Dequantize(c, s, nullptr, attrs, NameBeside(name_, "dequantized")));
    for (const size_t i : group_.readers)
      editor_.SetOperand(*plan_.readers[i].node, plan_.readers[i].operand, whole);
    return written_;
  }

 private:
  Value* Constant(Tensor t, std::string_view name) {
    written_.bytes += t.byte_size();
    return editor_.AddConstant(std::move(t), name);
  }

  /// Numbers [rows, columns], or turned round.
  template <typename T>
  static Tensor Turned(std::span<const T> x, int64_t rows, int64_t columns, bool turn) {
    if (!turn) return Tensor::Of<T>({rows, columns}, x);
    Tensor t(DTypeOf<T>(), {columns, rows});
    const auto out = t.mutable_data<T>();
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c)
        out[static_cast<size_t>(c * rows + r)] = x[static_cast<size_t>(r * columns + c)];
    return t;
  }
  template <typename T>
  static Tensor Turned(const std::vector<T>& x, int64_t rows, int64_t columns, bool turn) {
    return Turned<T>(std::span<const T>(x), rows, columns, turn);
  }

  /// Codes in ONNX's types: signed around 0 where the grid is symmetric.
  Tensor Codes(const std::vector<uint8_t>& codes, int64_t rows, int64_t columns, bool turn) const {
    const BlockGrid& grid = q_->grid;
    Tensor bytes = Turned<uint8_t>(codes, rows, columns, turn);
    const bool four = grid.bits == 4;
    if (!grid.symmetric) return four ? Nibbles(bytes, DType::kU4, 0) : bytes;
    if (four) return Nibbles(bytes, DType::kI4, grid.middle());
    Tensor t(DType::kI8, bytes.dims());
    const auto from = bytes.data<uint8_t>();
    const auto to = t.mutable_data<int8_t>();
    for (size_t i = 0; i < from.size(); ++i)
      to[i] = static_cast<int8_t>(static_cast<int>(from[i]) - grid.middle());
    return t;
  }

  /// Two elements a byte, the first in the low bits; `zero` is taken from each.
  static Tensor Nibbles(const Tensor& bytes, DType type, int zero) {
    Tensor t = Tensor::Zeros(type, bytes.dims());
    const auto from = bytes.data<uint8_t>();
    std::byte* const to = t.mutable_raw();
    for (size_t i = 0; i < from.size(); ++i) {
      const auto code = static_cast<unsigned>(static_cast<int>(from[i]) - zero) & 15u;
      to[i / 2] |= static_cast<std::byte>(code << (i % 2 * 4));
    }
    return t;
  }

  Result<Value*> Dequantize(Value* codes, Value* scales, Value* zeros, AttrMap attrs,
                            const std::string& name) {
    std::vector<Value*> operands{codes, scales};
    if (zeros) operands.push_back(zeros);
    return editor_.Add("DequantizeLinear", std::move(operands), std::move(attrs), "",
                       {.output_names = {editor_.FreshName(name)}});
  }

  Status LookUpNBits(Node& node, Value* table, Value* scales, Value* zeros) {
    editor_.InsertBefore(node);
    std::vector<Value*> operands{table, node.input(1), scales};
    if (zeros) operands.push_back(zeros);
    INFER_ASSIGN(Value * y, editor_.Add("GatherBlockQuantized", std::move(operands),
                                        {{"bits", int64_t{q_->grid.bits}},
                                         {"block_size", q_->grid.block},
                                         {"gather_axis", int64_t{0}},
                                         {"quantize_axis", int64_t{1}}},
                                        kMicrosoft, NamesOf(node)));
    return ReplaceNode(editor_, node, y);
  }

  Status MultiplyNBits(Node& node, Value* codes, Value* scales, Value* zeros, int accuracy_level) {
    editor_.InsertBefore(node);
    Value* bias = WeightLayoutOf(node)->has_bias ? node.input(2) : nullptr;
    Value* later = nullptr;  // a bias that is no vector of one number per column
    if (bias && !(bias->shape().has_rank() && bias->shape().rank() == 1 &&
                  bias->shape()[0] == Dim(q_->rows))) {
      if (bias->is_constant() && bias->constant()->num_elements() == q_->rows &&
          (bias->shape().rank() == 1 || bias->shape()[-1] == Dim(q_->rows)))
        bias = editor_.AddConstant(bias->constant()->Reshaped({q_->rows}), bias->name());
      else
        later = std::exchange(bias, nullptr);
    }
    std::vector<Value*> operands{node.input(0), codes, scales};
    if (zeros || bias) operands.push_back(zeros);
    if (bias) operands.insert(operands.end(), {nullptr, bias});
    INFER_ASSIGN(Value * y, editor_.Add("MatMulNBits", std::move(operands),
                                        {{"K", q_->depth},
                                         {"N", q_->rows},
                                         {"accuracy_level", int64_t{accuracy_level}},
                                         {"bits", int64_t{q_->grid.bits}},
                                         {"block_size", q_->grid.block}},
                                        kMicrosoft, NamesOf(node)));
    if (later) {
      INFER_ASSIGN(y, editor_.Add("Add", {y, later}, {}, "", NamesOf(node)));
    }
    return ReplaceNode(editor_, node, y);
  }

  /// The rows that are wanted, of codes and of scales, and only they are dequantized.
  Status LookUpBytes(Node& node, Value* codes, Value* scales, Value* zeros) {
    editor_.InsertBefore(node);
    Value* parts[] = {codes, scales, zeros};
    constexpr std::string_view kParts[] = {"_codes", "_scales", "_zero_points"};
    for (size_t i = 0; i < 3; ++i) {
      if (!parts[i]) continue;
      INFER_ASSIGN(parts[i], RowsLookedUp(editor_, parts[i], node, kParts[i]));
    }
    INFER_ASSIGN(Value * y, Dequantize(parts[0], parts[1], parts[2],
                                       {{"axis", int64_t{-1}}, {"block_size", q_->grid.block}},
                                       node.output()->name() + "_dequantized"));
    return ReplaceNode(editor_, node, y);
  }

  Status MultiplyWhole(Node& node, bool first_rows) {
    if (node.def().FindAttr("transB")) {
      editor_.SetAttr(node, "transB", int64_t{first_rows ? 1 : 0});
      editor_.SetOperand(node, 1, whole_);
      return {};
    }
    if (first_rows && !turned_) {
      editor_.InsertAfter(*whole_->producer());
      INFER_ASSIGN(turned_,
                   editor_.Add("Transpose", {whole_}, {{"perm", std::vector<int64_t>{1, 0}}}, "",
                               {.name = name_ + "_Transpose",
                                .output_names = {editor_.FreshName(name_ + "_transposed")}}));
    }
    editor_.SetOperand(node, 1, first_rows ? turned_ : whole_);
    return {};
  }

  Graph& g_;
  GraphEditor editor_;
  const WeightPlan& plan_;
  const WeightGroup& group_;
  const std::string name_;
  const BlockQuantized* q_ = nullptr;
  Value* whole_ = nullptr;   // dequantized
  Value* turned_ = nullptr;  // and transposed
  WrittenWeights written_;
};

}  // namespace

Tensor PackRows(std::span<const uint8_t> codes, int64_t rows, int64_t depth, int64_t width,
                int bits, std::span<const uint8_t> fill, Dims dims) {
  const int64_t per_byte = 8 / bits, bytes = width / per_byte;
  Tensor t(DType::kU8, std::move(dims));
  INFER_CHECK(t.num_elements() == rows * bytes);
  const auto out = t.mutable_data<uint8_t>();
  ParallelFor(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t j = 0; j < bytes; ++j) {
        unsigned byte = 0;
        for (int64_t i = 0; i < per_byte; ++i) {
          const int64_t k = j * per_byte + i;
          const unsigned code =
              k < depth ? codes[static_cast<size_t>(r * depth + k)] : fill[static_cast<size_t>(r)];
          byte |= code << (i * bits);
        }
        out[static_cast<size_t>(r * bytes + j)] = static_cast<uint8_t>(byte);
      }
  });
  return t;
}

Status LookUpRows(GraphEditor& editor, Node& gather, Value* table, Value* factors) {
  editor.InsertBefore(gather);
  INFER_ASSIGN(Value * rows, RowsLookedUp(editor, table, gather, "_codes"));
  NodeOptions names = NamesOf(gather);
  if (!factors) {
    INFER_ASSIGN(Value * y, editor.Add("Cast", {rows}, {{"to", static_cast<int64_t>(DType::kF32)}},
                                       "", std::move(names)));
    return ReplaceNode(editor, gather, y);
  }
  INFER_ASSIGN(Value * numbers, AddCast(editor, rows, DType::kF32, rows->name() + "_cast"));
  INFER_ASSIGN(Value * by, RowsLookedUp(editor, factors, gather, "_factors"));
  INFER_ASSIGN(Value * y, editor.Add("Mul", {numbers, by}, {}, "", std::move(names)));
  return ReplaceNode(editor, gather, y);
}

Result<WrittenWeights> WriteGroup(Graph& g, const WeightPlan& plan, const WeightGroup& group,
                                  const BlockQuantized& q, const WeightScheme& scheme,
                                  int accuracy_level) {
  GroupWriter writer(g, plan, group);
  return scheme.format == WeightFormat::kNBits ? writer.NBits(q, accuracy_level) : writer.Qdq(q);
}

Result<WrittenWeights> WriteLayerGroup(Graph& g, const WeightPlan& plan, const WeightGroup& group,
                                       const Tensor& codes, std::span<const float> scales) {
  return GroupWriter(g, plan, group).Layer(codes, scales);
}

}  // namespace infer
