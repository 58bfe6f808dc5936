#pragma once
/// `infer-opt prune --structured`: its options, goals and report.
#include "quant/prune/structured.h"
#include "tools/common/cost_gates.h"
#include "tools/common/data_roles.h"

namespace infer {

struct ChannelFlags {
  bool structured = false;
  double flops = -1;    ///< --flops; < 0: not given
  std::string speedup;  ///< --speedup; "": not given

  void Declare(Options& o);
  /// InvalidArgument: --flops or --speedup without --structured (--speedup: nor `low_rank`), or an
  /// option of `others` (those that choose single weights, as given) with it.
  Status Check(const std::vector<std::string>& others, bool low_rank) const;
  /// The goal that was asked for: --flops or --speedup; else --max-size, else --max-drop, which are
  /// gates as well. InvalidArgument: none, or two that contradict.
  Result<ChannelGoal> Goal(const GateFlags& gates, const Model& model) const;
};

/// --speedup as a number. InvalidArgument: it is none above 1 and at most 100.
Result<double> SpeedupGoal(const std::string& text);
/// The bytes that --max-size leaves for the constants. Pre: it is given. InvalidArgument: the file
/// is as small already, or what is no weight is larger.
Result<double> ConstantBytesGoal(const GateFlags& gates, const Model& model);

/// Measures the result beside the dense model, where a sample tells how. `if_slower`: the warning
/// about a result that is.
Status TellSpeedup(Context& context, const Graph& golden, const Graph& result,
                   const DeviceOptions& device, const DataRoles& data, const std::string& if_slower,
                   Json& report);

Json ToJson(const ChannelReport& r, const ChannelOptions& options);
std::string SummaryText(const ChannelReport& r);

}  // namespace infer
