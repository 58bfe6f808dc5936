#pragma once
/// `infer-opt prune --low-rank`: its options, goals and report.
#include "quant/prune/low_rank.h"
#include "tools/infer_opt/prune/channels.h"

namespace infer {

struct LowRankFlags {
  bool low_rank = false;
  double rank = -1;                               ///< --rank; < 0: not given
  std::string search_log;                         ///< --search-log; "": none
  double seconds = LowRankOptions().max_seconds;  ///< --search-seconds

  void Declare(Options& o);
  /// InvalidArgument: --rank or --search-log without --low-rank, or an option of `others` (those of
  /// the other ways to prune, as given) with it.
  Status Check(const std::vector<std::string>& others) const;
  /// The goal that was asked for: --rank or --speedup; else --max-size, else --max-drop, which are
  /// gates as well. InvalidArgument: none, or two that contradict.
  Result<LowRankGoal> Goal(const std::string& speedup, const GateFlags& gates,
                           const Model& model) const;
  /// Where measurements of `golden` with these samples and options are kept: in --search-log, else
  /// in memory. Errors as SearchLog::Open.
  Result<std::unique_ptr<MeasurementStore>> OpenStore(Context& context, const Graph& golden,
                                                      const Samples& samples,
                                                      const DeviceOptions& device,
                                                      const PruneScope& scope) const;
};

Json ToJson(const LowRankReport& r, const LowRankOptions& options);
std::string SummaryText(const LowRankReport& r);

}  // namespace infer
