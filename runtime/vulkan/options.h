#pragma once
/// Options of a Vulkan device, facts about devices, and faults that tests ask for. No Vulkan header
/// is needed to read it.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/support/status.h"

namespace infer {

/// Calls that a test can let fail. kLose: a submission that the driver answers with
/// VK_ERROR_DEVICE_LOST; a wait that fails does, too.
enum class VulkanCall : uint8_t { kAllocate, kCreatePipeline, kSubmit, kWait, kLose };

struct VulkanOptions {
  /// The number of the device, as ListVulkanDevices counts; -1: the best one that is no CPU, or
  /// the only one.
  int device = -1;
  /// Features that are not used though the device has them: names of VulkanFeatures().
  std::vector<std::string> disable = {};
  /// Features that are used though the driver emulates them (VulkanDeviceInfo::emulated).
  std::vector<std::string> enable = {};
  /// Memory that may be allocated at most, in bytes.
  int64_t memory_bytes = INT64_MAX;
  /// Pretends that the driver leaves this process so many bytes of the device's memory, since other
  /// programs hold the rest: for tests.
  int64_t budget_bytes = INT64_MAX;
  /// Pretends that a shader sees no more bytes of a buffer at once; 0: the device's own limit.
  int64_t max_buffer_bytes = 0;
  /// Workgroups that keep the device busy: products of fewer are split along their common axis.
  /// 0: twice as many as it has compute units; 1 on a CPU.
  int64_t busy_groups = 0;
  /// Pretends that the host cannot map device memory: all bytes go through staging buffers.
  bool stage_all = false;
  /// Of one submission, lest a watchdog takes the device for dead: rounds of all loops of all
  /// invocations, unless one dispatch has more. Some 30 GFLOP of products in the largest tiles.
  int64_t submission_work = int64_t{1} << 30;
  /// "discrete": what only such a device asks of us is pretended of the one that is there, for
  /// tests (device/pretend.h); "": nothing is.
  std::string pretend = {};
  /// Copies between host and device of so many bytes go to a queue for transfers, where there is
  /// one. Fewer are not worth the way from queue to queue.
  int64_t transfer_bytes = int64_t{256} << 10;
  /// Queues for transfers that are used at most. Of one, uploads have it.
  uint32_t transfer_queues = 2;
  /// Convolutions by subgroups on GPUs, too, where shared memory is the faster way: for tests.
  bool subgroups_anywhere = false;
  /// Winograd's algorithm wherever it fits, also where it gains nothing or was not measured: for
  /// tests.
  bool winograd_anywhere = false;
  /// The folder that keeps what the driver made of our shaders; "": none.
  std::string pipeline_cache = {};
  /// Loads the validation layer, with synchronization validation; Unsupported where it is missing.
  bool validate = false;
  /// Is given each message of the validation layer. Called by any thread.
  std::function<void(std::string_view)> on_message = {};
  /// Whether the call fails: as if memory were exhausted, or the device lost. Called by any thread.
  std::function<bool(VulkanCall)> fails = {};
};

/// INFER_VULKAN_DISABLE, INFER_VULKAN_ENABLE (names between commas), INFER_VULKAN_MEMORY (bytes),
/// INFER_VULKAN_BUFFER (bytes), INFER_VULKAN_STAGE_ALL=1, INFER_VULKAN_BUSY_GROUPS (a number),
/// INFER_VULKAN_PRETEND=discrete (then all copies go to the queues for transfers),
/// INFER_VULKAN_TRANSFER_BYTES (bytes) and INFER_VULKAN_TRANSFER_QUEUES (0 to 2),
/// INFER_VULKAN_CACHE (a folder; "": none; infer-opt/vulkan in $XDG_CACHE_HOME or ~/.cache where it
/// is not set), INFER_VULKAN_VALIDATE=1 (messages go to stderr). InvalidArgument for anything that
/// cannot be read.
Result<VulkanOptions> VulkanOptionsFromEnvironment();

struct VulkanFeature {
  std::string_view name;  ///< "int8"
  std::string_view use;   ///< what our kernels do with it
  std::string_view loss;  ///< what a device without it costs
};
/// All features that a kernel asks for.
const std::vector<VulkanFeature>& VulkanFeatures();

struct VulkanHeap {
  int64_t bytes = 0;
  /// Bytes of it that the driver leaves this process now, beside other programs
  /// (VK_EXT_memory_budget); -1: it does not say.
  int64_t free_bytes = -1;
  bool device_local = false;
};

/// A device as its driver describes it.
struct VulkanDeviceInfo {
  int index = 0;
  std::string name, driver, type;  ///< type: "discrete", "integrated", "virtual", "cpu", "other"
  std::string api;                 ///< "1.3.230"
  std::string unfit;               ///< "" or why it cannot run our shaders
  bool chosen = false;             ///< the one that `--device vulkan` takes
  std::vector<VulkanHeap> heaps;
  int64_t max_buffer_bytes = 0;      ///< that a shader can see at once
  int64_t max_allocation_bytes = 0;  ///< of one allocation
  int64_t shared_bytes = 0;          ///< of a workgroup
  int64_t max_invocations = 0;       ///< of a workgroup
  int64_t subgroup = 0;
  int64_t compute_units = 0;  ///< multiprocessors; 0: the driver does not say
  /// Loops of one invocation that the driver runs, in all, before it ends them without a word
  /// (65,535 in Mesa's llvmpipe); 0: no limit is known.
  int64_t max_iterations = 0;
  int64_t queue_families = 0;
  bool has_transfer_queue = false;  ///< a family of queues that only copy
  bool maps_device_memory = false;  ///< some device-local memory can be mapped by the host
  std::vector<std::string> features, missing;  ///< names of VulkanFeatures()
  /// Of `features`, what the driver makes of other instructions: not used unless it is asked for.
  std::vector<std::string> emulated;
};

/// In the driver's order. Unsupported says which of build, loader and driver is missing.
Result<std::vector<VulkanDeviceInfo>> ListVulkanDevices(const VulkanOptions& options = {});

/// What the allocator has handed out.
struct VulkanMemoryUse {
  int64_t allocated_bytes = 0;     ///< of the driver's memory
  int64_t used_bytes = 0;          ///< of them, in live values
  int64_t device_allocations = 0;  ///< of the driver
  int64_t live = 0;                ///< parts that somebody holds
  int64_t peak_bytes = 0;          ///< largest allocated_bytes so far
};

}  // namespace infer
