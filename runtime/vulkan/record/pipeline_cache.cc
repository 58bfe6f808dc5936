#include "runtime/vulkan/record/pipeline_cache.h"

#include <cstring>
#include <filesystem>
#include <system_error>

#include "lib/support/file.h"
#include "lib/support/folder.h"
#include "lib/support/hash.h"
#include "lib/support/path_parts.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/record/shaders.h"

namespace infer::vulkan {
namespace {

constexpr std::string_view kMagic = "INFERVK1";
constexpr uint64_t kMostBytes = uint64_t{1} << 28;

/// Behind the magic; the payload follows.
struct FileHeader {
  uint64_t identity, bytes, checksum;
};

uint64_t HashOfText(std::string_view text, uint64_t seed) {
  return HashBytes(text.data(), text.size(), seed);
}

/// What every driver writes at the front of its data.
bool IsOf(std::string_view payload, const VkPhysicalDeviceProperties& device) {
  VkPipelineCacheHeaderVersionOne h;
  if (payload.size() < sizeof h) return false;
  std::memcpy(&h, payload.data(), sizeof h);
  return h.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && h.vendorID == device.vendorID &&
         h.deviceID == device.deviceID &&
         std::memcmp(h.pipelineCacheUUID, device.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

}  // namespace

std::string PipelineFile(std::string_view identity, std::string_view payload) {
  const FileHeader h{HashOfText(identity, 1), payload.size(), HashOfText(payload, 2)};
  std::string file(kMagic);
  file.append(reinterpret_cast<const char*>(&h), sizeof h);
  file.append(payload);
  return file;
}

Result<std::string> PipelinePayload(std::string_view file, std::string_view identity) {
  FileHeader h;
  if (file.size() < kMagic.size() + sizeof h || !file.starts_with(kMagic))
    return InvalidArgument("no pipeline cache");
  std::memcpy(&h, file.data() + kMagic.size(), sizeof h);
  const std::string_view payload = file.substr(kMagic.size() + sizeof h);
  if (h.identity != HashOfText(identity, 1))
    return InvalidArgument("of another device, driver or build");
  if (h.bytes != payload.size()) return InvalidArgument("its length is wrong");
  if (h.checksum != HashOfText(payload, 2)) return InvalidArgument("its checksum is wrong");
  return std::string(payload);
}

std::string PipelineIdentity(const VkPhysicalDeviceProperties& device) {
  Hasher shaders;
  for (const ShaderCode& s : AllShaders())
    shaders.Add(s.name).Add(HashBytes(s.words.data(), s.words.size_bytes()));
  std::string uuid;
  for (const uint8_t byte : device.pipelineCacheUUID) uuid += Cat(int{byte}, ".");
  return Cat(device.vendorID, "|", device.deviceID, "|", device.driverVersion, "|",
             std::string_view(device.deviceName), "|", uuid, "|", shaders.value());
}

PipelineCache::PipelineCache(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {
  const std::string& folder = gpu_->options().pipeline_cache;
  if (folder.empty()) return;
  identity_ = PipelineIdentity(gpu_->properties());
  path_ = Cat(folder, "/", HashOfText(identity_, 0), ".pipelines");
  state_ = "absent";
  std::error_code absent;
  std::string payload;
  if (std::filesystem::exists(path_, absent)) {
    auto file = ReadFile(path_, kMostBytes);
    auto held = file.ok() ? PipelinePayload(*file, identity_) : Result<std::string>(file.status());
    if (held.ok() && !IsOf(*held, gpu_->properties()))
      held = InvalidArgument("the driver's header is another device's");
    state_ = held.ok() ? "loaded" : Cat("rejected: ", held.status().message());
    if (held.ok()) payload = *std::move(held);
  }
  cache_ = Create(payload);
  if (!cache_ && !payload.empty()) {
    state_ = "rejected: the driver refuses it";
    cache_ = Create({});
  } else {
    loaded_bytes_ = static_cast<int64_t>(payload.size());
  }
}

PipelineCache::~PipelineCache() {
  if (cache_ && !gpu_->forked()) gpu_->vk().vkDestroyPipelineCache(gpu_->device(), cache_, nullptr);
}

VkPipelineCache PipelineCache::Create(std::string_view payload) const {
  VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.initialDataSize = payload.size();
  info.pInitialData = payload.data();
  VkPipelineCache made = VK_NULL_HANDLE;
  const VkResult result = gpu_->vk().vkCreatePipelineCache(gpu_->device(), &info, nullptr, &made);
  return result == VK_SUCCESS ? made : VK_NULL_HANDLE;
}

Status PipelineCache::Save() {
  if (!cache_) return {};
  const VolkDeviceTable& vk = gpu_->vk();
  const std::string folder = FolderOf(path_);
  std::error_code ignored;  // the write says it
  std::filesystem::create_directories(folder, ignored);
  const FolderLock lock(folder);
  std::string held;  // by the file as it is
  if (const auto file = ReadFile(path_, kMostBytes); file.ok()) {
    const auto others = PipelinePayload(*file, identity_);
    if (others.ok() && IsOf(*others, gpu_->properties()))
      if (const VkPipelineCache theirs = Create(*others)) {
        vk.vkMergePipelineCaches(gpu_->device(), cache_, 1, &theirs);
        vk.vkDestroyPipelineCache(gpu_->device(), theirs, nullptr);
        held = *others;
      }
  }
  size_t size = 0;
  INFER_TRY(gpu_->Check(vk.vkGetPipelineCacheData(gpu_->device(), cache_, &size, nullptr),
                        "vkGetPipelineCacheData"));
  std::string payload(size, '\0');
  INFER_TRY(gpu_->Check(vk.vkGetPipelineCacheData(gpu_->device(), cache_, &size, payload.data()),
                        "vkGetPipelineCacheData"));
  payload.resize(size);
  if (payload == held) return {};
  return WriteFileAtomically(path_, PipelineFile(identity_, payload));
}

}  // namespace infer::vulkan
