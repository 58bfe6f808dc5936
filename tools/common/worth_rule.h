#pragma once
/// Whether a quantized file is worth having beside the fused FP32 one: the rule, its words and its
/// fields of a report, without the clock.
#include <functional>
#include <optional>

#include "tools/common/pair_timing.h"
#include "tools/common/report.h"

namespace infer {

/// A time that is not measured but told by a cost table.
struct ToldTime {
  double of_fused = 1;  ///< share of the fused FP32 model's
  std::string table;    ///< its name
};

/// The fused FP32 file and a candidate.
struct Worth {
  PairTiming timing;  ///< a: the fused FP32 model, b: the candidate
  int64_t fused_bytes = 0, bytes = 0;
  std::optional<ToldTime> told = {};  ///< decides instead of what was measured here

  /// The whole 95 % interval of the ratio of times lies above 1 and what measuring tells apart;
  /// of a told time: that lies above them.
  bool slower() const;
  bool larger() const { return bytes > fused_bytes; }
  bool worth() const { return !slower() && !larger(); }
};

/// Measures once, and again where the candidate looks slower: only a suspicion is worth the time.
/// The last one counts.
Result<PairTiming> TimeSuspects(const std::function<Result<PairTiming>()>& measure);

/// "measured: 0.8 (95 % interval 0.79 to 0.81) of the time of the fused FP32 model, 0.3 of its
/// bytes", or "told: ...".
std::string ToText(const Worth& w);
/// The warning, which names the fused FP32 file; "": the result is worth having. `model_path`: the
/// file that `fuse` would read.
std::string WarningOf(const Worth& w, const std::string& model_path);
/// The same of a file of which only the bytes are known.
std::string WarningOfBytes(int64_t fused_bytes, int64_t bytes, const std::string& model_path);
Json ToJson(const Worth& w);

}  // namespace infer
