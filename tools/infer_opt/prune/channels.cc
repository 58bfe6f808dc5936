#include "tools/infer_opt/prune/channels.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/prune/group_costs.h"

namespace infer {
namespace {

constexpr size_t kMostGroups = 40;  // in the table; the report has all

std::optional<double> ParseTimes(std::string_view text) {
  if (text.ends_with('x')) text.remove_suffix(1);
  return ParseDouble(text);
}

std::string ShareText(int64_t part, int64_t whole) {
  return whole > 0 ? Fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1) + " %"
                   : "-";
}

std::string_view GoalName(ChannelGoal::Kind k) {
  switch (k) {
    case ChannelGoal::Kind::kFlops: return "flops";
    case ChannelGoal::Kind::kBytes: return "bytes";
    case ChannelGoal::Kind::kSpeedup: return "speedup";
    case ChannelGoal::Kind::kDrop: return "drop";
  }
  return "";
}

std::vector<std::string> Names(const std::vector<WeightsOfGroup>& weights) {
  std::vector<std::string> names;
  for (const WeightsOfGroup& w : weights)
    if (std::find(names.begin(), names.end(), w.layer) == names.end()) names.push_back(w.layer);
  return names;
}

Json GroupJson(const PrunedGroup& p) {
  Json j = {{"name", p.group.name},
            {"kind", p.group.heads ? "heads" : "channels"},
            {"width", p.group.width},
            {"width_after", p.width_after},
            {"units", p.units},
            {"removed", p.removed},
            {"reason", p.group.reason},
            {"producers", Names(p.group.producers)},
            {"readers", Names(p.group.readers)},
            {"parameters", p.parameters},
            {"parameters_after", p.parameters_after}};
  if (p.error >= 0) j["error"] = JsonNumber(p.error);
  if (p.cost >= 0) j["cost"] = JsonNumber(p.cost);
  return j;
}

std::string Joined(const std::vector<std::string>& names) {
  if (names.empty()) return "-";
  return names.size() == 1 ? names[0] : Cat(names[0], " and ", names.size() - 1, " more");
}

std::string NotNarrowed(const ChannelReport& r) {
  std::vector<std::vector<std::string>> rows = {{"not narrowed", "channels", "why"}};
  for (const PrunedGroup& p : r.groups)
    if (!p.group.reason.empty()) rows.push_back({p.group.name, Cat(p.group.width), p.group.reason});
  if (rows.size() == 1) return "";
  const size_t all = rows.size() - 1;
  if (all > kMostGroups) rows.resize(kMostGroups + 1);
  std::string out = "\n" + TextTable(rows);
  if (all > kMostGroups) out += Cat("and ", all - kMostGroups, " more (--json has them all)\n");
  return out;
}

}  // namespace

void ChannelFlags::Declare(Options& o) {
  o.Flag("--structured", &structured,
         "Remove channels, heads and columns for good: the file is a plain smaller model");
  o.Share("--flops", &flops, "--structured: goal: at most so many of the FLOPs stay (70%)");
  o.Value("--speedup", &speedup,
          "--structured, --low-rank: goal: so many times as fast, measured in turns (1.5x)");
}

Status ChannelFlags::Check(const std::vector<std::string>& others, bool low_rank) const {
  if (structured) {
    if (!others.empty())
      return InvalidArgument(Cat("--structured removes channels, ", others.front(),
                                 " chooses single weights: leave one of them out"));
    return {};
  }
  if (flops >= 0) return InvalidArgument("--flops is a goal of --structured, which is missing");
  if (!speedup.empty() && !low_rank)
    return InvalidArgument("--speedup is a goal of --structured or --low-rank, which is missing");
  return {};
}

Result<double> SpeedupGoal(const std::string& text) {
  const auto times = ParseTimes(text);
  if (!times || !(*times > 1 && *times <= 100))
    return InvalidArgument(Cat("--speedup ", text, ": write 1.5x, above 1 and at most 100"));
  return *times;
}

Result<double> ConstantBytesGoal(const GateFlags& gates, const Model& model) {
  const auto size = gates.size();
  const auto file = static_cast<double>(model.info.file_bytes);
  const double limit = size->is_share ? size->value * file : size->value;
  if (limit >= file)
    return InvalidArgument(Cat("--max-size ", gates.max_size, ": the file has ",
                               HumanBytes(model.info.file_bytes), " already"));
  // What is no weight stays as it is.
  const double rest = file - static_cast<double>(ConstantsOf(model.graph).bytes);
  if (limit <= rest)
    return InvalidArgument(Cat("--max-size ", gates.max_size, ": out of reach, ",
                               HumanBytes(static_cast<int64_t>(rest)),
                               " of the file are no weights"));
  return limit - rest;
}

