#pragma once
/// When submissions run on the queues of a device, by its own clock: a point in time before the
/// commands of each and one behind them, in command buffers of their own, so that commands that are
/// handed over again are timed, too, and none waits for another.
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/api/device.h"
#include "runtime/vulkan/record/timeline.h"

namespace infer::vulkan {

class ActivityWriter;

/// Of a device; used by any thread.
class ActivityLog {
 public:
  explicit ActivityLog(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}

  /// As Device::StartActivity.
  Status Start();
  /// As Device::TakeActivity.
  Result<DeviceActivity> Take();

 private:
  friend class ActivityWriter;
  /// One moment by a queue's clock and by the host's.
  struct ClockPoint {
    uint64_t ticks = 0;
    double host_ms = 0, way_ms = 0;  // there and back
  };
  Result<ClockPoint> Compare(QueueKind queue);
  /// Queues whose points differ by less than the way there share one.
  void JoinClocks();
  double MsOf(QueueKind queue, uint64_t ticks) const;
  /// Ticks from one moment to another, which may be before it.
  double TicksBetween(QueueKind queue, uint64_t from, uint64_t to) const;
  /// A place for a span; false: there is none.
  bool TakePlace();
  int Enter(ActivityWriter* writer);
  void Leave(ActivityWriter* writer);

  std::shared_ptr<Gpu> gpu_;
  std::atomic<bool> is_on_ = false;
  std::atomic<int64_t> places_ = 0, dropped_ = 0, untimed_ = 0;
  std::atomic<double> full_ms_ = 0;  // when the last place was taken
  std::array<ClockPoint, kQueueKinds> clocks_ = {};
  double start_ms_ = 0;

  std::mutex mutex_;
  std::vector<ActivityWriter*> writers_;
  std::vector<DeviceSpan> left_;  // by writers that are gone
  int encoders_ = 0;
};

/// Of one encoder.
class ActivityWriter {
 public:
  ActivityWriter(std::shared_ptr<Gpu> gpu, std::shared_ptr<ActivityLog> log,
                 std::shared_ptr<Timeline> timeline);
  /// Pre: what was submitted has ended.
  ~ActivityWriter();
  ActivityWriter(const ActivityWriter&) = delete;
  ActivityWriter& operator=(const ActivityWriter&) = delete;

  /// Commands to be submitted before and behind those that end with this value of the timeline;
  /// VK_NULL_HANDLE while nobody asked for it.
  struct Around {
    VkCommandBuffer begin = VK_NULL_HANDLE, end = VK_NULL_HANDLE;
  };
  Result<Around> Next(QueueKind queue, uint64_t value);

 private:
  friend class ActivityLog;
  struct Slot {
    Around commands;
    VkQueryPool queries = VK_NULL_HANDLE;  // two
    QueueKind queue = QueueKind::kCompute;
    uint64_t value = 0;
  };
  Result<Slot> NewSlot(QueueKind queue);
  /// Takes down what has ended. The caller holds mutex_.
  void Collect();

  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<ActivityLog> log_;
  std::shared_ptr<Timeline> timeline_;
  int encoder_;
  std::array<VkCommandPool, kQueueKinds> pools_ = {};
  std::vector<VkQueryPool> queries_;

  std::mutex mutex_;  // Take comes from another thread
  std::array<std::vector<Slot>, kQueueKinds> free_;
  std::deque<Slot> under_way_;
  std::vector<DeviceSpan> spans_;
};

}  // namespace infer::vulkan
