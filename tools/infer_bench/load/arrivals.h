#pragma once
/// Recorded arrivals: when queries came, with which priority, of which key. A CSV with a head line:
/// at_s[,priority][,key], in order of time.
#include <string>
#include <vector>

#include "runtime/engine/request.h"
#include "tools/common/options.h"
#include "tools/infer_bench/load/drive.h"

namespace infer::bench {

struct Arrival {
  double at_s = 0;  ///< since the first moment of the record
  engine::Priority priority = engine::Priority::kNormal;
  std::string key = {};
  bool operator==(const Arrival&) const = default;
};

struct ArrivalTrace {
  std::vector<Arrival> arrivals;
  bool has_priority = false, has_key = false;  ///< columns that the file has
};

/// InvalidModel with the line: columns that are none, times that are no numbers, below 0 or out of
/// order, priorities other than high, normal and low; no arrival; more than kMostArrivals.
Result<ArrivalTrace> ParseArrivals(std::string_view text);
Result<ArrivalTrace> ReadArrivals(const std::string& path);
std::string ArrivalsText(const ArrivalTrace& trace);

inline constexpr size_t kMostArrivals = 4'000'000;

/// The load of the record: `speed` times as fast. `repeat`: again and again, behind the last
/// arrival and a mean gap, until the duration is over; else each arrival once.
void Replay(const ArrivalTrace& trace, double speed, bool repeat, LoadOptions& load);

/// --replay and --replay-speed.
struct ReplayOptions {
  std::string path;
  double speed = 1;
  void Declare(Options& options);
  bool wanted() const { return !path.empty(); }
  /// Reads the file. InvalidArgument: `given`, options that the file stands for, or the speed.
  Result<std::shared_ptr<const ArrivalTrace>> Read(const std::vector<std::string>& given) const;
};

/// The most queries a second of an open loop: the generator hands over no more.
inline constexpr double kMostRate = 1e6;
Status CheckRate(double rate);

}  // namespace infer::bench
