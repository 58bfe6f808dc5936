#include "runtime/engine/router.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/support/hash.h"
#include "lib/support/strings.h"

namespace infer::engine {
namespace {

bool Takes(const Variant& v) { return v.ready && v.weight > 0; }

/// By weight; `without` is left out.
const Variant* Drawn(const std::vector<Variant>& variants, Random& random,
                     const Variant* without = nullptr) {
  double sum = 0;
  for (const Variant& v : variants) sum += Takes(v) && &v != without ? v.weight : 0;
  double at = random.Uniform() * sum;
  const Variant* last = nullptr;
  for (const Variant& v : variants) {
    if (!Takes(v) || &v == without) continue;
    last = &v;
    if (at < v.weight) return last;
    at -= v.weight;
  }
  return last;
}

double LoadOf(const Variant& v) { return static_cast<double>(v.outstanding + 1) / v.weight; }

}  // namespace

const Variant* Split(const std::vector<Variant>& variants, std::string_view salt,
                     std::string_view key) {
  // Weighted rendezvous hashing (Thaler and Ravishankar 1998): each variant draws for the key, so
  // that one more or less moves its own keys only.
  const Variant* best = nullptr;
  double lowest = std::numeric_limits<double>::infinity();
  for (const Variant& v : variants) {
    if (!Takes(v)) continue;
    const uint64_t hash = Hasher().Add(salt).Add(key).Add(v.model).value();
    const double draw = (static_cast<double>(hash >> 11) + 0.5) * 0x1p-53;
    const double wait = -std::log(draw) / v.weight;
    if (wait < lowest) {
      lowest = wait;
      best = &v;
    }
  }
  return best;
}

const Variant* LeastOfTwo(const std::vector<Variant>& variants, Random& random) {
  const Variant* a = Drawn(variants, random);
  const Variant* b = Drawn(variants, random, a);
  if (!a || !b) return a;
  return LoadOf(*b) < LoadOf(*a) ? b : a;
}

int64_t ExpectedNs(const ModelLoad& load, int64_t run_ns) {
  const int64_t each = load.run_ns > 0 ? load.run_ns : run_ns;
  const int64_t rows = std::max<int64_t>(load.max_rows, 1);
  // The request's own run comes behind the full ones before it.
  const int64_t before = load.busy + load.waiting_rows / rows;
  const int64_t rounds = 1 + before / std::max(load.instances, 1);
  return std::min(rounds, kNever / std::max<int64_t>(each, 1)) * each;
}

InTime MostAccurateInTime(const std::vector<Variant>& variants, double margin, int64_t timeout_ns) {
  const Variant *best = nullptr, *first = nullptr;
  for (const Variant& v : variants) {
    if (!v.ready) continue;
    if (!first || v.expected_ns < first->expected_ns) first = &v;
    const bool in_time = timeout_ns == kNever || margin * static_cast<double>(v.expected_ns) <=
                                                     static_cast<double>(timeout_ns);
    if (!in_time) continue;
    const bool better = !best || v.accuracy > best->accuracy ||
                        (v.accuracy == best->accuracy && v.expected_ns < best->expected_ns);
    if (better) best = &v;
  }
  return best ? InTime{best, true} : InTime{first, false};
}

Status Check(const CanaryRules& rules) {
  double before = 0;
  for (double s : rules.steps) {
    if (!(s > before && s < 1))
      return InvalidArgument(Cat("steps of a canary rise and lie between 0 and 1, not ", s));
    before = s;
  }
  if (rules.steps.empty()) return InvalidArgument("a canary needs a step");
  if (rules.least_samples < 1) return InvalidArgument("a canary is judged by at least one sample");
  if (!(rules.most_error_rate >= 0)) return InvalidArgument("an error rate is 0 or more");
  if (!(rules.most_slowdown >= 1)) return InvalidArgument("a slowdown is 1 or more");
  if (rules.failures_to_roll_back < 1) return InvalidArgument("a canary fails at least once");
  if (rules.interval_ns < 1) return InvalidArgument("a canary's interval is above 0");
  return {};
}

double Canary::share(const CanaryRules& rules) const {
  if (phase == Phase::kPromoted) return 1;
  return phase == Phase::kRolledBack ? 0 : rules.steps[step];
}

Canary Judge(const CanaryRules& rules, Canary now, const Seen& stable, const Seen& canary) {
  if (now.phase != Canary::Phase::kRunning) return now;
  if (canary.requests < rules.least_samples && !canary.broken) {
    now.why = Cat(canary.requests, " of ", rules.least_samples, " samples");
    return now;
  }
  const auto rate = [](const Seen& s) {
    return s.requests > 0 ? static_cast<double>(s.errors) / static_cast<double>(s.requests) : 0;
  };
  now.why = "";
  if (canary.broken)  // it is left out: no more samples can be waited for
    now.why = "its breaker opened";
  else if (rate(canary) > rate(stable) + rules.most_error_rate)
    now.why = Cat("errors: ", rate(canary), " of its requests, ", rate(stable), " of the stable's");
  else if (stable.p99_ms > 0 && canary.p99_ms > rules.most_slowdown * stable.p99_ms)
    now.why = Cat("slower: p99 ", canary.p99_ms, " ms, ", stable.p99_ms, " ms of the stable");
  if (!now.why.empty()) {
    if (++now.failures >= rules.failures_to_roll_back) now.phase = Canary::Phase::kRolledBack;
    return now;
  }
  now.failures = 0;
  if (++now.step == rules.steps.size()) now.phase = Canary::Phase::kPromoted;
  return now;
}

}  // namespace infer::engine
