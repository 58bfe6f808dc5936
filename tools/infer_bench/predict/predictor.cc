#include "tools/infer_bench/predict/predictor.h"

#include <algorithm>

#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "tools/infer_bench/predict/fit.h"

namespace infer::bench {
namespace {

constexpr double kFarBeyond = 2;   // times the largest amount measured
constexpr double kMatters = 0.25;  // of a step's time

bool IsExtrapolated(const Family& family, const Features& x, double us) {
  for (size_t c = 0; c < kNumColumns; ++c)
    if (x[c] > kFarBeyond * family.most[c] && family.price[c] * x[c] > kMatters * us) return true;
  return false;
}

Result<StepPrediction> PredictStep(const StepFacts& step, int64_t program_bytes,
                                   const LaneProfile& profile) {
  const StepFeatures f = FeaturesOf(step, program_bytes, profile.roofline);
  for (size_t g = 0; g < f.families.size(); ++g) {
    const auto it = profile.families.find(f.families[g]);
    if (it == profile.families.end()) continue;
    const double us = Priced(it->second.price, f.x);
    const int launches = step.launches + step.copies;
    return StepPrediction{.family = it->first,
                          .ms = std::max(0.0, us - profile.step_profile_us * launches) / 1e3,
                          .generality = static_cast<int>(g),
                          .extrapolated = IsExtrapolated(it->second, f.x, us)};
  }
  return InvalidArgument(Cat("the profile has no family for step '", step.info.node, "' (",
                             f.families[0], "), not even 'any'"));
}

/// The shares of `p` are still times.
Status AddSteps(const PlanFacts& plan, int64_t program_bytes, const LaneProfile& profile,
                Prediction& p);

/// The bodies of a step, each as often as it runs.
Status AddBodies(const PlanFacts& plan, int64_t program_bytes, const LaneProfile& profile,
                 Prediction& p) {
  for (const BodyFacts& body : plan.bodies) {
    if (!body.known) {
      ++p.unpredictable;
      continue;
    }
    Prediction inner;
    INFER_TRY(AddSteps(body.plan, program_bytes, profile, inner));
    StepPrediction& step = p.steps[body.step];
    step.family = kBodies;
    step.ms += body.runs * inner.ms;
    p.ms += body.runs * inner.ms;
    p.general_share += body.runs * inner.general_share;
    p.extrapolated_share += body.runs * inner.extrapolated_share;
    p.unpredictable += inner.unpredictable;
    p.counted_once += inner.counted_once + (body.at_least ? 1 : 0);
  }
  return {};
}

Status AddSteps(const PlanFacts& plan, int64_t program_bytes, const LaneProfile& profile,
                Prediction& p) {
  for (const StepFacts& step : plan.steps) {
    StepPrediction& out = p.steps.emplace_back();
    const bool runs_bodies = step.info.kernel == kBodies;
    if (step.late && !runs_bodies) ++p.unpredictable;
    if (step.late || step.launches + step.copies == 0) continue;
    INFER_ASSIGN(out, PredictStep(step, program_bytes, profile));
    p.ms += out.ms;
    if (out.generality > 0) p.general_share += out.ms;
    if (out.extrapolated) p.extrapolated_share += out.ms;
  }
  p.ms += profile.run_us / 1e3;
  return AddBodies(plan, program_bytes, profile, p);
}

}  // namespace

Result<Prediction> Predict(const PlanFacts& plan, const Profile& profile, int threads) {
  const LaneProfile* lanes = profile.For(threads);
  if (!lanes)
    return InvalidArgument(
        Cat("the profile was not measured with ", threads, threads == 1 ? " thread" : " threads"));
  Prediction p;
  INFER_TRY(AddSteps(plan, plan.program_bytes(), *lanes, p));
  if (p.ms > 0) p.general_share /= p.ms, p.extrapolated_share /= p.ms;
  return p;
}

Result<Prediction> PredictGraph(const Graph& g, const DeviceOptions& options,
                                const Profile& profile) {
  INFER_ASSIGN(const PlannedModel model, PlanModel(g, options));
  return Predict(model.facts, profile, options.threads > 0 ? options.threads : LaneBudget());
}

}  // namespace infer::bench
