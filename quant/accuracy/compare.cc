#include "quant/accuracy/compare.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "quant/accuracy/datum_error.h"
#include "quant/calibrate/calibrate.h"

namespace infer {
namespace {

/// The type of the numbers inside.
DType ElementTypeOf(const ValueType& type) {
  return type.is_tensor() ? type.dtype() : ElementTypeOf(type.element());
}

/// Whether a source said that it cannot give this output.
bool IsLeftOut(const Datum& d) { return d.is_tensor() && !d.tensor().defined(); }

std::vector<Datum> OutputsOf(const RunContext& context, size_t count) {
  std::vector<Datum> out;
  for (size_t i = 0; i < count; ++i) out.push_back(context.output(i));
  return out;
}

struct Sides {
  OutputSource golden, candidate;
};

Status CompareRun(const Samples& samples, int64_t run, const Sides& sides, bool with_task,
                  const CompareOptions& options, std::vector<TensorComparer>& comparers,
                  AccuracyReport& report) {
  INFER_ASSIGN(const std::vector<Datum> inputs, samples.get(run));
  auto golden = sides.golden(run, inputs);
  if (!golden.ok()) return std::move(golden.status()).In("golden");
  auto candidate = sides.candidate(run, inputs);
  if (!candidate.ok()) return std::move(candidate.status()).In("candidate");
  INFER_TRY(AddOutputs(*golden, *candidate, comparers));
  for (size_t i = 0; i < golden->size(); ++i)
    if (IsLeftOut((*golden)[i]) || IsLeftOut((*candidate)[i])) report.left_out.insert(i);
  if (with_task && options.next_token) {
    if (!report.perplexity) report.perplexity.emplace();
    const size_t scores = options.next_token->output;
    INFER_TRY(report.perplexity->Add(*options.next_token, inputs, (*golden)[scores].tensor(),
                                     (*candidate)[scores].tensor()));
  }
  if (!with_task || !samples.labels) return {};
  INFER_ASSIGN(const std::vector<int64_t> labels, samples.labels(run));
  if (!report.task) report.task.emplace();
  return ForLabelledRows((*golden)[0].tensor(), (*candidate)[0].tensor(), labels,
                         [&](auto g, auto c, int64_t label) { report.task->Add(g, c, label); });
}

Status CompareRuns(const Samples& samples, int64_t count, const Sides& sides, bool with_task,
                   const CompareOptions& options, std::vector<TensorComparer>& comparers,
                   AccuracyReport& report) {
  for (int64_t run = 0; run < count; ++run) {
    if (options.stop.stop_requested()) return Cancelled("comparison was stopped");
    if (Status s = CompareRun(samples, run, sides, with_task, options, comparers, report); !s.ok())
      return std::move(s).In(Cat("sample ", run));
    if (with_task && options.progress) options.progress(run + 1, count);
  }
  return {};
}

OutputSource RunsOn(RunContext& context, size_t outputs, const std::stop_token& stop) {
  return [&context, outputs, stop](int64_t,
                                   const std::vector<Datum>& inputs) -> Result<std::vector<Datum>> {
    INFER_TRY(RunInputs(context, inputs, stop));
    return OutputsOf(context, outputs);
  };
}

/// Of `shared`, those that `program` has in memory: what a step makes, or what an operator reads
/// dequantized of it.
std::vector<std::string> HeldValues(const std::vector<std::string>& shared, const Graph& g,
                                    const Program& program) {
  std::set<std::string> made;
  for (const StepInfo& s : program.steps()) made.insert(s.outputs.begin(), s.outputs.end());
  for (const Value* v : g.outputs()) made.insert(v->name());
  std::vector<std::string> names;
  for (const std::string& name : shared) {
    const Node* n = g.FindValue(name)->producer();
    const bool dequantized = n->Is(Trait::kDequantize) && made.contains(n->input(0)->name());
    if (dequantized || made.contains(name)) names.push_back(name);
  }
  return names;
}

/// Adds to `check` how the outputs of a tapped run differ from those of an untapped one.
Status AddTapCheck(const std::vector<Datum>& plain, const std::vector<Datum>& tapped,
                   TapCheck& check) {
  for (size_t i = 0; i < plain.size(); ++i) {
    if (!plain[i].is_tensor()) continue;
    if (BitEqual(plain[i].tensor(), tapped[i].tensor())) continue;
    check.same_bits = false;
    TensorComparer difference;
    INFER_TRY(difference.Add(plain[i].tensor(), tapped[i].tensor()));
    check.max_error_ratio = std::max(check.max_error_ratio, difference.metrics().max_error_ratio);
  }
  return {};
}

}  // namespace

ValueAccuracy AccuracyOf(const Value& v, const TensorComparer& comparer) {
  ValueAccuracy a;
  a.name = v.name();
  a.op = v.producer() ? std::string(v.producer()->op()) : "";
  const DType dtype = ElementTypeOf(v.type());
  a.is_float = IsFloat(dtype);
  if (a.is_float) a.least = dtype == DType::kF16 ? 0x1p-24 : 0;
  a.metrics = comparer.metrics();
  a.rows = comparer.row_metrics();
  return a;
}

Status ForLabelledRows(const Tensor& golden, const Tensor& candidate,
                       const std::vector<int64_t>& labels, const LabelledRow& f) {
  if (!IsFloat(golden.dtype())) return InvalidModel("labels need an output of scores");
  const Rows rows = RowsIn(golden.dims());
  if (rows.count != static_cast<int64_t>(labels.size()))
    return InvalidModel(Cat("output 0 has ", rows.count, " rows of scores, but there are ",
                            labels.size(), " labels"));
  const std::vector<float> g = golden.ToFloats(), c = candidate.ToFloats();
  const auto width = static_cast<size_t>(rows.width);
  for (size_t n = 0; n < labels.size(); ++n) {
    if (labels[n] < 0 || labels[n] >= rows.width)
      return InvalidModel(Cat("label ", labels[n], " is outside the ", rows.width, " classes"));
    f(std::span(g).subspan(n * width, width), std::span(c).subspan(n * width, width), labels[n]);
  }
  return {};
}

Status CheckInterfaces(const Graph& golden, const Graph& candidate) {
  const auto names = [](const std::vector<Value*>& values) {
    std::vector<std::string> n;
    for (const Value* v : values) n.push_back(v->name());
    return n;
  };
  const auto check = [&](std::string_view what, const std::vector<Value*>& g,
                         const std::vector<Value*>& c) -> Status {
    if (names(g) == names(c)) return {};
    return InvalidArgument(Cat("the models differ in their ", what, ": golden has ",
                               Join(names(g), ", "), "; candidate has ", Join(names(c), ", ")));
  };
  INFER_TRY(check("inputs", golden.inputs(), candidate.inputs()));
  return check("outputs", golden.outputs(), candidate.outputs());
}

Result<OutputSource> RunsOf(const Graph& g, const Backend& backend, int level, int threads,
                            const std::stop_token& stop, Compute compute) {
  CompileOptions compile;
  compile.level = level;
  compile.compute = compute;
  compile.threads = threads;
  INFER_ASSIGN(const std::shared_ptr<const Program> program, backend.Compile(g, compile));
  INFER_ASSIGN(std::unique_ptr<RunContext> made, program->NewContext());
  const std::shared_ptr<RunContext> context = std::move(made);
  return OutputSource([program, context, stop](
                          int64_t, const std::vector<Datum>& inputs) -> Result<std::vector<Datum>> {
    INFER_TRY(RunInputs(*context, inputs, stop));
    return OutputsOf(*context, program->outputs().size());
  });
}

Result<std::optional<NextToken>> CausalTask(const Graph& g, const OutputSource& source,
                                            const Samples& samples) {
  const std::optional<NextToken> task = NextTokenOf(g), none;
  if (!task || samples.random || samples.count == 0) return none;
  INFER_ASSIGN(const auto inputs, samples.get(0));
  const auto other = WithOtherLastTokens(*task, inputs);
  if (!other) return none;
  INFER_ASSIGN(const auto outputs, source(0, inputs));
  const Tensor scores = outputs[task->output].tensor().Clone();
  INFER_ASSIGN(const auto changed, source(0, *other));
  return DifferAtLastTokenOnly(scores, changed[task->output].tensor()) ? task : none;
}

std::vector<Datum> TakeOutputs(const RunContext& context, size_t count) {
  std::vector<Datum> outputs = OutputsOf(context, count);
  for (Datum& d : outputs)
    if (d.is_tensor()) d = d.tensor().Clone();
  return outputs;
}

Result<OutputSource> Kept(const OutputSource& source, const Samples& samples) {
  const auto kept = std::make_shared<std::vector<std::vector<Datum>>>();
  for (int64_t s = 0; s < samples.count; ++s) {
    INFER_ASSIGN(const auto inputs, samples.get(s));
    INFER_ASSIGN(auto outputs, source(s, inputs));
    for (Datum& d : outputs)  // the next run may write where these stand
      if (d.is_tensor()) d = d.tensor().Clone();
    kept->push_back(std::move(outputs));
  }
  return OutputSource([kept](int64_t s, const std::vector<Datum>&) -> Result<std::vector<Datum>> {
    return (*kept)[static_cast<size_t>(s)];
  });
}

Result<AccuracyReport> CompareSources(const OutputSource& golden, const OutputSource& candidate,
                                      const Graph& interface, const Samples& samples,
                                      const CompareOptions& options) {
  if (samples.count <= 0) return InvalidArgument("there are no samples to compare on");
  AccuracyReport report;
  report.samples = samples.count;
  std::vector<TensorComparer> comparers(interface.outputs().size());
  INFER_TRY(
      CompareRuns(samples, samples.count, {golden, candidate}, true, options, comparers, report));
  for (size_t i = 0; i < comparers.size(); ++i)
    if (!report.left_out.contains(i))
      report.outputs.push_back(AccuracyOf(*interface.outputs()[i], comparers[i]));
  if (report.outputs.empty() && !comparers.empty())
    return Unsupported("none of the outputs can be compared");
  return report;
}

Status AddLayers(const Graph& golden, const Backend& golden_backend, const Graph& candidate,
                 const Backend& candidate_backend, const Samples& samples,
                 const CompareOptions& options, AccuracyReport& report) {
  const std::vector<std::string> shared = SharedValues(golden, candidate);
  CompileOptions compile;
  compile.threads = options.threads;
  compile.level = options.candidate_level;
  compile.compute = options.candidate_compute;
  INFER_ASSIGN(TappedProgram plain, CompileWithTaps(candidate, {}, candidate_backend, compile));
  const std::vector<std::string> names = HeldValues(shared, candidate, *plain.program);
  report.taps.tapped = static_cast<int64_t>(names.size());
  report.taps.within_steps = static_cast<int64_t>(shared.size() - names.size());
  INFER_ASSIGN(TappedProgram c, CompileWithTaps(candidate, names, candidate_backend, compile));
  compile.level = options.golden_level;
  compile.compute = Compute::kF32;
  INFER_ASSIGN(TappedProgram g, CompileWithTaps(golden, names, golden_backend, compile));
  const size_t outputs = g.num_outputs + names.size();
  std::vector<TensorComparer> comparers(outputs);
  report.layer_samples = std::min(options.layer_samples, samples.count);
  const auto watched = [&](int64_t,
                           const std::vector<Datum>& inputs) -> Result<std::vector<Datum>> {
    INFER_TRY(RunInputs(*plain.context, inputs, options.stop));
    const std::vector<Datum> untapped = OutputsOf(*plain.context, plain.num_outputs);
    INFER_TRY(RunInputs(*c.context, inputs, options.stop));
    std::vector<Datum> made = OutputsOf(*c.context, outputs);
    INFER_TRY(AddTapCheck(untapped, made, report.taps));
    return made;
  };
  INFER_TRY(CompareRuns(samples, report.layer_samples,
                        {RunsOn(*g.context, outputs, options.stop), watched}, false, options,
                        comparers, report));
  for (size_t k = 0; k < names.size(); ++k)
    report.layers.push_back(AccuracyOf(*golden.FindValue(names[k]), comparers[g.num_outputs + k]));
  if (!report.taps.same_bits)
    report.warnings.push_back(
        Cat("watching inner values changed what the candidate computes, by up to ",
            Rounded(report.taps.max_error_ratio, 2), " of the largest element of an output"));
  return {};
}

std::vector<std::string> SharedValues(const Graph& golden, const Graph& candidate) {
  std::vector<std::string> names;
  for (const auto& node : golden.nodes()) {
    for (const Value* v : node->outputs()) {
      if (!v || !v->type().is_tensor()) continue;
      const Value* other = candidate.FindValue(v->name());
      if (!other || !other->producer() || !other->type().is_tensor()) continue;
      if (v->dtype() == other->dtype()) names.push_back(v->name());
    }
  }
  return names;
}

Status AddOutputs(const std::vector<Datum>& golden, const std::vector<Datum>& candidate,
                  std::vector<TensorComparer>& comparers) {
  if (golden.size() != candidate.size() || golden.size() != comparers.size())
    return InvalidModel(
        Cat("golden has ", golden.size(), " outputs, candidate ", candidate.size()));
  for (size_t i = 0; i < golden.size(); ++i) {
    if (IsLeftOut(golden[i]) || IsLeftOut(candidate[i])) continue;
    if (Status s = AddDatum(golden[i], candidate[i], comparers[i]); !s.ok())
      return std::move(s).In(Cat("output ", i));
  }
  return {};
}

Result<AccuracyReport> Compare(const Graph& golden, const Backend& golden_backend,
                               const Graph& candidate, const Backend& candidate_backend,
                               const Samples& samples, const CompareOptions& options) {
  INFER_TRY(CheckInterfaces(golden, candidate));
  INFER_ASSIGN(const OutputSource g,
               RunsOf(golden, golden_backend, options.golden_level, options.threads, options.stop));
  INFER_ASSIGN(const OutputSource c,
               RunsOf(candidate, candidate_backend, options.candidate_level, options.threads,
                      options.stop, options.candidate_compute));
  CompareOptions with_task = options;
  if (!options.next_token) {
    auto task = CausalTask(golden, g, samples);
    if (!task.ok()) return std::move(task.status()).In("sample 0: golden");
    with_task.next_token = *task;
  }
  INFER_ASSIGN(AccuracyReport report, CompareSources(g, c, candidate, samples, with_task));
  if (options.per_layer)
    INFER_TRY(
        AddLayers(golden, golden_backend, candidate, candidate_backend, samples, options, report));
  for (size_t i = 0; i < report.outputs.size(); ++i)
    if (const Node* n = golden.outputs()[i]->producer()) report.outputs[i].op = n->op();
  return report;
}

Result<AccuracyReport> CompareWithStored(const OutputSource& golden, const Graph& candidate,
                                         const Backend& candidate_backend, const Samples& samples,
                                         const CompareOptions& options) {
  if (samples.count <= 0) return InvalidArgument("there are no samples to compare on");
  INFER_ASSIGN(const OutputSource c,
               RunsOf(candidate, candidate_backend, options.candidate_level, options.threads,
                      options.stop, options.candidate_compute));
  return CompareSources(golden, c, candidate, samples, options);
}

}  // namespace infer
