#pragma once
/// The compiled shaders (runtime/vulkan/shaders), by the names of runtime/vulkan/CMakeLists.txt.
#include <cstdint>
#include <span>
#include <string_view>

namespace infer::vulkan {

struct ShaderCode {
  std::string_view name;
  std::span<const uint32_t> words;  ///< SPIR-V
  int bindings;                     ///< storage buffers of set 0
};

std::span<const ShaderCode> AllShaders();

/// Which shader, as a position in AllShaders().
enum class Shader : uint16_t {};
/// Pre: the list has the name.
Shader ShaderNamed(std::string_view name);
inline const ShaderCode& CodeOf(Shader shader) { return AllShaders()[static_cast<size_t>(shader)]; }

}  // namespace infer::vulkan
