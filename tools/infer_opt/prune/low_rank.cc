#include "tools/infer_opt/prune/low_rank.h"

#include "lib/support/hash.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/calibrate/cache.h"
#include "runtime/api/build_identity.h"
#include "tools/common/host.h"
#include "tools/infer_opt/quantize/search_log.h"

namespace infer {
namespace {

constexpr size_t kMostProducts = 40;  // in the table; the report has all

std::string_view GoalName(LowRankGoal::Kind k) {
  switch (k) {
    case LowRankGoal::Kind::kRank: return "rank";
    case LowRankGoal::Kind::kBytes: return "bytes";
    case LowRankGoal::Kind::kSpeedup: return "speedup";
    case LowRankGoal::Kind::kDrop: return "drop";
  }
  return "";
}

std::string PercentText(double part, double whole) {
  return whole > 0 ? Fixed(100 * part / whole, 1) + " %" : "-";
}

std::string PercentOrNone(double error) { return error < 0 ? "-" : Cat(Rounded(100 * error, 3)); }

Json ProductJson(const SplitProduct& p) {
  Json j = {{"name", p.name},
            {"op", p.op},
            {"weights", p.weights},
            {"rows", p.rows},
            {"depth", p.depth},
            {"readers", p.readers},
            {"full_rank", p.full_rank()},
            {"rank", p.rank > 0 ? p.rank : p.full_rank()},
            {"split", p.rank > 0},
            {"reason", p.reason},
            {"parameters", p.parameters()},
            {"parameters_after", p.parameters_after()}};
  if (p.us >= 0) j["us"] = JsonNumber(p.us);
  if (p.rank == 0) return j;
  j["us_after"] = JsonNumber(p.us_after);
  j["method"] = p.method;
  j["error"] = JsonNumber(p.error);
  j["plain_error"] = JsonNumber(p.plain_error);
  j["dense_error"] = JsonNumber(p.dense_error);
  if (p.cost >= 0) j["cost"] = JsonNumber(p.cost);
  return j;
}

/// One row per reason.
std::string LeftWhole(const LowRankReport& r) {
  struct Reason {
    const SplitProduct* first;
    int64_t more = 0, parameters = 0;
  };
  std::vector<Reason> reasons;
  for (const SplitProduct& p : r.layers) {
    if (p.rank > 0) continue;
    Reason* same = nullptr;
    for (Reason& k : reasons)
      if (k.first->op == p.op && k.first->reason == p.reason) same = &k;
    if (same)
      ++same->more;
    else
      same = &reasons.emplace_back(Reason{&p});
    same->parameters += p.parameters();
  }
  if (reasons.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"stays whole", "operator", "parameters", "why"}};
  for (const Reason& k : reasons)
    rows.push_back({k.more > 0 ? Cat(k.first->name, " and ", k.more, " more") : k.first->name,
                    k.first->op, Cat(k.parameters), k.first->reason});
  return "\n" + TextTable(rows);
}

}  // namespace

void LowRankFlags::Declare(Options& o) {
  o.Flag(
      "--low-rank", &low_rank,
      "Split products and 1x1 convolutions in two of low rank, where that is smaller and faster");
  o.Share("--rank", &rank,
          "--low-rank: the share of its full rank that each layer keeps (25%), instead of a goal");
  o.Value("--search-log", &search_log,
          "--low-rank: where measurements are kept; a killed search goes on");
  o.Value("--search-seconds", &seconds,
          "--low-rank: no layer is measured after so many seconds of work, by the cost table");
}

Status LowRankFlags::Check(const std::vector<std::string>& others) const {
  if (!(seconds > 0)) return InvalidArgument("--search-seconds is above 0");
  if (low_rank) {
    if (!others.empty())
      return InvalidArgument(Cat("--low-rank splits products in two, ", others.front(),
                                 " prunes in another way: leave one of them out"));
    return {};
  }
  if (rank >= 0 || !search_log.empty())
    return InvalidArgument(
        Cat(rank >= 0 ? "--rank" : "--search-log", " goes with --low-rank, which is missing"));
  return {};
}

