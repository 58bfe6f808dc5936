#include "runtime/c_api/judge.h"

#include <cmath>
#include <utility>

#include "passes/pass/pipeline.h"
#include "quant/accuracy/gate.h"

namespace infer::c_api {

Result<double> Judge::Measure(const std::string& of, Graph graph) {
  INFER_ASSIGN(auto session, MakeSession(std::move(graph), session_));
  double metric = std::numeric_limits<double>::quiet_NaN();
  if (const int code = evaluate_(user_, session.release(), &metric); code != INFER_OK)
    return Status(CodeOfCallback(code), Cat("the metric of ", of, ": its callback failed"));
  if (!std::isfinite(metric))
    return InvalidArgument(Cat("the metric of ", of, " is ", metric, ", no finite number"));
  return metric;
}

Status Judge::Begin(const Graph& golden) {
  if (std::isnan(max_drop_) || max_drop_ < 0)
    return InvalidArgument(Cat("max_drop ", max_drop_, ": 0 or more"));
  if (!wanted())
    return max_drop_ == 0 ? Status() : InvalidArgument("max_drop is an option of evaluate");
  INFER_ASSIGN(golden_, Measure("the golden model", golden.Clone()));
  return {};
}

Result<bool> Judge::Takes(const std::string& name, const Graph& candidate) {
  if (!wanted()) return true;
  Graph fused = candidate.Clone();
  INFER_TRY(Optimize(fused, {.level = kMaxLevel}).status());
  INFER_ASSIGN(candidate_, Measure(Cat("candidate ", name), std::move(fused)));
  const GateResult gate = CheckMetric(max_drop_, golden_, candidate_);
  if (!gate.passed) refused_ += Cat(refused_.empty() ? "" : "; ", name, ": ", gate.message);
  return gate.passed;
}

Status Judge::Refusal() const {
  return InvalidArgument(Cat("max_drop is not kept, and the model stays as it was: ", refused_));
}

}  // namespace infer::c_api
