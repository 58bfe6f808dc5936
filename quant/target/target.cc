#include "quant/target/target.h"

namespace infer {

const std::vector<Target>& Targets() {
  static const std::vector<Target> all = {
      {"ort-1.17", TargetRuntime::kOnnxRuntime, 17, 20, 9},
      {"ort-1.20", TargetRuntime::kOnnxRuntime, 20, 21, 10},
      {"ort-1.21", TargetRuntime::kOnnxRuntime, 21, 22, 10},
      {"ort-1.22", TargetRuntime::kOnnxRuntime, 22, 22, 10},
      {"ort-1.23", TargetRuntime::kOnnxRuntime, 23, 23, 11},
      {"ort-1.24", TargetRuntime::kOnnxRuntime, 24, 25, 13},
      {"ort-1.30", TargetRuntime::kOnnxRuntime, 30, 26, 13},
      // OpenVINO looks up the newest form that it has of each operator, whatever the opset says.
      {"openvino", TargetRuntime::kOpenVino, 0, 27, 99},
      {"infer", TargetRuntime::kOurs, 0, 27, 99},
  };
  return all;
}

const Target* FindTarget(std::string_view name) {
  const Target* found = nullptr;
  for (const Target& t : Targets())
    if (t.name == name || (name == "ort" && t.runtime == TargetRuntime::kOnnxRuntime)) found = &t;
  return found;
}

}  // namespace infer
