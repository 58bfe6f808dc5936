#include "lib/ir/flex_attention.h"

#include <cmath>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

// Letters: B batch, H query heads, G key/value heads (H is a multiple), S queries, T keys, D head
// size, E value head size.

/// The type of scores and probabilities.
Result<DType> ScoreType(const AttrMap& attrs, DType operand) {
  const auto it = attrs.find("softmax_precision");
  if (it == attrs.end()) return operand == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t t = std::get<int64_t>(it->second);
  constexpr TypeSet kAllowed{DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
  if (t < 0 || t >= kNumDTypes || !kAllowed.Has(static_cast<DType>(t)))
    return InvalidModel(Cat("FlexAttention: softmax_precision ", t, " is no float type"));
  return static_cast<DType>(t);
}

/// The shape [B,H,S,T] of the scores.
Result<Shape> ScoreShape(const OpCall& call) {
  std::vector<Dim> dims[3];
  for (size_t i = 0; i < 3; ++i) {
    const Shape& s = call.shape(i);
    if (s.has_rank() && s.rank() != 4)
      return InvalidModel(Cat("FlexAttention: input ", i, " is ", s.ToString(), ", wants rank 4"));
    dims[i] = s.has_rank() ? s.dims() : std::vector<Dim>(4, Dim());
  }
  const auto &q = dims[0], &k = dims[1], &v = dims[2];
  const bool fits = Meet(q[0], k[0]).ok() && Meet(q[0], v[0]).ok() && Meet(k[1], v[1]).ok() &&
                    Meet(k[2], v[2]).ok() && Meet(q[3], k[3]).ok();
  const bool shares = !q[1].is_static() || !k[1].is_static() ||
                      (k[1].value() > 0 && q[1].value() % k[1].value() == 0);
  if (!fits || !shares)
    return InvalidModel(Cat("FlexAttention: Q ", call.shape(0).ToString(), ", K ",
                            call.shape(1).ToString(), " and V ", call.shape(2).ToString(),
                            " do not fit"));
  return Shape({q[0], q[1], q[2], k[2]});
}

Status InferModifier(const Subgraphs& subgraphs, std::string_view attr, const TensorType& scores,
                     std::span<const ValueType* const> captures) {
  for (const auto& [name, g] : subgraphs) {
    if (name != attr) continue;
    const ValueType own[] = {scores};
    INFER_TRY(InferInside(*g, own, captures).In(Cat("FlexAttention: ", attr)));
    if (g->outputs().size() != 1 || !Meet(g->outputs()[0]->type(), own[0]).ok())
      return InvalidModel(Cat("FlexAttention: ", attr, " must give one tensor ", ToString(own[0])));
  }
  return {};
}

Status Modify(const Node& node, std::string_view attr, std::span<const Datum* const> captures,
              Tensor& scores) {
  const Graph* g = node.subgraph(attr);
  if (!g) return {};
  INFER_ASSIGN(auto out, Evaluate(*g, WithCaptures({scores}, captures)));
  if (out.size() != 1 || !out[0].is_tensor() || out[0].tensor().dims() != scores.dims() ||
      out[0].tensor().dtype() != scores.dtype())
    return InvalidModel(Cat("FlexAttention: ", attr, " changes the type of its operand"));
  scores = std::move(out[0].tensor());
  return {};
}

Tensor Softmax(const Tensor& scores) {
  Tensor y(scores.dtype(), scores.dims());
  const int64_t n = scores.dim(3);
  std::vector<double> row(static_cast<size_t>(n));
  for (int64_t first = 0; n > 0 && first < scores.num_elements(); first += n) {
    for (int64_t j = 0; j < n; ++j) row[static_cast<size_t>(j)] = scores.At(first + j);
    const double top = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (double& s : row) sum += s = std::exp(s - top);
    for (int64_t j = 0; j < n; ++j) y.Set(first + j, row[static_cast<size_t>(j)] / sum);
  }
  return y;
}

}  // namespace

Status InferFlexAttention(OpCall& call, const Subgraphs& subgraphs,
                          std::span<const ValueType* const> captures) {
  INFER_ASSIGN(const DType t, ScoreType(call.attrs(), call.dtype(0)));
  INFER_ASSIGN(const Shape s, ScoreShape(call));
  for (const char* attr : {"score_mod", "prob_mod"})
    INFER_TRY(InferModifier(subgraphs, attr, {t, s}, captures));
  const Shape& v = call.shape(2);
  call.SetOut(0, call.dtype(0), Shape({s[0], s[1], s[2], v.has_rank() ? v[3] : Dim()}));
  return {};
}

Result<std::vector<Datum>> EvaluateFlexAttention(const Node& node,
                                                 std::span<const Datum* const> inputs,
                                                 size_t operands) {
  ValueType types[3];
  OpCall call(node.def(), node.attrs(), 3, 1);
  for (size_t i = 0; i < 3; ++i) {
    if (!inputs[i] || !inputs[i]->is_tensor())
      return InvalidModel(Cat("FlexAttention: input ", i, " is not a tensor"));
    types[i] = inputs[i]->tensor().type();
    call.BindInput(i, &types[i]);
  }
  INFER_ASSIGN(const Shape shape, ScoreShape(call));
  const Tensor &q = inputs[0]->tensor(), &k = inputs[1]->tensor(), &v = inputs[2]->tensor();
  INFER_ASSIGN(const DType t, ScoreType(node.attrs(), q.dtype()));
  const int64_t heads = q.dim(1), shared = heads / k.dim(1);
  const int64_t queries = q.dim(2), keys = k.dim(2), d = q.dim(3), e = v.dim(3);
  const double scale = call.HasAttr("scale") ? static_cast<double>(call.Float("scale"))
                                             : 1 / std::sqrt(static_cast<double>(d));
  const auto captures = inputs.subspan(operands);
  Tensor scores(t, shape.static_dims());
  const int64_t rows = q.dim(0) * heads * queries;
  // The key/value head of a row is that of its query head; batches have k.dim(1) of them.
  auto kv_row = [&](int64_t row) { return row / queries / shared * keys; };
  ParallelFor(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t j = 0; j < keys; ++j) {
        double sum = 0;
        for (int64_t i = 0; i < d; ++i) sum += q.At(row * d + i) * k.At((kv_row(row) + j) * d + i);
        scores.Set(row * keys + j, scale * sum);
      }
  });
  INFER_TRY(Modify(node, "score_mod", captures, scores));
  Tensor probabilities = Softmax(scores);
  INFER_TRY(Modify(node, "prob_mod", captures, probabilities));
  Tensor y(q.dtype(), {q.dim(0), heads, queries, e});
  ParallelFor(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t i = 0; i < e; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < keys; ++j)
          sum += probabilities.At(row * keys + j) * v.At((kv_row(row) + j) * e + i);
        y.Set(row * e + i, sum);
      }
  });
  return std::vector<Datum>{std::move(y)};
}

}  // namespace infer
