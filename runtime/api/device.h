#pragma once
/// The line between the executor of plans and a device: memory, commands, and their end. A backend
/// whose launches work on host memory has no Device: its launches run when they are called.
///
/// The order is that of a stream: commands of one encoder take effect as if each had ended before
/// the next begins. What an encoder needs for that (barriers, queues, staging) is its own business.
/// A Device may be used by many threads at once, an Encoder by one.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/support/status.h"

namespace infer {

/// Where a buffer lies.
enum class MemorySpace : uint8_t { kHost, kDevice };

/// Memory of a device. It goes with its last owner, who must have waited for all commands that use
/// it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual int64_t bytes() const = 0;
  /// Where the host reaches it; nullptr where it cannot.
  virtual std::byte* host() { return nullptr; }
};

/// A part of a device's memory; or, where a launch asks for it (Prepared::on_host), host memory.
struct BufferView {
  DeviceMemory* memory = nullptr;
  int64_t offset = 0, bytes = 0;
  const std::byte* host = nullptr;
};

/// The end of the commands that one Submit handed over.
class Completion {
 public:
  virtual ~Completion() = default;
  virtual bool done() const = 0;
  /// Blocks until the commands have ended; the first failure among them.
  virtual Status Wait() = 0;
};

/// Commands that were recorded once and can be handed over many times, by the encoder that recorded
/// them. What they work on must be there as long as it is.
class RecordedCommands {
 public:
  virtual ~RecordedCommands() = default;
};

/// Work that an encoder, or all of a context, did so far.
struct CommandInfo {
  int64_t recorded = 0;     ///< dispatches and copies that were recorded
  int64_t submissions = 0;  ///< that were handed to a queue
  int64_t replayed = 0;     ///< of them, whose commands were recorded before and handed over again
  CommandInfo& operator+=(const CommandInfo& o) {
    recorded += o.recorded;
    submissions += o.submissions;
    replayed += o.replayed;
    return *this;
  }
  CommandInfo operator-(const CommandInfo& o) const {
    return {recorded - o.recorded, submissions - o.submissions, replayed - o.replayed};
  }
};

/// Commands for a device, in order.
class Encoder {
 public:
  virtual ~Encoder() = default;
  /// to.bytes from host memory, which may change as soon as the call returns.
  virtual Status Upload(const BufferView& to, const std::byte* from) = 0;
  /// from.bytes into host memory, which must live until the commands have ended and holds the data
  /// then.
  virtual Status Download(std::byte* to, const BufferView& from) = 0;
  /// Equal sizes.
  virtual Status Copy(const BufferView& to, const BufferView& from) = 0;
  /// Hands over what was recorded since the last call. After a failure of a command those behind it
  /// are not executed, and every later completion of the encoder reports it.
  virtual Result<std::shared_ptr<Completion>> Submit() = 0;

  /// Marks this point on the device's clock: the commands before it have ended there, those behind
  /// it have not begun. The number of the mark, from 0. Unsupported where there is no such clock.
  virtual Result<size_t> Mark() { return Unsupported("the device has no clock"); }
  /// When each mark was passed, in ms since the first one of this encoder; numbers begin anew. Pre:
  /// all commands that were recorded have ended.
  virtual Result<std::vector<double>> TakeMarks() { return std::vector<double>(); }

  /// Whether commands can be kept and handed over again.
  virtual bool keeps_recordings() const { return false; }
  /// Commands from here to EndRecording are kept. Pre: those that the encoder kept before have
  /// ended, and completions of them were waited for.
  virtual Status BeginRecording() { return Unsupported("the device keeps no commands"); }
  /// The commands recorded since then, which Submit hands over for the first time. nullptr: they
  /// were too many to keep, and are handed over this once.
  virtual Result<std::shared_ptr<RecordedCommands>> EndRecording() {
    return Unsupported("the device keeps no commands");
  }
  /// The next Submit hands the commands over again. Until then Upload and Download are called as
  /// they were when it was recorded, of the same parts of the device's memory, in the same order,
  /// and bring other bytes; nothing else is called. Pre: as BeginRecording.
  virtual Status Replay(const std::shared_ptr<RecordedCommands>& /*recording*/) {
    return Unsupported("the device keeps no commands");
  }
  virtual CommandInfo commands() const { return {}; }
};

/// One submission's time on a queue of the device.
struct DeviceSpan {
  int encoder = 0;  ///< whose it was, counted as they were made
  int queue = 0;    ///< of DeviceActivity::queues
  /// From when its commands could begin until all had ended, by the device's clock. On one queue,
  /// and for one encoder, in the order in which they were handed over.
  double begin_ms = 0, end_ms = 0;
};

/// The work of a device, in ms since StartActivity, by the host's clock.
struct DeviceActivity {
  std::vector<std::string> queues;  ///< "compute", "upload", "download"
  std::vector<DeviceSpan> spans;    ///< of each encoder in its order
  double window_ms = 0;             ///< that was looked at
  /// Submissions in it that no clock timed, and those that came when there was no more room, which
  /// ended the window.
  int64_t untimed = 0, dropped = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  /// ResourceExhausted where nothing made of it works any more: it was lost, or is that of the
  /// process which this one is a child of.
  virtual Status CheckThere() const { return {}; }
  /// Uninitialised. ResourceExhausted where there is none left.
  virtual Result<std::shared_ptr<DeviceMemory>> Allocate(int64_t bytes) = 0;
  virtual Result<std::unique_ptr<Encoder>> NewEncoder() = 0;
  /// ResourceExhausted with figures where so many bytes more cannot be had; allocates nothing.
  virtual Status CheckRoom(int64_t /*bytes*/) const { return {}; }
  /// From here on it is written down when the submissions of all encoders run, which costs each
  /// some microseconds and makes none wait for another. Nothing may be under way. Unsupported where
  /// there is no clock.
  virtual Status StartActivity() { return Unsupported("the device has no clock"); }
  /// Ends it. Submissions that are under way are left out.
  virtual Result<DeviceActivity> TakeActivity() { return DeviceActivity(); }
};

}  // namespace infer
