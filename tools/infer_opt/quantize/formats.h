#pragma once
/// Integer types and file formats of --mode static.
#include "quant/scheme/plan.h"
#include "tools/infer_opt/quantize/mode.h"

namespace infer {

/// --activations, --symmetric-activations, --weights.
struct TypeFlags {
  std::string activations = "u8", weights = "s8";
  bool symmetric = false;
  void Declare(Options& o);
  /// Sets the types of `scheme`. InvalidArgument: types that no runtime multiplies, or that
  /// `format` has no operators for.
  Status Apply(const std::string& format, QuantScheme& scheme) const;
};

/// Turns the QDQ graph into job.format; what stayed float goes to `done` and to `report`.
Status WriteFormat(const QuantizeJob& job, Graph& g, QuantizeReport& done, Json& report);

}  // namespace infer
