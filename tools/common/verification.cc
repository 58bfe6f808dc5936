#include "tools/common/verification.h"

#include <algorithm>

#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/accuracy_report.h"

namespace infer {
namespace {

/// Draws of random integers that a model may refuse for each one that it takes.
constexpr size_t kRefusals = 3;

}  // namespace

Result<RandomRuns> RandomSamples(Context& context, const Graph& g, int64_t runs, uint64_t seed,
                                 const RunGraph& run) {
  // Numbers that may be indices fit an extent with one seed and not with the next.
  const bool has_integers = std::any_of(g.inputs().begin(), g.inputs().end(), [](const Value* v) {
    return v->type().is_tensor() && (v->dtype() == DType::kI64 || v->dtype() == DType::kI32);
  });
  const auto tried = static_cast<size_t>(has_integers ? std::max<int64_t>(runs, 1) : 1);
  std::vector<uint64_t> seeds;  // of inputs that the graph takes
  size_t refusals = 0;          // that one choice of extents may have
  Status refused;
  ExtentSearch search{.first_batch = 2};
  search.run = [&](const OpenExtents& extents) -> Result<bool> {
    bool empty = false;
    seeds.clear();
    size_t left = refusals;
    for (uint64_t next = seed; seeds.size() < tried; ++next) {
      INFER_ASSIGN(const auto inputs, RandomModelInputs(g, next, extents));
      const auto outputs = run(inputs);
      if (!outputs.ok()) {
        const Code code = outputs.status().code();
        if (left == 0 || (code != Code::kInvalidArgument && code != Code::kInvalidModel))
          return outputs.status();
        --left;
        refused = outputs.status();
        continue;
      }
      seeds.push_back(next);
      empty |= AnyEmpty(*outputs);
    }
    return empty;
  };
  RandomRuns r;
  auto extents = FindExtents(g, search);
  if (!extents.ok() && extents.status().code() == Code::kInvalidArgument && has_integers) {
    // A model whose integers are not independent (a mask of ones, in the trace of a model without
    // global attention) runs on some draws alone.
    refusals = kRefusals * tried;
    if (auto some = FindExtents(g, search); some.ok()) extents = std::move(some);
  }
  INFER_TRY(extents.status());
  r.extents = *std::move(extents);
  // Without integers one draw stands for all.
  while (seeds.size() < static_cast<size_t>(runs)) seeds.push_back(seeds.back() + 1);
  context.Note(Cat("checked on ", runs, " random inputs, seed ", seed,
                   r.extents.empty() ? "" : ", with ", ToString(r.extents)));
  if (!refused.ok())
    context.Note(Cat("of ", seeds.back() - seed + 1, " draws ", runs,
                     " run; the model refuses the others: ", refused.message()));
  r.samples.count = runs;
  r.samples.random = true;
  r.samples.get = [&g, seeds, extents = r.extents](int64_t i) {
    return RandomModelInputs(g, seeds[static_cast<size_t>(i)], extents);
  };
  return r;
}

void AddExactnessGates(const AccuracyReport& r, std::vector<GateResult>& gates) {
  std::erase_if(gates, [](const GateResult& g) {
    return !g.passed && g.where.empty() && g.name == "max-error";
  });
  const auto add = [&](const ValueAccuracy& v, std::string_view name, int64_t bad,
                       std::string_view what) {
    gates.push_back({.name = std::string(name),
                     .where = v.name,
                     .limit = 0,
                     .measured = static_cast<double>(bad),
                     .passed = bad == 0,
                     .interval = std::nullopt,
                     .message = Cat("output '", v.name, "': ", bad, what)});
  };
  for (const ValueAccuracy& v : r.outputs) {
    const TensorMetrics& m = v.metrics;
    if (!v.is_float) add(v, "equal", m.unequal, " elements differ");
    if (v.is_float && m.unequal > 0) add(v, "equal", m.unequal, " keys of one side alone");
    if (v.is_float && m.non_finite_mismatches > 0)
      add(v, "non-finite", m.non_finite_mismatches, " NaN or infinity mismatches");
  }
}

namespace {

GateResult CodesGate(const CodeCheck& check) {
  GateResult r{"codes", check.worst, kCodeTolerance, check.shift, check.shift <= kCodeTolerance};
  r.message = check.moved == 0 && r.passed
                  ? Cat("codes of ", check.values, " values: all ", check.codes, " equal")
                  : Cat("codes of ", check.values, " values: ", check.moved, " of ", check.codes,
                        " moved, at numbers that are off by ", Rounded(check.shift, 3),
                        " of the largest, limit ", FormatDouble(kCodeTolerance),
                        check.worst.empty() ? "" : Cat(" ('", Printable(check.worst), "')"));
  return r;
}

std::vector<GateResult> GatesOf(const AccuracyReport& accuracy, double tolerance) {
  std::vector<GateResult> gates = CheckGates(accuracy, {.max_error_ratio = tolerance});
  AddExactnessGates(accuracy, gates);
  return gates;
}

}  // namespace

Result<RewriteJudgement> JudgeRewrite(Context& context, const Graph& golden, const Graph& candidate,
                                      const DeviceOptions& device, const Samples& samples,
                                      const AccuracyReport& accuracy, double tolerance) {
  RewriteJudgement j{GatesOf(accuracy, tolerance), std::nullopt};
  if (AllPassed(j.gates) || SharedCodes(golden, candidate).empty()) return j;
  INFER_ASSIGN(const auto backend, MakeBackend(device.device));
  CodeCheckOptions options;
  options.candidate_level = device.level;
  options.threads = device.threads;
  options.stop = context.stop();
  INFER_ASSIGN(j.codes, CheckCodes(golden, candidate, *backend, samples, options));
  j.gates = GatesOf(j.codes->outputs, tolerance);
  for (GateResult& g : j.gates) g.message += ", from golden's codes";
  j.gates.push_back(CodesGate(*j.codes));
  return j;
}

Json ToJson(const CodeCheck& check) {
  return {{"values", check.values}, {"codes", check.codes},
          {"moved", check.moved},   {"shift", JsonNumber(check.shift)},
          {"worst", check.worst},   {"outputs", ToJson(check.outputs)["outputs"]}};
}

Result<AccuracyReport> CompareGraphs(Context& context, const Graph& golden, const Graph& candidate,
                                     const DeviceOptions& device, const Samples& samples,
                                     bool per_layer) {
  SetLaneBudget(device.threads > 0 ? device.threads : AvailableCores());
  INFER_ASSIGN(auto backend, MakeBackend(device.device));
  CompareOptions options;
  options.per_layer = per_layer;
  options.candidate_level = device.level;
  options.candidate_compute = device.computes();
  options.threads = device.threads;
  options.stop = context.stop();
  options.progress = [&](int64_t done, int64_t total) { context.Progress("verify", done, total); };
  INFER_ASSIGN(auto report, Compare(golden, *backend, candidate, *backend, samples, options));
  for (const std::string& w : report.warnings) context.Warn(w);
  return report;
}

}  // namespace infer
