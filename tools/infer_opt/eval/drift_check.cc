#include "tools/infer_opt/eval/drift_check.h"

#include <algorithm>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/calibrate/calibrate.h"
#include "tools/common/drift_file.h"

namespace infer {
namespace {

using engine::Drift;
using engine::DriftReference;
using engine::DriftReport;
using engine::DriftWatch;

constexpr double kAlarm = 0.01;
constexpr size_t kShown = 8;

/// Calls `see` with inputs and outputs of each sample.
template <typename F>
Status RunAll(Context& context, size_t outputs, RunContext& run, const Samples& samples, F see) {
  for (int64_t i = 0; i < samples.count; ++i) {
    INFER_ASSIGN(const auto inputs, samples.get(i));
    INFER_TRY(RunInputs(run, inputs, context.stop()));
    see(inputs, TakeOutputs(run, outputs));
    context.Progress("drift", i + 1, samples.count);
  }
  return {};
}

template <typename Values>
std::vector<std::string> NamesOf(const Values& values) {
  std::vector<std::string> names;
  for (const Value* v : values) names.push_back(v->name());
  return names;
}

std::string ChannelsText(const Drift& d) {
  if (d.channels == 1) return Cat("channel ", d.first_channel);
  return Cat("channels ", d.first_channel, " to ", d.first_channel + d.channels - 1);
}

std::string TextOf(const DriftReport& report) {
  std::string text;
  for (size_t i = 0; i < report.found.size() && i < kShown; ++i) {
    const Drift& d = report.found[i];
    text += Cat("drift  ", d.tensor, ", ", ChannelsText(d), ": ", Name(d.figure), " ",
                Rounded(d.reference_median, 3), " -> ", Rounded(d.median, 3), " (median), by ",
                Name(d.by), ", PSI ", Rounded(d.psi, 2), ", p ", Rounded(d.p, 2), "\n");
  }
  if (report.found.size() > kShown)
    text += Cat("       and ", report.found.size() - kShown, " more figures\n");
  return text;
}

Json JsonOf(const Drift& d) {
  return {{"tensor", d.tensor},
          {"first_channel", d.first_channel},
          {"channels", d.channels},
          {"figure", Name(d.figure)},
          {"by", Name(d.by)},
          {"p", d.p},
          {"psi", JsonNumber(d.psi)},
          {"reference_median", JsonNumber(d.reference_median)},
          {"median", JsonNumber(d.median)}};
}

GateResult GateOf(const DriftReport& found, int64_t reference_rows) {
  GateResult gate{.name = "drift", .limit = kAlarm, .measured = 1, .samples = found.rows};
  gate.passed = found.judged && found.found.empty();
  gate.inconclusive = !found.judged;
  if (!found.found.empty()) gate.measured = found.found[0].p;
  gate.message =
      !found.judged ? Cat("drift: not known from ", found.rows, " samples beside ", reference_rows,
                          "; each side needs ", DriftReference::kLeastRows)
      : found.found.empty()
          ? Cat("drift: none of ", found.figures, " figures of ", found.rows, " samples has moved")
          : Cat("drift: ", found.found.size(), " of ", found.figures,
                " figures have moved (p below ", kAlarm, ", corrected for all tests)");
  return gate;
}

}  // namespace

Result<std::shared_ptr<const DriftReference>> DriftReferenceOf(Context& context, const Graph& g,
                                                               RunContext& run,
                                                               const Samples& samples) {
  context.Step("drift reference");
  auto made = std::make_shared<DriftReference>(NamesOf(g.inputs()), NamesOf(g.outputs()));
  INFER_TRY(RunAll(context, g.outputs().size(), run, samples,
                   [&](const auto& inputs, const auto& outputs) { made->Add(inputs, outputs); }));
  return std::shared_ptr<const DriftReference>(std::move(made));
}

Result<std::shared_ptr<const DriftReference>> LoadDriftReference(const std::string& path,
                                                                 const Graph& g) {
  INFER_ASSIGN(auto read, ReadDriftReference(path));
  std::vector<std::string> want = NamesOf(g.inputs()), have;
  for (const Value* v : g.outputs()) want.push_back(v->name());
  for (const engine::DriftRows& t : read.tensors()) have.push_back(t.name);
  if (have != want)
    return InvalidModel(Cat(path, ": a reference of a model with other inputs or outputs: ",
                            Join(have, ", "), ", not ", Join(want, ", ")));
  return std::make_shared<const DriftReference>(std::move(read));
}

Result<GateResult> CheckDrift(Context& context, RunContext& run, size_t outputs,
                              std::shared_ptr<const DriftReference> reference,
                              const Samples& samples, Json& report) {
  context.Step("drift");
  size_t rows = 0;
  for (const engine::DriftRows& t : reference->tensors()) rows = std::max(rows, t.rows.size());
  DriftWatch watch(std::move(reference),
                   {.window = static_cast<size_t>(samples.count), .alarm = kAlarm});
  INFER_TRY(RunAll(context, outputs, run, samples,
                   [&](const auto& in, const auto& out) { watch.See(in, out); }));
  const DriftReport found = watch.Look();
  Json list = Json::array();
  for (const Drift& d : found.found) list.push_back(JsonOf(d));
  report["drift"] = {{"reference_samples", rows},
                     {"samples", samples.count},
                     {"figures", found.figures},
                     {"misfits", found.misfits},
                     {"found", std::move(list)}};
  context.Print(TextOf(found));
  return GateOf(found, static_cast<int64_t>(rows));
}

}  // namespace infer
