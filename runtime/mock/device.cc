#include "runtime/mock/device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "lib/support/exceptions.h"

namespace infer::mock {
namespace {

constexpr std::byte kScramble{0xA5};
/// Long enough for a host that does not wait to see old data.
constexpr std::chrono::microseconds kLate{20};

}  // namespace

Device::Device(int64_t arena_bytes)
    : arena_(static_cast<size_t>(arena_bytes)), thread_([this] { Loop(); }) {}

Device::~Device() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Device::Load(DevicePtr from, std::byte* to, int64_t bytes) const {
  INFER_CHECK(from.offset >= 0 && from.offset + bytes <= static_cast<int64_t>(arena_.size()));
  for (int64_t i = 0; i < bytes; ++i)
    to[i] = arena_[static_cast<size_t>(from.offset + i)] ^ kScramble;
}

void Device::Store(DevicePtr to, const std::byte* from, int64_t bytes) {
  INFER_CHECK(to.offset >= 0 && to.offset + bytes <= static_cast<int64_t>(arena_.size()));
  for (int64_t i = 0; i < bytes; ++i)
    arena_[static_cast<size_t>(to.offset + i)] = from[i] ^ kScramble;
}

void Device::Upload(DevicePtr to, const std::byte* from, int64_t bytes) {
  std::vector<std::byte> staged(from, from + bytes);
  Submit([this, to, staged = std::move(staged)] {
    Store(to, staged.data(), static_cast<int64_t>(staged.size()));
    return Status();
  });
}

void Device::Download(std::byte* to, DevicePtr from, int64_t bytes) {
  Submit([this, to, from, bytes] {
    Load(from, to, bytes);
    return Status();
  });
}

void Device::Submit(std::function<Status()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

Status Device::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
  return std::exchange(failure_, Status());
}

void Device::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    const bool failed = !failure_.ok();
    lock.unlock();
    Status s;
    if (!failed) {
      std::this_thread::sleep_for(kLate);
      try {
        s = work();
      } catch (...) {
        s = StatusOfException("on the mock device");
      }
    }
    work = nullptr;
    lock.lock();
    if (!s.ok() && failure_.ok()) failure_ = std::move(s);
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace infer::mock
