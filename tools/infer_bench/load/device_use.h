#pragma once
/// How busy a device is under load: its queues by its own clock, transfers beside shaders, and a
/// trace of all lanes.
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/device.h"
#include "tools/common/options.h"
#include "tools/common/report.h"

namespace infer::bench {

struct QueueUse {
  std::string queue;  ///< "compute", "upload", "download"
  int64_t submissions = 0;
  double busy_ms = 0;  ///< in which a submission of any lane ran there
};

struct DeviceUse {
  double window_ms = 0;
  int lanes = 0;       ///< encoders that submitted anything
  double busy_ms = 0;  ///< in which any queue was
  std::vector<QueueUse> queues;
  double transfer_ms = 0;    ///< in which a queue for transfers was busy
  double overlapped_ms = 0;  ///< of it, beside shaders
  int64_t untimed = 0, dropped = 0;
  double share(double ms) const { return window_ms > 0 ? ms / window_ms : 0; }
};

/// In the window alone, lanes counted from 0, by their ends. None begins before what is before it
/// on its queue, or of its lane, has ended: devices note a begin when they look at a submission,
/// which may wait still.
std::vector<DeviceSpan> InOrder(const DeviceActivity& activity);
/// `spans` as by InOrder.
DeviceUse UseOf(const DeviceActivity& activity, const std::vector<DeviceSpan>& spans);
Json ToJson(const DeviceUse& use);
std::string DeviceLine(const DeviceUse& use);
/// Chrome's trace format: a track for each queue, a span for each submission.
std::string ChromeTrace(std::string_view process, const std::vector<std::string>& queues,
                        const std::vector<DeviceSpan>& spans);

/// --utilization and --trace.
struct DeviceUseOptions {
  bool utilization = false;
  std::string trace;
  void Declare(Options& options);
  bool wanted() const { return utilization || !trace.empty(); }
  /// Prints and writes what they ask for. The part of the report.
  Result<Json> Show(Context& context, std::string_view model, std::string_view device,
                    const DeviceActivity& activity) const;
};

}  // namespace infer::bench
