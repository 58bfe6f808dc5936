#include "quant/search/measuring.h"

#include <algorithm>

#include "lib/support/hash.h"
#include "lib/support/strings.h"

namespace infer {

std::string PolicyKey(const Policy& policy) {
  Hasher h;
  for (const auto& [key, choice] : policy) h.Add(key).Add(Name(choice.precision));
  return Cat("policy ", h.value());
}

Result<std::optional<Numbers>> Measuring::Measured(
    const std::string& key, double until, const std::function<Result<Numbers>()>& measure) {
  if (options.stop.stop_requested()) return Cancelled("the search was stopped");
  std::optional<Numbers> found;
  if (const Numbers* n = store_.Find(key)) {
    found = *n;
    ++result_.reused;
  } else if (SecondsUntil(until) > 0) {
    INFER_ASSIGN(Numbers fresh, measure());
    INFER_TRY(store_.Add(key, fresh));
    found = std::move(fresh);
    ++result_.measured;
  } else {
    ++result_.skipped;
  }
  planned_ = std::max(planned_, ++done_);
  if (options.progress) options.progress(done_, planned_);
  return found;
}

Result<Numbers> Measuring::Always(const std::string& key,
                                  const std::function<Result<Numbers>()>& measure) {
  INFER_ASSIGN(auto n, Measured(key, kAlways, measure));
  return n.value_or(Numbers{});
}

double Measuring::SecondsUntil(double share) const {
  if (share == kAlways || options.deadline == Instant::max()) return kAlways;
  const auto seconds = [](auto d) { return std::chrono::duration<double>(d).count(); };
  return share * seconds(options.deadline - start_) - seconds(options.now() - start_);
}

Result<std::optional<Score>> Measuring::ScoreOf(const std::string& key, const Policy& policy,
                                                int64_t samples, double until) {
  INFER_ASSIGN(const auto n, Measured(key, until, [&]() -> Result<Numbers> {
                 INFER_ASSIGN(MixedGraph g, model.Apply(policy));
                 INFER_ASSIGN(const Score s, judge.Of(std::move(g.graph), samples));
                 return s.numbers();
               }));
  if (!n) return std::optional<Score>();
  INFER_ASSIGN(const Score score, Score::From(*n));
  return std::optional(score);
}

bool Measuring::Has(Precision p) const {
  return std::count(options.precisions.begin(), options.precisions.end(), p) > 0;
}

}  // namespace infer