Result<ChannelGoal> ChannelFlags::Goal(const GateFlags& gates, const Model& model) const {
  if (flops >= 0 && !speedup.empty())
    return InvalidArgument("--flops and --speedup are both goals: leave one of them out");
  if (flops >= 0) {
    if (!(flops > 0 && flops < 1))
      return InvalidArgument(Cat("--flops ", Rounded(100 * flops, 4),
                                 "%: the share that stays is above 0 and below 100 %"));
    return ChannelGoal{ChannelGoal::Kind::kFlops, flops};
  }
  if (!speedup.empty()) {
    INFER_ASSIGN(const double times, SpeedupGoal(speedup));
    return ChannelGoal{ChannelGoal::Kind::kSpeedup, times};
  }
  if (gates.size()) {
    INFER_ASSIGN(const double bytes, ConstantBytesGoal(gates, model));
    return ChannelGoal{ChannelGoal::Kind::kBytes, bytes};
  }
  if (gates.max_drop >= 0) return ChannelGoal{ChannelGoal::Kind::kDrop, gates.max_drop};
  return InvalidArgument(
      "--structured wants a goal: --flops 70%, --speedup 1.5x, --max-size 60% or --max-drop 1%");
}

Status TellSpeedup(Context& context, const Graph& golden, const Graph& result,
                   const DeviceOptions& device, const DataRoles& data, const std::string& if_slower,
                   Json& report) {
  const Samples& samples = data.evaluation.count > 0 ? data.evaluation : data.calibration;
  if (report.contains("latency") || samples.count == 0) return {};
  INFER_ASSIGN(const auto inputs, samples.get(0));
  INFER_ASSIGN(const auto s, MeasureSpeedup(context, golden, result, device, inputs, report));
  context.PrintLine(Cat("latency: ", Fixed(s.median, 2), " times as fast (95 % interval ",
                        Fixed(s.median_low, 2), " to ", Fixed(s.median_high, 2),
                        "), both fused, in turns"));
  if (s.median_high < 1) context.Warn(if_slower);
  return {};
}

Json ToJson(const ChannelReport& r, const ChannelOptions& options) {
  Json j = {{"goal", {{"kind", GoalName(options.goal.kind)}, {"value", options.goal.value}}},
            {"calibration_samples", r.calibration_samples},
            {"chosen_by", r.by_data ? "error" : "magnitude"},
            {"parameters", r.parameters},
            {"parameters_after", r.parameters_after}};
  if (r.flops_after >= 0) {
    j["flops"] = r.flops;
    j["flops_after"] = r.flops_after;
  }
  if (r.drop >= 0) j["expected_drop"] = r.drop;
  if (r.speedup >= 0) j["speedup_when_chosen"] = r.speedup;
  j["statistics"] = r.statistics;
  j["groups"] = Json::array();
  for (const PrunedGroup& p : r.groups) j["groups"].push_back(GroupJson(p));
  j["layers"] = Json::array();
  for (const FittedLayer& l : r.layers) {
    Json layer = {{"name", l.name}, {"op", l.op}, {"method", l.method}, {"note", l.note}};
    if (l.error >= 0) {
      layer["error"] = l.error;
      layer["dense_error"] = l.dense_error;
    }
    j["layers"].push_back(std::move(layer));
  }
  return j;
}

std::string SummaryText(const ChannelReport& r) {
  int64_t narrowed = 0, channels = 0, all = 0;
  for (const PrunedGroup& p : r.groups) {
    narrowed += p.removed > 0 ? 1 : 0;
    channels += p.group.width - p.width_after;
    all += p.group.width;
  }
  std::string out = Cat("structured: ", channels, " of ", all, " channels removed, in ", narrowed,
                        " of ", r.groups.size(), r.groups.size() == 1 ? " group" : " groups",
                        "; parameters ", r.parameters, " -> ", r.parameters_after, " (",
                        ShareText(r.parameters_after, r.parameters), ")");
  if (r.flops_after >= 0)
    out += Cat("; FLOPs ", r.flops, " -> ", r.flops_after, " (", ShareText(r.flops_after, r.flops),
               ")");
  out += r.by_data ? Cat("; fitted to ", r.calibration_samples, " samples\n")
                   : "; chosen by magnitude alone, without data\n";
  std::vector<std::vector<std::string>> rows = {
      {"group", "unit", "channels", "stay", "parameters", "stay", "read by", "error %"}};
  size_t left = 0;
  for (const PrunedGroup& p : r.groups) {
    if (!p.group.reason.empty()) continue;
    if (rows.size() > kMostGroups) {
      ++left;
      continue;
    }
    rows.push_back({p.group.name, p.group.heads ? "head" : "channel", Cat(p.group.width),
                    Cat(p.width_after), Cat(p.parameters), Cat(p.parameters_after),
                    Joined(Names(p.group.readers)),
                    p.error < 0 ? "-" : Cat(Rounded(100 * p.error, 3))});
  }
  out += "\n" + TextTable(rows);
  if (left > 0) out += Cat("and ", left, " more groups (--json has them all)\n");
  out += r.by_data
             ? "error: squared, of the layers that read the group, relative to their outputs, "
               "summed\n"
             : "error: share of the readers' weights that is dropped, squared, summed\n";
  return out + NotNarrowed(r);
}

}  // namespace infer
