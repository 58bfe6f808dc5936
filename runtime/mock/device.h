#pragma once
/// A pretended device: memory that the host may only copy to and from, and a queue that runs what
/// is submitted later, in order, on a thread of its own.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "lib/support/status.h"
#include "lib/tensor/tensor.h"

namespace infer::mock {

/// An address of device memory. Never a host pointer: the arena is kept scrambled, so a read that
/// goes round Upload and Download gives nonsense.
struct DevicePtr {
  int64_t offset = -1;
};

class Device {
 public:
  explicit Device(int64_t arena_bytes);
  ~Device();

  /// Enqueued; the source is copied at once.
  void Upload(DevicePtr to, const std::byte* from, int64_t bytes);
  /// Enqueued; valid after Wait(). `to` must live until then.
  void Download(std::byte* to, DevicePtr from, int64_t bytes);
  /// Enqueued: `work` runs on the device's thread. A failure stops what was submitted after it.
  void Submit(std::function<Status()> work);
  /// Until everything submitted is done; the first failure.
  Status Wait();

  /// On the device's thread only.
  void Load(DevicePtr from, std::byte* to, int64_t bytes) const;
  void Store(DevicePtr to, const std::byte* from, int64_t bytes);

 private:
  void Loop();
  std::vector<std::byte> arena_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<Status()>> queue_;
  Status failure_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace infer::mock
