#pragma once
/// Conformance cases on disk and the reviewed list of those that are not run.
#include <string>
#include <vector>

#include "lib/support/status.h"

namespace infer::conformance {

struct Case {
  std::string name;          ///< "node/test_abs": the folders below the given one
  std::string model;         ///< path of the model
  std::string op;            ///< the operator of a model of one node, else "(model)"
  std::string light_output;  ///< set for a model without input files: the input is arange(n) / n
};

/// Every case below `dir`, by name: folders with model.onnx and test_data_set_0, and the
/// light_NAME.onnx / light_NAME_output_0.pb pairs of ONNX's full-size graphs.
Result<std::vector<Case>> FindCases(const std::string& dir);

struct Skip {
  std::string glob;
  std::string digest;  ///< "" or how the SHA-256 of the first stored output begins: only that file
  std::string backend, reason;
};
/// Lines "glob[@digest] | backend or * | reason"; '#' begins a comment. InvalidArgument without a
/// reason.
Result<std::vector<Skip>> ReadSkips(const std::string& path);
bool Applies(const Skip& skip, const Case& c, const std::string& backend);

}  // namespace infer::conformance
