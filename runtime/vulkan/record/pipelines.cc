#include "runtime/vulkan/record/pipelines.h"

#include <chrono>

#include "lib/support/strings.h"

namespace infer::vulkan {

Pipelines::~Pipelines() {
  if (gpu_->forked()) return;
  SaveLocked();
  const VolkDeviceTable& vk = gpu_->vk();
  for (auto& [key, p] : pipelines_) vk.vkDestroyPipeline(gpu_->device(), p.pipeline, nullptr);
  for (auto& [bindings, l] : layouts_) {
    vk.vkDestroyPipelineLayout(gpu_->device(), l.pipeline, nullptr);
    vk.vkDestroyDescriptorSetLayout(gpu_->device(), l.set, nullptr);
  }
}

Result<Pipelines::Layouts> Pipelines::LayoutsFor(int bindings) {
  if (const auto it = layouts_.find(bindings); it != layouts_.end()) return it->second;
  const VolkDeviceTable& vk = gpu_->vk();
  std::vector<VkDescriptorSetLayoutBinding> list(static_cast<size_t>(bindings));
  for (size_t i = 0; i < list.size(); ++i)
    list[i] = {static_cast<uint32_t>(i), VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
               VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  VkDescriptorSetLayoutCreateInfo set{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  set.bindingCount = static_cast<uint32_t>(bindings);
  set.pBindings = list.data();
  Layouts made;
  INFER_TRY(gpu_->Check(vk.vkCreateDescriptorSetLayout(gpu_->device(), &set, nullptr, &made.set),
                        "vkCreateDescriptorSetLayout"));
  const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushBytes};
  VkPipelineLayoutCreateInfo layout{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &made.set;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &push;
  if (Status s =
          gpu_->Check(vk.vkCreatePipelineLayout(gpu_->device(), &layout, nullptr, &made.pipeline),
                      "vkCreatePipelineLayout");
      !s.ok()) {
    vk.vkDestroyDescriptorSetLayout(gpu_->device(), made.set, nullptr);
    return s;
  }
  return layouts_[bindings] = made;
}

Result<VkPipeline> Pipelines::Make(const ShaderCode& code, VkPipelineLayout layout,
                                   const std::vector<int32_t>& constants) {
  if (gpu_->Fails(VulkanCall::kCreatePipeline))
    return StatusOf(VK_ERROR_OUT_OF_HOST_MEMORY, Cat("pipeline of ", code.name));
  const VolkDeviceTable& vk = gpu_->vk();
  VkShaderModuleCreateInfo module_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  module_info.codeSize = code.words.size_bytes();
  module_info.pCode = code.words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  INFER_TRY(gpu_->Check(vk.vkCreateShaderModule(gpu_->device(), &module_info, nullptr, &module),
                        Cat("shader ", code.name)));
  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t i = 0; i < constants.size(); ++i) entries.push_back({i, i * 4, 4});
  const VkSpecializationInfo specialization{static_cast<uint32_t>(entries.size()), entries.data(),
                                            constants.size() * 4, constants.data()};
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                nullptr,
                0,
                VK_SHADER_STAGE_COMPUTE_BIT,
                module,
                "main",
                &specialization};
  info.layout = layout;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const auto begin = std::chrono::steady_clock::now();
  const VkResult result =
      vk.vkCreateComputePipelines(gpu_->device(), cache_.handle(), 1, &info, nullptr, &pipeline);
  made_ms_ +=
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  vk.vkDestroyShaderModule(gpu_->device(), module, nullptr);
  INFER_TRY(gpu_->Check(result, Cat("pipeline of ", code.name)));
  return pipeline;
}

PipelineInfo Pipelines::info() const {
  const std::lock_guard lock(mutex_);
  return {static_cast<int64_t>(pipelines_.size()), made_ms_, cache_.state(), cache_.loaded_bytes()};
}

void Pipelines::Save() {
  const std::lock_guard lock(mutex_);
  SaveLocked();
}

void Pipelines::SaveLocked() {
  if (pipelines_.size() == saved_ || gpu_->lost()) return;
  static_cast<void>(cache_.Save());
  saved_ = pipelines_.size();
}

Result<const Pipeline*> Pipelines::Get(Shader shader, const std::vector<int32_t>& constants) {
  const std::lock_guard lock(mutex_);
  const auto key = std::pair(shader, constants);
  if (const auto it = pipelines_.find(key); it != pipelines_.end()) return &it->second;
  const ShaderCode& code = CodeOf(shader);
  INFER_ASSIGN(const Layouts layouts, LayoutsFor(code.bindings));
  INFER_ASSIGN(const VkPipeline made, Make(code, layouts.pipeline, constants));
  return &(pipelines_[key] = {made, layouts.pipeline, layouts.set, code.bindings});
}

}  // namespace infer::vulkan
