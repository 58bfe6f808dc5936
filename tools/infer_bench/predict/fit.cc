#include "tools/infer_bench/predict/fit.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "lib/support/hash.h"
#include "lib/support/statistics.h"
#include "tools/infer_bench/predict/nnls.h"

namespace infer::bench {
namespace {

constexpr int kReweightings = 12;
constexpr double kRidge = 1e-6;   // of columns of norm 1
constexpr double kNearby = 0.03;  // errors below count as squares

bool IsHeldOut(size_t program) { return Hasher().Add(uint64_t{program}).value() % 5 == 0; }

using Groups = std::map<std::string, std::vector<const FitCase*>>;

Groups ByFamily(const std::vector<FitCase>& cases,
                const std::function<bool(const FitCase&)>& wanted) {
  Groups groups;
  for (const FitCase& c : cases) {
    if (!wanted(c)) continue;
    for (const std::string& family : c.features.families) groups[family].push_back(&c);
  }
  return groups;
}

}  // namespace

double Priced(const Features& price, const Features& amount) {
  double sum = 0;
  for (size_t c = 0; c < kNumColumns; ++c) sum += price[c] * amount[c];
  return sum;
}

Features FitPrices(const std::vector<const FitCase*>& cases) {
  const size_t n = cases.size();
  std::vector<double> a(n * kNumColumns), b(n), weight(n);
  for (size_t i = 0; i < n; ++i) weight[i] = 1 / cases[i]->us;
  Features price{};
  for (int round = 0; round < kReweightings; ++round) {
    for (size_t i = 0; i < n; ++i) {
      b[i] = cases[i]->us * weight[i];
      for (size_t c = 0; c < kNumColumns; ++c)
        a[i * kNumColumns + c] = cases[i]->features.x[c] * weight[i];
    }
    const std::vector<double> x = Nnls(a, kNumColumns, b, kRidge);
    std::copy(x.begin(), x.end(), price.begin());
    for (size_t i = 0; i < n; ++i) {
      const double us = cases[i]->us;
      const double predicted = std::clamp(Priced(price, cases[i]->features.x), us / 4, us * 4);
      const double scale = std::sqrt(us * predicted);
      const double error = std::abs(predicted - us) / scale;
      weight[i] = 1 / (scale * std::sqrt(std::max(error, kNearby)));
    }
  }
  return price;
}

std::map<std::string, Family> FitFamilies(const std::vector<FitCase>& cases) {
  std::map<std::string, Family> families;
  const Groups all = ByFamily(cases, [](const FitCase&) { return true; });
  const Groups kept = ByFamily(cases, [](const FitCase& c) { return !IsHeldOut(c.program); });
  for (const auto& [name, members] : all) {
    if (members.size() < kLeastCases) continue;
    Family& f = families[name];
    f.cases = static_cast<int>(members.size());
    f.price = FitPrices(members);
    for (const FitCase* c : members)
      for (size_t i = 0; i < kNumColumns; ++i) f.most[i] = std::max(f.most[i], c->features.x[i]);
    const auto without = kept.find(name);
    if (without == kept.end() || without->second.size() < kLeastCases) continue;
    const Features price = FitPrices(without->second);
    std::vector<double> errors;
    for (const FitCase* c : members)
      if (IsHeldOut(c->program))
        errors.push_back(std::abs(Priced(price, c->features.x) / c->us - 1));
    if (errors.empty()) continue;
    f.held_out = static_cast<int>(errors.size());
    f.regret_median = Quantile(errors, 0.5);
    f.regret_p90 = Quantile(errors, 0.9);
  }
  return families;
}

void FitOverheads(const std::vector<FitRun>& runs, LaneProfile& profile) {
  std::vector<double> per_step, per_run;
  for (const FitRun& r : runs)
    if (r.launches >= 8)
      per_step.push_back(std::max(0.0, r.profiled_us - r.unprofiled_us) / r.launches);
  if (!per_step.empty()) profile.step_profile_us = Quantile(per_step, 0.5);
  for (const FitRun& r : runs)
    per_run.push_back(r.unprofiled_us - r.steps_us + profile.step_profile_us * r.launches);
  if (!per_run.empty()) profile.run_us = std::max(0.0, Quantile(per_run, 0.5));
}

}  // namespace infer::bench
