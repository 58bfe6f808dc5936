#include "tools/common/data_roles.h"

#include <algorithm>

#include "lib/support/strings.h"
#include "quant/accuracy/metrics.h"

namespace infer {
namespace {

/// As far as the graph says what its first output is: before anything is computed, not after.
/// `from`: the file that the labels came with.
Status CheckLabels(const Dataset& data, const Graph& g, const std::string& from) {
  if (!data.has_labels() || g.outputs().empty()) return {};
  const Value& output = *g.outputs()[0];
  if (!output.type().is_tensor() || !output.shape().has_rank() || output.shape().rank() < 2)
    return {};
  constexpr int64_t kOpen = 0;
  Dims dims;
  for (const Dim& d : output.shape().dims()) dims.push_back(d.is_static() ? d.value() : kOpen);
  dims[0] = 1;  // of one sample
  const bool is_static = std::find(dims.begin(), dims.end(), kOpen) == dims.end();
  const auto refuse = [&](const std::string& why) {
    return InvalidModel(
        Cat(from, ": ", why,
            ". Labels of another task? --labels FILE names others; data without labels are "
            "judged by the outputs alone"));
  };
  if (is_static && RowsIn(dims).count != 1)
    return refuse(Cat("a label for each sample, but output '", output.name(), "' has ",
                      RowsIn(dims).count, " rows of scores"));
  const int64_t classes = is_static ? RowsIn(dims).width : dims.size() == 2 ? dims[1] : kOpen;
  if (classes == kOpen) return {};
  for (const int64_t label : data.labels())
    if (label < 0 || label >= classes)
      return refuse(Cat("label ", label, " is outside the ", classes, " classes"));
  return {};
}

const std::string& LabelsOf(const DataFlags& f) { return f.labels.empty() ? f.data : f.labels; }

}  // namespace

void DataRoles::Declare(Options& o) {
  data.Declare(o, "", "Data that is split by seed into calibration and evaluation");
  o.Section("Data");
  calib.Declare(o, "calib", "Calibration data");
  eval.Declare(o, "eval", "Evaluation data (disjoint)");
  o.Rarely();
  o.Value("--calib-count", &calib_count, "Of --data: so many for calibration; 0: half");
  o.Value("--seed", &seed, "Seed of the split of --data");
}

Status DataRoles::Split(const Graph& g, bool needed, bool unjudged, Json& report) {
  for (const auto& [flags, name, prefix] :
       {std::tuple(&data, "data", ""), std::tuple(&calib, "calib", "calib-"),
        std::tuple(&eval, "eval", "eval-")})
    if (!flags->given() && (!flags->labels.empty() || flags->max_samples > 0)) {
      const std::string_view option = flags->labels.empty() ? "samples" : "labels";
      return InvalidArgument(
          Cat("--", prefix, option, " belongs to --", name, ", which is not given",
              flags == &data && eval.given() ? Cat("; that of --eval is --eval-", option) : ""));
    }
  if (!data.given() && !calib.given() && !needed) return EvaluationAlone(g, report);
  const bool parts = calib.given() || eval.given();
  if (data.given() ? parts : !calib.given())
    return InvalidArgument(
        data.given() ? "give --data, or --calib and --eval, not both"
                     : "calibration needs data: --data X [--labels Y], or --calib X --eval Z. "
                       "Without data no accuracy can be promised, and random data would only "
                       "pretend to");
  if (data.given()) return SplitOne(g, report);
  ShareHowToRead();
  INFER_ASSIGN(auto fit, OpenData(calib));
  INFER_TRY(CheckLabels(*fit, g, LabelsOf(calib)));
  INFER_ASSIGN(calibration, MakeSamples(fit, g, FirstSamples(*fit, calib.max_samples)));
  report["data"] = {{"calibration_path", calib.data}, {"calibration", calibration.count}};
  if (!eval.given()) {
    if (unjudged) return {};
    return InvalidArgument(
        "--eval is missing (or --no-verify): accuracy is judged on data that "
        "calibration has not seen");
  }
  INFER_ASSIGN(auto judge, OpenData(eval));
  INFER_TRY(CheckLabels(*judge, g, LabelsOf(eval)));
  INFER_ASSIGN(const int64_t shared, CountShared(*fit, *judge));
  if (shared > 0) return InvalidArgument(Cat(shared, " samples of --eval are in --calib too"));
  INFER_ASSIGN(evaluation, MakeSamples(judge, g, FirstSamples(*judge, eval.max_samples)));
  report["data"]["evaluation_path"] = eval.data;
  report["data"]["evaluation"] = evaluation.count;
  return {};
}

Status DataRoles::SplitOne(const Graph& g, Json& report) {
  INFER_ASSIGN(auto all, OpenData(data));
  INFER_TRY(CheckLabels(*all, g, LabelsOf(data)));
  const auto use = static_cast<int64_t>(FirstSamples(*all, data.max_samples).size());
  INFER_ASSIGN(DataSplit split, SplitSamples(use, calib_count, seed));
  INFER_ASSIGN(calibration, MakeSamples(all, g, split.calib));
  INFER_ASSIGN(evaluation, MakeSamples(all, g, split.eval));
  report["data"] = {{"path", data.data},
                    {"seed", split.seed},
                    {"calibration", split.calib.size()},
                    {"evaluation", split.eval.size()},
                    {"calibration_indices", split.calib}};
  return {};
}

/// No calibration data are needed: --eval, where given, still judges the result.
Status DataRoles::EvaluationAlone(const Graph& g, Json& report) {
  if (!eval.given()) return {};
  ShareHowToRead();
  INFER_ASSIGN(auto judge, OpenData(eval));
  INFER_TRY(CheckLabels(*judge, g, LabelsOf(eval)));
  INFER_ASSIGN(evaluation, MakeSamples(judge, g, FirstSamples(*judge, eval.max_samples)));
  report["data"] = {{"evaluation_path", eval.data}, {"evaluation", evaluation.count}};
  return {};
}

void DataRoles::ShareHowToRead() {
  for (DataFlags* f : {&calib, &eval}) {
    f->preprocess = data.preprocess;
    f->raw_type = data.raw_type;
  }
}

}  // namespace infer
