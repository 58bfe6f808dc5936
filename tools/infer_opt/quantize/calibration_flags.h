#pragma once
/// --observer and --calib-cache: how every mode that calibrates does it.
#include "quant/scheme/quantize.h"
#include "tools/infer_opt/quantize/mode.h"

namespace infer {

struct CalibrationFlags {
  std::string observer = "auto", cache;
  void Declare(Options& o);
  /// All of `options` but the scheme. Makes the folder of the cache. InvalidArgument: no such
  /// observer.
  Status Apply(const QuantizeJob& job, QuantizeOptions& options) const;
};

}  // namespace infer
