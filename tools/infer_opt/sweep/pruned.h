#pragma once
/// Pruned variants of a sweep: alone (mode "prune"), or pruned and quantized.
#include "quant/calibrate/samples.h"
#include "tools/infer_opt/quantize/sparsity.h"
#include "tools/infer_opt/sweep/variant.h"

namespace infer {

/// The pseudo mode of a variant that is pruned and not quantized.
inline constexpr const char* kPruneMode = "prune";

/// Options of a variant: "--sparsity 50%" and "--flops 70%" (channels leave until so many of the
/// FLOPs stay).
struct PrunedFlags {
  SparsityFlags sparsity;
  double flops = -1;  ///< < 0: no channel leaves
  void Declare(Options& o);
  /// InvalidArgument: a value out of range. Of a variant that is only pruned: nothing to do.
  Status Check(bool pruned_alone) const;
};

/// "sparse-50" and "sparse-50-int8" of each share or N:M of `sparsities`, "narrow-70" and
/// "narrow-70-int8" of each share of `flops`. InvalidArgument: no share, or one that is twice
/// there.
Result<std::vector<VariantSpec>> PrunedVariants(const std::vector<std::string>& sparsities,
                                                const std::vector<std::string>& flops);

/// Removes channels, and of a variant that is only pruned sets weights to zero: what comes before
/// the mode. Errors as PruneChannels and PruneModel.
Status PruneFirst(const PrunedFlags& flags, bool pruned_alone, const QuantizeJob& job, Graph& g);

/// The share of zeros in the weights of layers; nullopt: there are no weights that are known.
std::optional<double> ZerosOf(const Graph& g);

/// "50%", "2:4", "70% of the FLOPs" or "none": what the arguments of a variant prune.
std::string PruningOf(const VariantSpec& spec);

}  // namespace infer
