#pragma once
/// What the attention operators of com.microsoft share: checks of their operands, and scores with
/// masks and biases as ONNX Runtime has them.
#include "lib/ops/attention/attention_reference.h"
#include "lib/ops/axes.h"
#include "lib/ops/op_def.h"

namespace infer {

/// Element types that these operators compute with.
inline constexpr TypeSet kAttentionReal{DType::kF32, DType::kF16, DType::kBF16};

/// Operands of com.microsoft.GroupQueryAttention.
struct GroupInput {
  enum : size_t {
    kQuery,
    kKey,
    kValue,
    kPastKey,
    kPastValue,
    kLengths,  // per sample, its last position
    kTotal,
    kCos,
    kSin,
    kPositions,
    kBias,
    kSink,
    kKScale,
    kVScale,
    kQNorm,
    kKNorm
  };
};

/// Extent d of input i; unknown where the input or its rank is.
Dim Extent(const OpCall& call, size_t i, int d);
/// InvalidModel unless input i, where it stands, can be `want`.
Status WantShape(const OpCall& call, size_t i, std::vector<Dim> want);
/// Unsupported when input i stands.
Status RefuseInput(const OpCall& call, size_t i, std::string_view why);
/// Attribute num_heads. InvalidModel when it is no number of heads.
Result<int64_t> HeadCount(const OpCall& call);
/// InvalidModel unless a hidden size splits into heads.
Status WantMultiple(const Dim& hidden, int64_t heads);

/// Masks of keys that only some operators take.
struct MaskForms {
  bool starts = false;  ///< [2 B]: ends, then starts
  bool dummy = false;   ///< [B or 1, 1] says nothing
};
/// Input i is a mask for batch b, queries s and keys t: lengths [B], or what is not 0 is seen:
/// [B, T], [B, S, T]. Unsupported for any other form.
Status CheckMask(const OpCall& call, size_t i, MaskForms forms, const Dim& b, const Dim& s,
                 const Dim& t);
/// Input i can be added to the scores: [B or 1, N or 1, S, T].
Status CheckBias(const OpCall& call, size_t i, const Dim& b, const Dim& n, const Dim& s,
                 const Dim& t);

/// bias[offset + head * size + e] added to every row.
void AddBias(Heads& h, const Tensor& bias, int64_t offset);
/// Attention of p.q to p.k and p.v, of which the first `past` are older than all queries. Scale,
/// mask_filter_value and unidirectional are attributes. A key that the mask hides gets
/// mask_filter_value added to its score, so that a query that sees none still attends; a key in the
/// future (unidirectional) has no part at all.
AttentionResult Attend(const OpRun& run, AttentionProblem& p, const Tensor* mask,
                       const Tensor* bias, int64_t past, ScoreStage stage);

/// Links `heads` heads that stand along `from` of an operand to those of result 0, [B, S, hidden]
/// of static `hidden`, and, where `out` is a result with heads along axis 1 (a cache, scores), to
/// these.
void LinkHeads(const OpCall& call, const LabelledAxis& from, int64_t heads, size_t out,
               AxisLinks& links);
/// Heads along the last axis of an operand [B, L, heads * size], or along axis 1 of one of rank 4.
/// Nothing where it is absent, or not so.
void LinkHeadsOf(const OpCall& call, size_t operand, int64_t heads, size_t out, AxisLinks& links);

/// `c` with the FLOPs of attention, where all is known. `d` and `e` are hidden sizes.
Cost FlopsOf(Cost c, const Dim& b, const Dim& n, const Dim& s, const Dim& t, const Dim& d,
             const Dim& e);

}  // namespace infer
