#include "lib/ops/quantized/packed_weights.h"

#include "lib/ops/common.h"
#include "lib/ops/fused/nbits.h"
#include "lib/ops/matmul/matmul.h"
#include "lib/ops/move/move.h"
#include "lib/ops/quantized/quant_reference.h"

namespace infer {
namespace {

using Found = Result<std::vector<PackedWeights>>;

/// Where codes and zero points stand.
struct CodeOperands {
  size_t codes, zero;
};

/// Codes whose zero points run along `axis` (negative: from the end).
Found Codes(const OpCall& call, CodeOperands at, int axis, const WeightLayout& layout) {
  const Tensor *const q = call.constant(at.codes), *const z = call.constant(at.zero);
  if (!q || (call.has_input(at.zero) && !z)) return std::vector<PackedWeights>();
  INFER_ASSIGN(Tensor numbers, Centered(*q, z, axis < 0 ? std::max(axis + q->rank(), 0) : axis));
  return std::vector<PackedWeights>{{at.codes, std::move(numbers), layout, true}};
}

/// Weights that are numbers already.
Found Plain(const OpCall& call, const WeightLayout& layout) {
  const Tensor* const w = call.constant(1);
  if (!w) return std::vector<PackedWeights>();
  return std::vector<PackedWeights>{{1, w->Cast(DType::kF32), layout}};
}

/// [M, C/group, ...].
WeightLayout ConvLayout(const OpCall& call) {
  return {
      .data_axis = 1, .in_axis = 1, .out_axis = 0, .groups = call.Int("group"), .is_window = true};
}

/// [K, N], with transB [N, K].
WeightLayout GemmLayout(const OpCall& call) {
  const bool rows_first = call.Int("transB") != 0;
  return {.in_axis = rows_first ? 1 : 0, .out_axis = rows_first ? 0 : 1};
}

template <size_t kCodes, size_t kZero>
Found OfConv(const OpCall& call) {
  return Codes(call, {kCodes, kZero}, 0, ConvLayout(call));
}

template <size_t kCodes, size_t kZero>
Found OfMatMul(const OpCall& call) {
  return Codes(call, {kCodes, kZero}, -1, {});
}

Found OfQGemm(const OpCall& call) {
  const WeightLayout layout = GemmLayout(call);
  return Codes(call, {3, 5}, layout.out_axis, layout);
}

/// W and R are [D, K, 4 H], their zero points [D] or [D, 4 H].
Found OfQuantizedLstm(const OpCall& call) {
  std::vector<PackedWeights> found;
  for (const CodeOperands at : {CodeOperands{1, 9}, CodeOperands{2, 11}}) {
    const Tensor *const q = call.constant(at.codes), *const zero = call.constant(at.zero);
    if (!q || !zero) continue;
    const Tensor z = zero->Reshaped({zero->dim(0), 1, zero->rank() == 2 ? zero->dim(1) : 1});
    INFER_ASSIGN(Tensor numbers, Centered(*q, &z, 0));
    found.push_back({at.codes, std::move(numbers), {}, true});
  }
  return found;
}

Found OfNBits(const OpCall& call) {
  const Tensor *const codes = call.constant(1), *const zeros = call.constant(3),
                      *const groups = call.constant(4);
  if (!codes || (call.has_input(3) && !zeros) || (call.has_input(4) && !groups))
    return std::vector<PackedWeights>();
  INFER_ASSIGN(const NBits w, ReadNBits(call));
  INFER_ASSIGN(Tensor numbers, UnpackNBits(w, {codes, nullptr, zeros, groups}));
  return std::vector<PackedWeights>{{1, std::move(numbers), {.in_axis = 1, .out_axis = 0}, true}};
}

Found OfFusedConv(const OpCall& call) { return Plain(call, ConvLayout(call)); }

Found OfFusedGemm(const OpCall& call) { return Plain(call, GemmLayout(call)); }

Found OfFusedMatMul(const OpCall& call) {
  const Tensor* const w = call.constant(1);
  if (!w) return std::vector<PackedWeights>();
  return std::vector<PackedWeights>{
      {1, Transposed(w->Cast(DType::kF32), FusedMatMulAxes(call, w->rank(), 1)), {}}};
}

struct PackedRow {
  std::string_view name, domain;
  Found (*find)(const OpCall& call);
};

constexpr PackedRow kPacked[] = {
    {"ConvInteger", "", OfConv<1, 3>},      {"MatMulInteger", "", OfMatMul<1, 3>},
    {"QLinearConv", "", OfConv<3, 5>},      {"QLinearMatMul", "", OfMatMul<3, 5>},
    {"QGemm", kMicrosoft, OfQGemm},         {"DynamicQuantizeLSTM", kMicrosoft, OfQuantizedLstm},
    {"MatMulNBits", kMicrosoft, OfNBits},   {"FusedConv", kMicrosoft, OfFusedConv},
    {"FusedGemm", kMicrosoft, OfFusedGemm}, {"FusedMatMul", kMicrosoft, OfFusedMatMul},
};

}  // namespace

Result<std::vector<PackedWeights>> PackedWeightsOf(const OpCall& call) {
  for (const PackedRow& row : kPacked)
    if (row.name == call.def().name && row.domain == call.def().domain) return row.find(call);
  return std::vector<PackedWeights>();
}

}  // namespace infer
