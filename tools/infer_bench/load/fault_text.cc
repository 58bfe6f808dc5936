#include "tools/infer_bench/load/fault_text.h"

#include <optional>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/share.h"
#include "tools/infer_bench/load/latencies.h"

namespace infer::bench {
namespace {

using engine::Fault;
using engine::FaultKind;
using engine::FaultSite;

template <typename Named>
std::optional<Named> NamedBy(std::string_view text, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (Name(static_cast<Named>(i)) == text) return static_cast<Named>(i);
  return std::nullopt;
}

std::optional<double> RateOf(std::string_view text) {
  const auto rate = ParseShare(text);
  return rate ? std::optional(rate->value) : std::nullopt;
}

/// "20ms", "0.5s", "300us".
std::optional<double> NsOf(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 3> kUnits = {
      {{"ms", 1e6}, {"us", 1e3}, {"s", 1e9}}};
  for (const auto& [unit, ns] : kUnits)
    if (text.ends_with(unit)) {
      const auto number = ParseDouble(text.substr(0, text.size() - unit.size()));
      return number && *number > 0 && *number <= 3600e9 / ns ? std::optional(*number * ns)
                                                             : std::nullopt;
    }
  return std::nullopt;
}

Result<Fault> ParseFault(const std::string& text) {
  const auto refuse = [&](std::string_view why) {
    return InvalidArgument(Cat("--fault ", text, ": ", why));
  };
  const std::vector<std::string> parts = Split(text, ':');
  if (parts.size() < 3 || parts.size() > 4) return refuse("not SITE:KIND:RATE[:DELAY]");
  const auto site = NamedBy<FaultSite>(parts[0], engine::kFaultSites);
  // Models are loaded before faults begin.
  if (!site || site == FaultSite::kLoad) return refuse("the site is bind, run or answer");
  const auto kind = NamedBy<FaultKind>(parts[1], engine::kFaultKinds);
  if (!kind) return refuse("the kind is fail, throw or delay");
  const auto rate = RateOf(parts[2]);
  if (!rate || !(*rate >= 0 && *rate <= 1)) return refuse("the rate is from 0 to 1");
  Fault fault{*site, *kind, *rate, 0};
  if ((kind == FaultKind::kDelay) != (parts.size() == 4))
    return refuse("a delay, and no other, has a time");
  if (parts.size() < 4) return fault;
  const auto ns = NsOf(parts[3]);
  if (!ns || *ns < 1) return refuse("the time is like 20ms, at most an hour");
  fault.delay_ns = static_cast<int64_t>(*ns);
  return fault;
}

}  // namespace

Result<engine::FaultPlan> ParseFaults(const std::vector<std::string>& texts, uint64_t seed) {
  engine::FaultPlan plan{.seed = seed};
  for (const std::string& text : texts) {
    INFER_ASSIGN(const Fault fault, ParseFault(text));
    plan.faults.push_back(fault);
  }
  return plan;
}

Json FaultsJson(const std::vector<engine::FaultCount>& faults) {
  Json all = Json::array();
  for (const engine::FaultCount& c : faults)
    all.push_back({{"site", Name(c.fault.site)},
                   {"kind", Name(c.fault.kind)},
                   {"rate", c.fault.rate},
                   {"delay_ms", static_cast<double>(c.fault.delay_ns) / kNsPerMs},
                   {"visits", c.visits},
                   {"met", c.met}});
  return all;
}

std::string FaultsText(const std::vector<engine::FaultCount>& faults) {
  std::string text;
  for (const engine::FaultCount& c : faults) {
    const double ms = static_cast<double>(c.fault.delay_ns) / kNsPerMs;
    text += Cat("planned: ", Name(c.fault.site), " ", Name(c.fault.kind),
                ms > 0 ? Cat(" ", Rounded(ms, 4), " ms") : "", ", ", Rounded(100 * c.fault.rate, 4),
                " %: ", c.met, " of ", c.visits, " visits\n");
  }
  return text;
}

}  // namespace infer::bench
