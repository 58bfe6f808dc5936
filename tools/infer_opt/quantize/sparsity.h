#pragma once
/// --sparsity and --blocks of infer-opt quantize: weights become zero while they are rounded.
#include <memory>

#include "quant/prune/joint.h"
#include "tools/infer_opt/quantize/mode.h"
#include "tools/infer_opt/sparsity_flags.h"

namespace infer {

/// Declares them for quantize.
void DeclareSparsity(Options& o, SparsityFlags& flags);
/// The pruning of the nodes of `job`, which tells its context of progress; nullptr: none is wanted.
/// Errors as Pattern.
Result<std::unique_ptr<JointPruning>> MakePruning(const SparsityFlags& flags,
                                                  const QuantizeJob& job);
/// Prints and reports ("pruning") what was pruned. Pre: it has run.
void TellPruning(Context& context, const JointPruning& pruning, Json& report);

}  // namespace infer
