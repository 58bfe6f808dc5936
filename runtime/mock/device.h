#pragma once
/// A pretended device: memory that the host may only copy to and from, and a queue that runs what
/// was submitted later, in order, on a thread of its own.
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/api/device.h"

namespace infer::mock {

/// Faults that a mock device should show, and limits of its memory.
struct DeviceOptions {
  int64_t memory_bytes = INT64_MAX;  ///< Allocate beyond them: ResourceExhausted
  /// Asked before each command, with its number since the device was made; a status that is not ok
  /// is what the command ends with.
  std::function<Status(int64_t command)> failure = {};
};

/// Bytes that are kept scrambled, so that a read which goes round the device gives nonsense.
class Memory final : public DeviceMemory {
 public:
  explicit Memory(int64_t bytes) : data_(static_cast<size_t>(bytes)) {}
  int64_t bytes() const override { return static_cast<int64_t>(data_.size()); }
  /// On the device's thread only.
  void Load(int64_t offset, std::byte* to, int64_t bytes) const;
  void Store(int64_t offset, const std::byte* from, int64_t bytes);

 private:
  std::vector<std::byte> data_;
};

/// The bytes of a view, on the device's thread.
std::vector<std::byte> Load(const BufferView& view);
void Store(const BufferView& view, const std::vector<std::byte>& bytes);

class Device final : public infer::Device {
 public:
  explicit Device(DeviceOptions options = {});
  ~Device() override;
  std::string_view name() const override { return "mock"; }
  Result<std::shared_ptr<DeviceMemory>> Allocate(int64_t bytes) override;
  Result<std::unique_ptr<Encoder>> NewEncoder() override;

  using Command = std::function<Status()>;
  class Batch;  // what one Submit hands over
  void Submit(std::shared_ptr<Batch> batch);

 private:
  void Loop();

  const DeviceOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Batch>> queue_;
  bool stop_ = false;
  std::shared_ptr<int64_t> allocated_ = std::make_shared<int64_t>(0);  // guarded by its own mutex
  std::shared_ptr<std::mutex> allocated_mutex_ = std::make_shared<std::mutex>();
  int64_t commands_ = 0;  // of the device's thread
  std::thread thread_;
};

/// Also takes commands of the mock's launches.
class MockEncoder final : public Encoder {
 public:
  explicit MockEncoder(Device& device) : device_(device) {}
  Status Upload(const BufferView& to, const std::byte* from) override;
  Status Download(std::byte* to, const BufferView& from) override;
  Status Copy(const BufferView& to, const BufferView& from) override;
  Result<std::shared_ptr<Completion>> Submit() override;
  /// Runs on the device's thread.
  void Add(Device::Command command) { commands_.push_back(std::move(command)); }

 private:
  Device& device_;
  std::vector<Device::Command> commands_;
  std::shared_ptr<Status> failure_ = std::make_shared<Status>();  // first of this encoder's
};

}  // namespace infer::mock
