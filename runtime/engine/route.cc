#include "runtime/engine/route.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/support/strings.h"

namespace infer::engine {
namespace {

template <typename Mode>
bool Is(const RoutePolicy& p) {
  return std::holds_alternative<Mode>(p.mode);
}

bool IsByDevice(const RoutePolicy& p) {
  const auto* affinity = std::get_if<AffinityRoute>(&p.mode);
  return affinity && affinity->by == AffinityRoute::By::kDevice;
}

/// A field that the mode needs is set, one that it does not read is not.
Status CheckVariant(const RoutePolicy& p, const RouteVariant& v) {
  const std::string_view mode = NameOf(p.mode);
  const auto unused = [&](const char* what) {
    return InvalidArgument(Cat("variant '", v.model, "': ", what, " has no effect in mode ", mode));
  };
  const auto missing = [&](const char* what) {
    return InvalidArgument(Cat("variant '", v.model, "': mode ", mode, " needs its ", what));
  };
  if (v.model.empty()) return InvalidArgument("a variant has no model");
  const bool weighted = Is<SplitRoute>(p) || Is<AffinityRoute>(p) || Is<BalanceRoute>(p);
  if (v.weight && !weighted) return unused("weight");
  if (v.weight && !(*v.weight > 0 && *v.weight < 1e9))
    return InvalidArgument(Cat("variant '", v.model, "': weight is above 0, not ", *v.weight));
  const bool slo = Is<SloRoute>(p);
  if (v.accuracy && !slo) return unused("accuracy");
  if (v.run_ns && !slo) return unused("run time");
  if (slo && !v.accuracy) return missing("accuracy");
  if (slo && !std::isfinite(*v.accuracy))
    return InvalidArgument(Cat("variant '", v.model, "': accuracy is no ", *v.accuracy));
  if (v.run_ns && *v.run_ns < 1)
    return InvalidArgument(Cat("variant '", v.model, "': its run time is above 0"));
  if (v.device && !IsByDevice(p)) return unused("device");
  if (IsByDevice(p) && (!v.device || v.device->empty())) return missing("device");
  return {};
}

Status CheckMode(const SplitRoute& m) { return m.experiment ? Check(*m.experiment) : Status(); }
Status CheckMode(const CanaryRoute& m) { return Check(m.rules); }
Status CheckMode(const AffinityRoute& m) {
  if (m.by == AffinityRoute::By::kDevice && !m.salt.empty())
    return InvalidArgument("salt has no effect in mode affinity by device");
  if (m.by == AffinityRoute::By::kKey && m.seed != 0)
    return InvalidArgument("seed has no effect in mode affinity by key");
  return {};
}
Status CheckMode(const BalanceRoute&) { return {}; }
Status CheckMode(const ShadowRoute& m) {
  if (!(m.share > 0 && m.share <= 1))
    return InvalidArgument(Cat("share of a shadow is above 0 and at most 1, not ", m.share));
  if (m.most_waiting < 1) return InvalidArgument("a shadow that no copy may wait for gets none");
  if (m.timeout_ns < 1) return InvalidArgument("timeout of a shadow is above 0");
  return {};
}
Status CheckMode(const CascadeRoute& m) {
  if (!(m.min_confidence > 0 && m.min_confidence <= 1))
    return InvalidArgument(Cat("min_confidence is above 0 and at most 1, not ", m.min_confidence));
  return {};
}
Status CheckMode(const SloRoute& m) {
  return m.margin >= 1 && m.margin < 1e9
             ? Status()
             : InvalidArgument(Cat("margin is 1 or more, not ", m.margin));
}

}  // namespace

std::string_view NameOf(const RouteMode& mode) {
  constexpr std::array<std::string_view, std::variant_size_v<RouteMode>> names = {
      "split", "canary", "affinity", "balance", "shadow", "cascade", "slo"};
  return names[mode.index()];
}

Status Check(const RoutePolicy& p) {
  if (p.variants.size() < 2)
    return InvalidArgument(Cat("a route has two variants or more, not ", p.variants.size()));
  if (Is<CanaryRoute>(p) && p.variants.size() != 2)
    return InvalidArgument(Cat("mode canary has two variants, the stable one and the canary, not ",
                               p.variants.size()));
  std::set<std::string_view> models;
  for (const RouteVariant& v : p.variants) {
    INFER_TRY(CheckVariant(p, v));
    if (!models.insert(v.model).second)
      return InvalidArgument(Cat("variant '", v.model, "' is there twice"));
  }
  INFER_TRY(Check(p.breaker));
  return std::visit([](const auto& mode) { return CheckMode(mode); }, p.mode);
}

}  // namespace infer::engine
