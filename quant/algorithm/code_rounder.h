#pragma once
/// The ways to choose codes of weights by the second moments of what the layer reads. Static INT8
/// (static_rounding.h) and weight-only rounding (data_rounder.h) try those that they are told to
/// and keep what errs less on rows that none of them saw; the command line, the reports and the
/// recipes' budget know them from this list alone (docs/adding-a-quantization-algorithm.md).
#include <span>
#include <string_view>

#include "lib/support/status.h"
#include "quant/weight_only/block.h"

namespace infer {

struct CodeRounder {
  std::string_view name;  ///< of options and reports: "gptq"
  /// New codes for `q`, whose scales and zero points stay. `h` [depth, depth] is the sum of
  /// products of inputs over `rows` rows of data. Codes below `least` are not used. Not ok, with
  /// the reason: there are no such codes, and `q` is as it was.
  Status (*round)(const BlockWeights& w, std::span<const float> h, int64_t rows, int least,
                  BlockQuantized& q);
  /// The same for blocks, whose scales may follow the codes.
  Status (*round_blocks)(const BlockWeights& w, std::span<const float> h, int64_t rows,
                         BlockQuantized& q);
  double time = 1;  ///< in times of GPTQ's, for budgets
  /// Multiplications and additions for a layer, where they are so many that a limit is set on their
  /// sum (StaticRoundingOptions::max_operations); else nullptr.
  double (*operations)(int64_t rows, int64_t depth) = nullptr;
};

/// The first is the default, and preferred among equals.
std::span<const CodeRounder> CodeRounders();
/// nullptr where there is none of the name.
const CodeRounder* CodeRounderNamed(std::string_view name);

}  // namespace infer
