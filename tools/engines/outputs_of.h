#pragma once
/// A model's outputs as another runtime computes them, for comparisons.
#include "quant/accuracy/compare.h"
#include "tools/common/report.h"

namespace infer::peers {

struct EngineRequest {
  std::string engine = "ort";  ///< its file is ENGINE_worker.py
  std::string python;          ///< the interpreter that has the engine's packages
  std::string model;           ///< file
  int threads = 1;
  double timeout_s = 300;  ///< of one answer
  std::stop_token stop = {};
};

/// Starts the engine in a process of its own, and asks it for its versions, which `versions` gets.
/// The model is loaded with the first inputs. `g` tells names and types of inputs and outputs, and
/// must outlive the result. Unsupported: the interpreter or a package is not installed, or text.
Result<OutputSource> OutputsOf(const EngineRequest& request, const Graph& g, Json& versions);

}  // namespace infer::peers
