#pragma once
/// --sparsity and --blocks of infer-opt prune and quantize.
#include <string>

#include "quant/prune/pattern.h"

namespace infer {

struct SparsityFlags {
  std::string sparsity;  ///< "50%", "0.5" or "2:4"; "": none
  std::string blocks;    ///< "16x4"; "": single weights, or N:M
  bool wanted() const { return !sparsity.empty() || !blocks.empty(); }
  /// InvalidArgument: neither a share above 0 and below 1 nor N:M, or N:M of blocks.
  Result<SparsityPattern> Pattern() const;
};

}  // namespace infer
