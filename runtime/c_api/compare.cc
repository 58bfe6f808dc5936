/// infer_model_compare: what `infer-opt compare` measures, without its gates.
#include "quant/accuracy/compare.h"

#include <limits>
#include <new>
#include <utility>

#include "runtime/c_api/samples.h"
#include "runtime/devices/devices.h"

struct infer_comparison {
  infer::AccuracyReport report;
};

namespace infer::c_api {
namespace {

infer_accuracy AccuracyOf(const AccuracyReport& r, size_t i) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  const ValueAccuracy& v = r.outputs[i];
  const TensorMetrics& m = v.metrics;
  infer_accuracy a{};
  a.name = v.name.c_str();
  a.samples = m.samples;
  a.elements = m.elements;
  a.sqnr_db = v.is_float ? m.sqnr_db : kUnknown;
  a.max_abs_error = v.is_float ? m.max_abs_error : kUnknown;
  a.max_error_ratio = v.is_float ? v.error_ratio() : kUnknown;
  a.cosine = v.is_float ? m.cosine : kUnknown;
  a.unequal = m.unequal;
  a.non_finite_mismatches = m.non_finite_mismatches;
  a.rows = v.rows ? v.rows->rows : 0;
  a.top1_agreement = v.rows ? v.rows->top1_agreement : kUnknown;
  a.kl = v.rows ? v.rows->kl : kUnknown;
  const bool is_labelled = i == 0 && r.task.has_value();
  a.golden_top1 = is_labelled ? r.task->golden_accuracy() : kUnknown;
  a.candidate_top1 = is_labelled ? r.task->candidate_accuracy() : kUnknown;
  return a;
}

Result<AccuracyReport> CompareHandles(const infer_model& golden, const infer_model& candidate,
                                      const infer_samples* given,
                                      const infer_compare_options* options) {
  constexpr size_t kLeast = offsetof(infer_compare_options, device) + sizeof(options->device);
  INFER_ASSIGN(const auto o, OptionsOf(options, kLeast, "infer_compare_options"));
  if (o.threads < 0) return InvalidArgument("threads are not negative");
  INFER_ASSIGN(const Samples samples, SamplesOf(given, golden.model.graph));
  INFER_ASSIGN(const auto backend, MakeBackend(Or(o.device, "cpu")));
  Told told(o.progress, o.user);
  CompareOptions c;
  c.threads = o.threads;
  c.progress = told.Of("compare");
  c.stop = told.stop();
  INFER_ASSIGN(AccuracyReport report,
               Compare(golden.model.graph, *backend, candidate.model.graph, *backend, samples, c));
  INFER_TRY(told.Check());
  return report;
}

}  // namespace
}  // namespace infer::c_api

using namespace infer;         // NOLINT: the functions of the header stand outside of namespaces
using namespace infer::c_api;  // NOLINT

infer_code infer_model_compare(const infer_model* golden, const infer_model* candidate,
                               const infer_samples* samples, const infer_compare_options* options,
                               infer_comparison** comparison) {
  return Guarded([&]() -> Status {
    if (!golden || !candidate || !comparison)
      return InvalidArgument("golden, candidate or comparison is NULL");
    INFER_ASSIGN(AccuracyReport report, CompareHandles(*golden, *candidate, samples, options));
    *comparison = new infer_comparison{std::move(report)};
    return {};
  });
}

size_t infer_comparison_outputs(const infer_comparison* comparison) {
  return comparison ? comparison->report.outputs.size() : 0;
}

infer_code infer_comparison_output(const infer_comparison* comparison, size_t i,
                                   infer_accuracy* accuracy) {
  return Guarded([&]() -> Status {
    if (!comparison || !accuracy) return InvalidArgument("comparison or accuracy is NULL");
    INFER_TRY(CheckReport(accuracy, "infer_accuracy"));
    if (i >= comparison->report.outputs.size())
      return InvalidArgument(
          Cat("number ", i, " of ", comparison->report.outputs.size(), " outputs"));
    WriteReport(c_api::AccuracyOf(comparison->report, i), accuracy);
    return {};
  });
}

void infer_comparison_free(infer_comparison* comparison) { delete comparison; }
