#include "tools/infer_opt/fuse/measure.h"

#include <set>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/profile.h"

namespace infer {
namespace {

/// Below this a difference is not worth a rule, however sure it is.
constexpr double kFaster = 0.99;

/// Refuses what checking refused when all rules were tried.
class Refusals : public MatchReviewer {
 public:
  void Add(const MatchRecord& r) { refused_.emplace(r.rule, r.at); }
  Status Review(const Candidate&, MatchRecord& record) override {
    if (!refused_.contains({record.rule, record.at})) return {};
    return InvalidModel("refused when it was checked");
  }

 private:
  std::set<std::pair<std::string, std::string>> refused_;
};

struct Built {
  OptimizeReport report;
  uint64_t fingerprint = 0;
  std::shared_ptr<const Program> program;
};

/// Pre: b is without the rule.
bool FasterWithout(const PairTiming& t) {
  return t.ratio.median < kFaster && t.ratio.median_high < 1;
}

std::string RatioText(const Summary& ratio) {
  return Cat(Fixed(ratio.median, 3), " [", Fixed(ratio.median_low, 3), ", ",
             Fixed(ratio.median_high, 3), "]");
}

}  // namespace

Result<NodeTimes> TimesByNode(const Program& program, const std::vector<Datum>& inputs,
                              const std::stop_token& stop) {
  INFER_ASSIGN(auto run, program.NewContext());
  for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(run->BindInput(i, inputs[i]));
  INFER_TRY(run->Run({.stop = stop}));
  INFER_ASSIGN(const ModelProfile profile, ProfileRuns("", program, *run, stop));
  NodeTimes times;
  for (const StepProfile& s : profile.steps)
    if (!s.info.outputs.empty()) times[s.info.outputs[0]] += s.ms;
  return times;
}

Result<std::vector<RuleTiming>> ChooseRules(Context& context, const Graph& golden,
                                            const OptimizeOptions& options,
                                            const DeviceOptions& device,
                                            const std::vector<Datum>& inputs) {
  Refusals refusals;
  const auto build = [&](const std::vector<std::string>& without, bool check,
                         uint64_t skip) -> Result<Built> {
    Graph g = golden.Clone();
    OptimizeOptions o = options;
    o.disable.insert(o.disable.end(), without.begin(), without.end());
    if (!check) o.captured.reset();
    o.reviewers.push_back(&refusals);
    o.explain.clear();
    Built built;
    INFER_ASSIGN(built.report, Optimize(g, std::move(o)));
    built.fingerprint = Fingerprint(g);
    if (built.fingerprint == skip) return built;
    INFER_ASSIGN(built.program, CompileOwnedFor(std::move(g), device));
    return built;
  };
  INFER_ASSIGN(Built best, build({}, true, 0));
  std::vector<std::string> candidates, without;
  for (const auto& [name, s] : best.report.rules)
    if (s.applied > 0) candidates.push_back(name);
  for (const MatchRecord& r : best.report.records)
    if (r.outcome == MatchRecord::Outcome::kRefused) refusals.Add(r);

  std::vector<RuleTiming> timings;
  int64_t done = 0;
  for (const std::string& rule : candidates) {
    context.Progress("measure", done++, static_cast<int64_t>(candidates.size()));
    std::vector<std::string> fewer = without;
    fewer.push_back(rule);
    INFER_ASSIGN(Built other, build(fewer, false, best.fingerprint));
    // Another rule does its work, too.
    if (other.fingerprint == best.fingerprint) continue;
    RuleTiming t{.rule = rule};
    INFER_ASSIGN(t.timing, TimePair(*best.program, *other.program, inputs, context.stop()));
    t.kept = !FasterWithout(t.timing);
    // Of many rules one may look slow by chance: what is left out must be slow twice.
    if (!t.kept) {
      INFER_ASSIGN(t.timing, TimePair(*best.program, *other.program, inputs, context.stop()));
      t.kept = !FasterWithout(t.timing);
    }
    if (!t.kept) {
      without = std::move(fewer);
      best = std::move(other);
    }
    timings.push_back(std::move(t));
  }
  context.Progress("measure", done, done);
  return timings;
}

std::string ToText(const std::vector<RuleTiming>& rules) {
  std::vector<std::vector<std::string>> rows = {
      {"rule", "ms with", "ms without", "without / with", ""}};
  for (const RuleTiming& t : rules)
    rows.push_back({t.rule, Fixed(t.timing.a.median, 3), Fixed(t.timing.b.median, 3),
                    RatioText(t.timing.ratio), t.kept ? "kept" : "switched off"});
  return rows.size() > 1 ? TextTable(rows) : "no rule to measure\n";
}

std::string ToText(const PairTiming& t) {
  return Cat("latency ", Fixed(t.a.median, 3), " -> ", Fixed(t.b.median, 3), " ms, ratio ",
             RatioText(t.ratio), ", ", t.ratio.count, " pairs\n");
}

Json ToJson(const std::vector<RuleTiming>& rules) {
  Json out = Json::array();
  for (const RuleTiming& t : rules) {
    Json j = {{"rule", t.rule}, {"kept", t.kept}};
    j.update(ToJson(t.timing, "with_ms", "without_ms"));
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace infer
