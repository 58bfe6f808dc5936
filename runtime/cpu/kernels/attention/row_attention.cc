#include "runtime/cpu/kernels/attention/row_attention.h"

#include <algorithm>

#include "lib/support/parallel.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/one_query.h"

namespace infer {
namespace {

/// More queries are faster together.
constexpr int64_t kMostRowQueries = 3;

/// Floats side by side, nothing done to them.
bool IsPlain(const HeadRows& h) {
  return h.dtype == DType::kF32 && h.element == 1 && h.steps.empty();
}

}  // namespace

std::optional<RowAttention> RowAttention::Of(const Attention& attention) {
  if (attention.queries > kMostRowQueries || !IsPlain(attention.k) || !IsPlain(attention.v) ||
      attention.q.dtype != DType::kF32 || attention.y.dtype != DType::kF32 ||
      !attention.y.steps.empty() || !attention.probability.empty())
    return std::nullopt;
  return RowAttention(attention);
}

void RowAttention::Lead(int64_t lead, std::byte* const* args, float* scratch) const {
  const simd::OneQuery& loops = simd::TheOneQuery();
  float* const q = scratch;
  float* const y = q + a_.depth;
  float* const scores = y + a_.values;
  const auto l = static_cast<size_t>(lead);
  const auto from = [&](const HeadRows& h) {
    return As<float>(static_cast<const std::byte*>(args[h.arg])) + h.offset[l];
  };
  for (int64_t i = 0; i < a_.queries; ++i) {
    const int64_t seen = a_.SeenBy(lead, i, 1, args);
    LoadHeadRow(a_.q, a_.q.steps, args[a_.q.arg], lead, i, a_.depth, q, nullptr);
    loops.scores(q, from(a_.k), a_.k.row, seen, a_.depth, 1, scores);
    const double sum = a_.Soften(lead, i, seen, scores, args);
    loops.mix(scores, from(a_.v), a_.v.row, seen, a_.values, y);
    const auto factor = static_cast<float>(sum == 0 ? 0 : 1 / sum);
    for (int64_t e = 0; e < a_.values; ++e) y[e] *= factor;
    a_.StoreResults(lead, i, 1, y, a_.values, nullptr, args);
  }
}

void RowAttention::Run(std::byte* const* args, std::byte* scratch) const {
  const int64_t floats = a_.queries * a_.keys * (a_.depth + a_.values);
  ForRange(a_.leads, std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(1, floats)),
           [&](int64_t begin, int64_t end) {
             for (int64_t lead = begin; lead < end; ++lead)
               Lead(lead, args, As<float>(scratch) + lead * lead_floats());
           });
}

}  // namespace infer
