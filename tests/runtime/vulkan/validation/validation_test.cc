/// Every shader under the validation layer with synchronization validation: no message.
#include <mutex>

#include "runtime/vulkan/device/gpu.h"
#include "tests/runtime/vulkan/graphs.h"

namespace infer {
namespace {

/// Messages of the layer, which come from any thread.
struct Messages {
  std::mutex mutex;
  std::vector<std::string> list;
  VulkanOptions Options(VulkanOptions options = {}) {
    options.validate = true;
    options.on_message = [this](std::string_view m) {
      const std::lock_guard lock(mutex);
      list.emplace_back(m);
    };
    return options;
  }
};

TEST(Validation, TheLayerSpeaks) {
  Messages messages;
  const auto gpu = vulkan::Gpu::Make(messages.Options());
  ASSERT_TRUE(gpu.ok()) << gpu.status().message();
  const VkBufferCreateInfo nothing{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};  // of no bytes
  VkBuffer buffer = VK_NULL_HANDLE;
  (*gpu)->vk().vkCreateBuffer((*gpu)->device(), &nothing, nullptr, &buffer);
  if (buffer) (*gpu)->vk().vkDestroyBuffer((*gpu)->device(), buffer, nullptr);
  EXPECT_FALSE(messages.list.empty());
}

TEST(Validation, NoMessageOverAllShaders) {
  const VulkanOptions kinds[] = {{},
                                 {.enable = {"dot"}, .stage_all = true},
                                 {.enable = {"dot", "winograd"},
                                  .busy_groups = 300,
                                  .pretend = "discrete",
                                  .transfer_bytes = 1}};
  for (const VulkanOptions& kind : kinds) {
    Messages messages;
    {
      const auto backend = VulkanOver(messages.Options(kind));
      std::vector<const char*> graphs(std::begin(kShaderGraphs), std::end(kShaderGraphs));
      graphs.insert(graphs.end(), std::begin(kCodeGraphs), std::end(kCodeGraphs));
      for (const char* text : graphs) {
        const Graph g = ParsedGraph(text);
        if (g.outputs()[0]->dtype() == DType::kF32) RunAndCompare(*backend, g);
        // A run meets what the one before left behind; the third records its commands for good,
        // and the fourth hands them over again.
        const auto program = *backend->Compile(g, {});
        const auto context = *program->NewContext();
        const auto inputs = InputsOf(g);
        for (int run = 0; run < 4; ++run) {
          for (size_t i = 0; i < inputs.size(); ++i)
            ASSERT_TRUE(context->BindInput(i, inputs[i]).ok());
          ASSERT_TRUE(context->Run({.profile = run == 1}).ok());
        }
      }
    }
    EXPECT_THAT(messages.list, ::testing::IsEmpty());
  }
}

}  // namespace
}  // namespace infer