Result<LowRankGoal> LowRankFlags::Goal(const std::string& speedup, const GateFlags& gates,
                                       const Model& model) const {
  using Kind = LowRankGoal::Kind;
  if (rank >= 0 && !speedup.empty())
    return InvalidArgument("--rank and --speedup are both goals: leave one of them out");
  if (rank >= 0) {
    if (!(rank > 0 && rank < 1))
      return InvalidArgument(Cat("--rank ", Rounded(100 * rank, 4),
                                 "%: the share of the full rank that stays is above 0 and below "
                                 "100 %"));
    return LowRankGoal{Kind::kRank, rank};
  }
  if (!speedup.empty()) {
    INFER_ASSIGN(const double times, SpeedupGoal(speedup));
    return LowRankGoal{Kind::kSpeedup, times};
  }
  if (gates.size()) {
    INFER_ASSIGN(const double bytes, ConstantBytesGoal(gates, model));
    return LowRankGoal{Kind::kBytes, bytes};
  }
  if (gates.max_drop >= 0) return LowRankGoal{Kind::kDrop, gates.max_drop};
  return InvalidArgument(
      "--low-rank wants a goal: --rank 25%, --speedup 1.5x, --max-size 60% or --max-drop 1%");
}

Result<std::unique_ptr<MeasurementStore>> LowRankFlags::OpenStore(Context& context,
                                                                  const Graph& golden,
                                                                  const Samples& samples,
                                                                  const DeviceOptions& device,
                                                                  const PruneScope& scope) const {
  std::unique_ptr<MeasurementStore> store = std::make_unique<MemoryStore>();
  if (search_log.empty()) return store;
  Hasher h;
  INFER_ASSIGN(const uint64_t key, LabelledDataKey(samples, context.stop()));
  h.Add("low rank").Add(BuildIdentity()).Add(Fingerprint(golden)).Add(device.device).Add(key);
  h.Add(static_cast<uint64_t>(device.threads));
  for (const auto* patterns : {&scope.include, &scope.exclude}) {
    h.Add("patterns");
    for (const NodePattern& p : *patterns) h.Add(ToString(p));
  }
  const HostFacts host = GetHostFacts();
  h.Add(host.cpu_model).Add(host.isa);
  INFER_ASSIGN(store, SearchLog::Open(search_log, std::to_string(h.value())));
  return store;
}

Json ToJson(const LowRankReport& r, const LowRankOptions& options) {
  Json j = {{"goal", {{"kind", GoalName(options.goal.kind)}, {"value", options.goal.value}}},
            {"calibration_samples", r.calibration_samples},
            {"cost_table", options.costs->name},
            {"parameters", r.parameters},
            {"parameters_after", r.parameters_after},
            {"us", JsonNumber(r.us)},
            {"us_after", JsonNumber(r.us_after)},
            {"fitted", r.fitted},
            {"measured", r.measured},
            {"reused", r.reused}};
  if (r.flops_after >= 0) {
    j["flops"] = r.flops;
    j["flops_after"] = r.flops_after;
  }
  if (r.drop >= 0) j["expected_drop"] = r.drop;
  if (r.speedup >= 0) j["speedup_when_chosen"] = r.speedup;
  j["layers"] = Json::array();
  for (const SplitProduct& p : r.layers) j["layers"].push_back(ProductJson(p));
  return j;
}

std::string SummaryText(const LowRankReport& r) {
  size_t split = 0;
  for (const SplitProduct& p : r.layers) split += p.rank > 0 ? 1 : 0;
  const auto part = [](int64_t after, int64_t before) {
    return PercentText(static_cast<double>(after), static_cast<double>(before));
  };
  std::string out =
      Cat("low rank: ", split, " of ", r.layers.size(), r.layers.size() == 1 ? " layer" : " layers",
          " split in two; parameters ", r.parameters, " -> ", r.parameters_after, " (",
          part(r.parameters_after, r.parameters), ")");
  if (r.flops_after >= 0)
    out += Cat("; FLOPs ", r.flops, " -> ", r.flops_after, " (", part(r.flops_after, r.flops), ")");
  out += Cat("; these layers take ", PercentText(r.us_after, r.us),
             " of their time by the cost table; fitted to ", r.calibration_samples, " samples\n");
  std::vector<std::vector<std::string>> rows = {{"layer", "operator", "rows x depth", "rank",
                                                 "parameters", "stay", "time", "error %",
                                                 "plain SVD's"}};
  size_t left = 0;
  for (const SplitProduct& p : r.layers) {
    if (p.rank == 0) continue;
    if (rows.size() > kMostProducts) {
      ++left;
      continue;
    }
    rows.push_back({p.name, p.op, Cat(p.rows, " x ", p.depth), Cat(p.rank), Cat(p.parameters()),
                    Cat(p.parameters_after()), PercentText(p.us_after, p.us),
                    PercentOrNone(p.error), PercentOrNone(p.plain_error)});
  }
  out += "\n" + TextTable(rows);
  if (left > 0) out += Cat("and ", left, " more layers (--json has them all)\n");
  out +=
      "error: of the layer's outputs against the dense model's, on samples held out of "
      "calibration\n";
  return out + LeftWhole(r);
}

}  // namespace infer
