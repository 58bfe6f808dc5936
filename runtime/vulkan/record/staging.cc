#include "runtime/vulkan/record/staging.h"

#include <algorithm>
#include <atomic>

namespace infer::vulkan {
namespace {

int64_t Padded(int64_t bytes) {
  return (bytes + Allocator::kAlignment - 1) / Allocator::kAlignment * Allocator::kAlignment;
}

}  // namespace

std::shared_ptr<Memory> Staging::TakeSpare(MemoryKind kind, int64_t bytes) {
  // One that is read by nobody; a download may wait for its host still.
  const auto fits = [&](const std::shared_ptr<Memory>& m) {
    return m->kind() == kind && m->bytes() >= bytes && m.use_count() == 1;
  };
  auto best = spare_.end();
  for (auto it = spare_.begin(); it != spare_.end(); ++it)
    if (fits(*it) && (best == spare_.end() || (*it)->bytes() < (*best)->bytes())) best = it;
  if (best == spare_.end()) return nullptr;
  std::atomic_thread_fence(std::memory_order_acquire);  // after its last reader, on any thread
  std::shared_ptr<Memory> part = std::move(*best);
  spare_.erase(best);
  return part;
}

Result<Stage> Staging::ForBatch(MemoryKind kind, int64_t bytes, Batch& batch) {
  std::shared_ptr<Memory> part = TakeSpare(kind, bytes);
  if (!part) {
    int64_t waiting = 0;
    for (const auto& m : spare_) waiting += m->bytes();
    if (!HasRoom(waiting + bytes)) spare_.clear();
    INFER_ASSIGN(part, allocator_->Allocate(kind, bytes));
  }
  batch.staged.push_back(part);
  used_ += part->bytes();
  return Stage{std::move(part), 0, bytes};
}

void Staging::TakeBack(Batch& batch) {
  for (auto& m : batch.staged) {
    used_ -= m->bytes();
    spare_.push_back(std::move(m));
  }
  batch.staged.clear();
  batch.held.clear();
}

void Staging::BeginRecording() { up_.used = down_.used = 0; }

Result<Stage> Staging::ForRecording(MemoryKind kind, int64_t bytes) {
  Area& area = kind == MemoryKind::kUpload ? up_ : down_;
  const Area& other = kind == MemoryKind::kUpload ? down_ : up_;
  if (area.used + bytes > area.size()) {
    const int64_t size = std::max(bytes, std::min(2 * area.size(), kMostKept / 2));
    // A larger area replaces at most as much again.
    if (2 * size + other.size() > kMostKept) return Stage{};
    INFER_ASSIGN(area.memory, allocator_->Allocate(kind, size));
    area.used = 0;
  }
  const Stage stage{area.memory, area.used, bytes};
  area.used += Padded(bytes);
  return stage;
}

}  // namespace infer::vulkan
