#pragma once
/// --sparsity and --blocks of infer-opt quantize: weights become zero while they are rounded.
#include <memory>

#include "quant/prune/joint.h"
#include "tools/infer_opt/quantize/mode.h"

namespace infer {

struct SparsityFlags {
  std::string sparsity;  ///< "50%", "0.5" or "2:4"; "": none
  std::string blocks;    ///< "16x4"; "": single weights, or N:M
  void Declare(Options& o);
  bool wanted() const { return !sparsity.empty() || !blocks.empty(); }
  /// InvalidArgument: neither a share above 0 and below 1 nor N:M, or N:M of blocks.
  Result<SparsityPattern> Pattern() const;
};

/// The pruning of the nodes of `job`, which tells its context of progress; nullptr: none is wanted.
/// Errors as Pattern.
Result<std::unique_ptr<JointPruning>> MakePruning(const SparsityFlags& flags,
                                                  const QuantizeJob& job);
/// Prints and reports ("pruning") what was pruned. Pre: it has run.
void TellPruning(Context& context, const JointPruning& pruning, Json& report);

}  // namespace infer
