#include "runtime/mock/device.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "lib/support/exceptions.h"
#include "lib/support/strings.h"
#include "runtime/api/pending_completion.h"

namespace infer::mock {
namespace {

constexpr std::byte kScramble{0xA5};
/// Long enough for a host that does not wait to see old data.
constexpr std::chrono::microseconds kLate{20};

}  // namespace

void Memory::Load(int64_t offset, std::byte* to, int64_t bytes) const {
  INFER_CHECK(offset >= 0 && offset + bytes <= this->bytes());
  for (int64_t i = 0; i < bytes; ++i) to[i] = data_[static_cast<size_t>(offset + i)] ^ kScramble;
}

void Memory::Store(int64_t offset, const std::byte* from, int64_t bytes) {
  INFER_CHECK(offset >= 0 && offset + bytes <= this->bytes());
  for (int64_t i = 0; i < bytes; ++i) data_[static_cast<size_t>(offset + i)] = from[i] ^ kScramble;
}

std::vector<std::byte> Load(const BufferView& view) {
  std::vector<std::byte> bytes(static_cast<size_t>(view.bytes));
  static_cast<Memory*>(view.memory)->Load(view.offset, bytes.data(), view.bytes);
  return bytes;
}

void Store(const BufferView& view, const std::vector<std::byte>& bytes) {
  static_cast<Memory*>(view.memory)
      ->Store(view.offset, bytes.data(), static_cast<int64_t>(bytes.size()));
}

/// Commands of one encoder, and whoever waits for them. An encoder's first failure ends what it
/// submits later, too.
class Device::Batch final : public PendingCompletion {
 public:
  Batch(std::vector<Command> commands, std::shared_ptr<Status> failure)
      : commands_(std::move(commands)), failure_(std::move(failure)) {}

  /// On the device's thread.
  void Run(const std::function<Status()>& before_each) {
    for (const Command& command : commands_) {
      if (!failure_->ok()) break;
      try {
        *failure_ = before_each();
        if (failure_->ok()) *failure_ = command();
      } catch (...) {
        *failure_ = StatusOfException("on the mock device");
      }
    }
    commands_.clear();
    End(*failure_);
  }

 private:
  std::vector<Command> commands_;
  std::shared_ptr<Status> failure_;  // touched by the device's thread only
};

Device::Device(DeviceOptions options) : options_(std::move(options)), thread_([this] { Loop(); }) {}

Device::~Device() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<std::shared_ptr<DeviceMemory>> Device::Allocate(int64_t bytes) {
  std::lock_guard lock(*allocated_mutex_);
  if (bytes > options_.memory_bytes - *allocated_)
    return ResourceExhausted(Cat("the mock device has no ", bytes, " bytes"));
  *allocated_ += bytes;
  return std::shared_ptr<DeviceMemory>(
      new Memory(bytes), [allocated = allocated_, mutex = allocated_mutex_](DeviceMemory* memory) {
        std::lock_guard guard(*mutex);
        *allocated -= memory->bytes();
        delete memory;
      });
}

Result<std::unique_ptr<Encoder>> Device::NewEncoder() {
  return std::unique_ptr<Encoder>(std::make_unique<MockEncoder>(*this));
}

void Device::Submit(std::shared_ptr<Batch> batch) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(batch));
  }
  changed_.notify_all();
}

void Device::Loop() {
  for (;;) {
    std::shared_ptr<Batch> batch;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      batch = std::move(queue_.front());
      queue_.pop_front();
    }
    std::this_thread::sleep_for(kLate);
    batch->Run([this] {
      const int64_t number = commands_++;
      return options_.failure ? options_.failure(number) : Status();
    });
  }
}

Status MockEncoder::Upload(const BufferView& to, const std::byte* from) {
  Add([to, bytes = std::vector<std::byte>(from, from + to.bytes)] {
    Store(to, bytes);
    return Status();
  });
  return {};
}

Status MockEncoder::Download(std::byte* to, const BufferView& from) {
  Add([to, from] {
    static_cast<Memory*>(from.memory)->Load(from.offset, to, from.bytes);
    return Status();
  });
  return {};
}

Status MockEncoder::Copy(const BufferView& to, const BufferView& from) {
  Add([to, from] {
    Store(to, Load(from));
    return Status();
  });
  return {};
}

Result<std::shared_ptr<Completion>> MockEncoder::Submit() {
  auto batch = std::make_shared<Device::Batch>(std::exchange(commands_, {}), failure_);
  device_.Submit(batch);
  return std::shared_ptr<Completion>(std::move(batch));
}

}  // namespace infer::mock
