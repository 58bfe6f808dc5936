#include "tools/common/reference_share.h"

#include <algorithm>
#include <set>

#include "lib/support/measure.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {

double ReferenceShare::reference_ms() const {
  double sum = 0;
  for (const auto& [op, ms] : operators) sum += ms;
  return sum;
}

double ReferenceShare::percent() const { return wall_ms > 0 ? 100 * reference_ms() / wall_ms : 0; }

std::string ReferenceShare::ToString(double least) const {
  std::vector<std::pair<double, std::string>> listed;
  for (const auto& [op, ms] : operators)
    if (wall_ms > 0 && 100 * ms / wall_ms >= least) listed.emplace_back(-100 * ms / wall_ms, op);
  std::sort(listed.begin(), listed.end());
  std::vector<std::string> texts;
  for (const auto& [negative, op] : listed)
    texts.push_back(Cat(op, " ", Fixed(-negative, 1), " %"));
  return Cat("reference kernels: ", Fixed(percent(), 1), " % of the time",
             texts.empty() ? "" : Cat(" (", Join(texts, ", "), ")"));
}

Json ToJson(const ReferenceShare& share) {
  return {{"wall_ms", share.wall_ms},
          {"reference_ms", share.reference_ms()},
          {"percent", share.percent()},
          {"operators_ms", share.operators.empty() ? Json::object() : Json(share.operators)}};
}

void ReferenceSamples::Add(double wall_ms, const OperatorTimes& operators) {
  walls_.push_back(wall_ms);
  operators_.push_back(operators);
}

ReferenceShare ReferenceSamples::Median() const {
  ReferenceShare share;
  if (walls_.empty()) return share;
  share.wall_ms = Quantile(walls_, 0.5);
  std::set<std::string> names;
  for (const OperatorTimes& t : operators_)
    for (const auto& [op, ms] : t) names.insert(op);
  for (const std::string& op : names) {
    std::vector<double> times;
    for (const OperatorTimes& t : operators_) {
      const auto it = t.find(op);
      times.push_back(it == t.end() ? 0 : it->second);
    }
    share.operators[op] = Quantile(times, 0.5);
  }
  return share;
}

}  // namespace infer
