#include "runtime/vulkan/record/shaders.h"

#include <algorithm>

#include "lib/support/status.h"

namespace infer::vulkan {

Shader ShaderNamed(std::string_view name) {
  const auto all = AllShaders();
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const ShaderCode& s) { return s.name == name; });
  INFER_CHECK(it != all.end());
  return static_cast<Shader>(it - all.begin());
}

}  // namespace infer::vulkan
