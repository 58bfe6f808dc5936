#pragma once
/// The dispatch of attention (shaders/attention.comp and attention_row.comp) behind whatever fills
/// its caches.
#include "runtime/plan_ir/groups/attention_plan.h"
#include "runtime/vulkan/kernels/shader_kernel.h"

namespace infer::vulkan {

/// "" or that no shader goes over so many keys.
std::string RefuseManyKeys(const AttentionGeometry& a, const DeviceFacts& facts);
/// Adds it to a launch; the shader's name. Unsupported: more than 2^31 elements. Operands move
/// only: no HeadRows has steps.
Result<std::string> AddAttention(LaunchBuilder& b, const DeviceFacts& facts,
                                 const AttentionGeometry& a);

}  // namespace infer::vulkan
