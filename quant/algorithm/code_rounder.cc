#include "quant/algorithm/code_rounder.h"

#include <algorithm>
#include <utility>

#include "quant/algorithm/adaround.h"
#include "quant/algorithm/gptq.h"

namespace infer {
namespace {

constexpr int kCodeSweeps = 4, kBlockSweeps = 8;  // of coordinate descent

void Raise(int least, BlockQuantized& q) {
  for (uint8_t& c : q.codes) c = std::max(c, static_cast<uint8_t>(least));
}

/// Where GPTQ fails, coordinate descent goes on from the codes that were there.
Status Gptq(const BlockWeights& w, std::span<const float> h, int64_t rows, int least,
            BlockQuantized& q) {
  BlockQuantized codes = q;
  if (GptqRound(w, h, rows, {}, codes).ok()) q = std::move(codes);
  Raise(least, q);
  RefineCodes(w, h, {.sweeps = kCodeSweeps, .keep_scales = true, .least = least}, q);
  return {};
}

/// In each of the orders; the better one on the data that it was made from.
Status GptqBlocks(const BlockWeights& w, std::span<const float> h, int64_t rows,
                  BlockQuantized& q) {
  BlockQuantized best;
  double least = 0;
  for (const bool act_order : {true, false}) {
    BlockQuantized codes = q;
    GptqOptions options;
    options.act_order = act_order;
    INFER_TRY(GptqRound(w, h, rows, options, codes));
    const double error = OutputError(w, codes, h);
    if (!best.codes.empty() && !(error < least)) continue;
    best = std::move(codes);
    least = error;
  }
  RefineCodes(w, h, {.sweeps = kBlockSweeps}, best);
  q = std::move(best);
  return {};
}

Status AdaRoundCodes(const BlockWeights& w, std::span<const float> h, int64_t /*rows*/, int least,
                     BlockQuantized& q) {
  AdaRound(w, h, {}, q);
  Raise(least, q);
  return {};
}

Status AdaRoundBlocks(const BlockWeights& w, std::span<const float> h, int64_t /*rows*/,
                      BlockQuantized& q) {
  AdaRound(w, h, {}, q);
  return {};
}

constexpr CodeRounder kCodeRounders[] = {
    {"gptq", Gptq, GptqBlocks},
    {"adaround", AdaRoundCodes, AdaRoundBlocks, 8,
     [](int64_t rows, int64_t depth) { return AdaRoundCost(rows, depth, {}); }},
};

}  // namespace

std::span<const CodeRounder> CodeRounders() { return kCodeRounders; }

const CodeRounder* CodeRounderNamed(std::string_view name) {
  const auto* found = std::find_if(std::begin(kCodeRounders), std::end(kCodeRounders),
                                   [&](const CodeRounder& r) { return r.name == name; });
  return found == std::end(kCodeRounders) ? nullptr : found;
}

}  // namespace infer
