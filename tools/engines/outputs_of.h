#pragma once
/// A model's outputs as another runtime computes them, for comparisons.
#include <map>
#include <memory>

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

struct EngineOutputs {
  OutputSource outputs;
  Json versions;
  /// What comes with the first outputs: the settings in force, and the outputs that the engine
  /// cannot give, with the reason.
  struct Told {
    Json settings = Json::object();
    std::map<std::string, std::string> left_out;
  };
  std::shared_ptr<const Told> told;
};

/// Starts the engine in a process of its own. The model is loaded with the first inputs, for
/// outputs that are as exact as the engine can compute. `g` tells names and types of inputs and
/// outputs, and must outlive the result. Unsupported: the interpreter or a package is not
/// installed, or what the engine cannot take or run.
Result<EngineOutputs> OutputsOf(const EngineRequest& request, const Graph& g);

}  // namespace infer::peers
