/// Bytes between the host and the device, and commands that are kept.
#include <algorithm>
#include <utility>

#include "lib/support/strings.h"
#include "runtime/vulkan/memory/host_copy.h"
#include "runtime/vulkan/record/recording.h"

namespace infer::vulkan {
bool VulkanEncoder::MayWrite(Memory& memory) const {
  // What is recorded so far would run before the host writes, when it is handed over again.
  if (recording_ && !recording_->pieces.empty()) return false;
  return memory.host() && IsIdle();
}

Result<Stage> VulkanEncoder::NewStage(MemoryKind kind, int64_t bytes) {
  if (recording_) {
    INFER_ASSIGN(Stage stage, staging_.ForRecording(kind, bytes));
    if (stage.memory) return stage;
    GiveUpRecording();
  }
  if (!staging_.HasRoom(bytes)) {
    INFER_TRY(Flush());
    INFER_TRY(Recycle(true));
  }
  INFER_ASSIGN(Batch* const batch, Open(QueueFor(kind, bytes)));
  return staging_.ForBatch(kind, bytes, *batch);
}

Status VulkanEncoder::Upload(const BufferView& to, const std::byte* from) {
  if (to.bytes == 0) return {};
  if (replayed_) return Refill(to, from, nullptr);
  INFER_TRY(Recycle(false));
  Memory& memory = MemoryOf(to);
  if (!MayWrite(memory)) return UploadStaged(to, from);
  if (recording_) recording_->refills.push_back({&memory, to.offset, to.bytes, {}});
  CopyOnHost(memory.host() + to.offset, from, to.bytes);
  return memory.Flush(to.offset, to.bytes);
}

Status VulkanEncoder::UploadStaged(const BufferView& to, const std::byte* from) {
  const Memory& memory = MemoryOf(to);
  for (int64_t at = 0; at < to.bytes; at += Staging::kPart) {
    const int64_t bytes = std::min(Staging::kPart, to.bytes - at);
    INFER_ASSIGN(const Stage stage, NewStage(MemoryKind::kUpload, bytes));
    if (recording_) recording_->refills.push_back({&memory, to.offset + at, bytes, stage});
    CopyOnHost(stage.host(), from + at, bytes);
    INFER_TRY(stage.memory->Flush(stage.offset, bytes));
    const int64_t begin = memory.offset() + to.offset + at;
    INFER_TRY(CopyBytes({memory.buffer(), begin, begin + bytes},
                        {stage.memory->buffer(), stage.begin(), stage.begin() + bytes},
                        QueueFor(MemoryKind::kUpload, bytes)));
  }
  return {};
}

Status VulkanEncoder::Download(std::byte* to, const BufferView& from) {
  if (replayed_) return Refill(from, nullptr, to);
  const Memory& memory = MemoryOf(from);
  for (int64_t at = 0; at < from.bytes; at += Staging::kPart) {
    const int64_t bytes = std::min(Staging::kPart, from.bytes - at);
    if (!staging_.HasRoom(bytes) && !recording_) {
      // What waits is brought home, so that its staging buffers can go.
      INFER_ASSIGN(const auto ended, Submit());
      INFER_TRY(ended->Wait());
      INFER_TRY(Recycle(true));
    }
    INFER_ASSIGN(const Stage stage, NewStage(MemoryKind::kDownload, bytes));
    if (recording_) recording_->refills.push_back({&memory, from.offset + at, bytes, stage});
    const int64_t begin = memory.offset() + from.offset + at;
    INFER_TRY(CopyBytes({stage.memory->buffer(), stage.begin(), stage.begin() + bytes},
                        {memory.buffer(), begin, begin + bytes},
                        QueueFor(MemoryKind::kDownload, bytes)));
    downloads_.push_back({to + at, stage.memory, stage.offset, bytes});
  }
  return {};
}

Status VulkanEncoder::BeginRecording() {
  INFER_TRY(Flush());
  staging_.BeginRecording();
  recording_ = std::make_shared<VulkanRecording>();
  order_.Unknown();
  return {};
}

Result<std::shared_ptr<RecordedCommands>> VulkanEncoder::EndRecording() {
  INFER_TRY(Flush());
  if (!recording_) return std::shared_ptr<RecordedCommands>();
  order_.Unknown();
  staging_.DropSpare();
  return std::shared_ptr<RecordedCommands>(std::move(recording_));
}

void VulkanEncoder::GiveUpRecording() {
  // Memory that a larger area replaced is used by what was recorded.
  Batch* const last = open_                        ? open_.get()
                      : recording_->pieces.empty() ? nullptr
                                                   : recording_->pieces.back().get();
  for (const auto& refill : recording_->refills)
    if (last && refill.stage.memory) last->held.push_back(refill.stage.memory);
  for (auto& piece : recording_->pieces) under_way_.push_back(std::move(piece));
  recording_.reset();
}

Status VulkanEncoder::Replay(const std::shared_ptr<RecordedCommands>& recording) {
  INFER_TRY(Flush());
  INFER_TRY(Recycle(false));
  replayed_ = std::static_pointer_cast<VulkanRecording>(recording);
  next_refill_ = 0;
  order_.Unknown();
  const auto writes = [](const auto& refill) { return !refill.stage.memory; };
  if (!IsIdle() && std::any_of(replayed_->refills.begin(), replayed_->refills.end(), writes))
    return Recycle(true);
  return {};
}

Status VulkanEncoder::Refill(const BufferView& view, const std::byte* from, std::byte* to) {
  if (!from && !to) return Internal("a copy without memory of the host");
  for (int64_t at = 0; at < view.bytes;) {
    const auto* const next =
        next_refill_ < replayed_->refills.size() ? &replayed_->refills[next_refill_++] : nullptr;
    if (!next || next->memory != view.memory || next->offset != view.offset + at)
      return Internal("a recording was given other copies than it has");
    const Stage& stage = next->stage;
    if (to) {
      downloads_.push_back({to + at, stage.memory, stage.offset, next->bytes});
    } else if (stage.memory) {
      CopyOnHost(stage.host(), from + at, next->bytes);
      INFER_TRY(stage.memory->Flush(stage.offset, next->bytes));
    } else {
      CopyOnHost(MemoryOf(view).host() + view.offset, from, next->bytes);
      INFER_TRY(MemoryOf(view).Flush(view.offset, next->bytes));
    }
    at += next->bytes;
  }
  return {};
}

}  // namespace infer::vulkan
