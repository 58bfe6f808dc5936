#pragma once
/// The runtimes that a file can be made for. What each reads was measured with its Python package
/// (docs/quantization.md, "Targets").
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace infer {

enum class TargetRuntime : uint8_t { kOnnxRuntime, kOpenVino, kOurs };

struct Target {
  std::string_view name;  ///< as --target spells it
  TargetRuntime runtime;
  int minor = 0;       ///< of ONNX Runtime 1.x
  int opset = 0;       ///< the newest that it reads
  int ir_version = 0;  ///< the newest that it reads
};

/// The OpenVINO that was measured.
inline constexpr std::string_view kOpenVinoVersion = "2026.4";

/// Every target; of one runtime the newest comes last.
const std::vector<Target>& Targets();
/// nullptr: no target of that name. "ort" is the newest ONNX Runtime of the table.
const Target* FindTarget(std::string_view name);

}  // namespace infer
