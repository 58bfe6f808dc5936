#include "runtime/engine/version.h"

#include <algorithm>

#include "lib/support/exceptions.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "runtime/engine/answers.h"
#include "runtime/engine/settings.h"
#include "runtime/engine/values.h"

namespace infer::engine {
namespace {

/// Sequences, optionals and maps are for the context to look at.
Status CheckInput(const Datum& d, const Value& v) {
  if (!v.type().is_tensor()) return {};
  const auto refuse = [&] {
    const std::string got = d.is_tensor()     ? ToString(d.tensor().type())
                            : d.is_sequence() ? "a sequence"
                            : d.is_optional() ? "an optional"
                                              : "a map";
    return InvalidArgument(Cat("input '", v.name(), "' is ", ToString(v.type()), ", got ", got));
  };
  if (!d.is_tensor()) return refuse();
  const Tensor& t = d.tensor();
  if (t.dtype() != v.dtype()) return refuse();
  if (!v.shape().has_rank()) return {};
  if (t.rank() != v.shape().rank()) return refuse();
  for (int i = 0; i < t.rank(); ++i)
    if (v.shape()[i].is_static() && v.shape()[i].value() != t.dim(i)) return refuse();
  return {};
}

}  // namespace

void ProveAxes(const Graph& graph, ModelSource& source) {
  source.axes = ProveBatchAxes(graph);
  source.padding = ProvePaddings(graph, source.axes.proved ? source.axes.symbol : "");
}

Result<ModelSource> CompileSource(const Backend& backend, Graph graph,
                                  const CompileOptions& options) {
  ModelSource source;
  source.lanes = options.threads;
  source.device = backend.name();
  ProveAxes(graph, source);
  INFER_ASSIGN(source.program, backend.CompileOwned(std::move(graph), options));
  return source;
}

Result<std::shared_ptr<Version>> Version::Make(std::string model, int64_t number,
                                               ModelSource source, ModelOptions options,
                                               const Making& making) {
  if (!source.program) return InvalidArgument(Cat("model '", model, "' has no program"));
  INFER_TRY(Check(model, options));
  if (options.batch.max_rows > 1 && !source.axes.proved)
    return InvalidArgument(Cat("model '", model, "' cannot be batched: ", source.axes.reason));
  try {
    std::shared_ptr<Version> v(
        new Version(std::move(model), number, std::move(source), std::move(options)));
    INFER_TRY(v->ChooseBuckets());
    INFER_TRY(v->CheckState());
    INFER_TRY(v->MakeInstances(making));
    v->ran = !v->options_.warm_inputs.empty();
    return v;
  } catch (...) {
    return StatusOfException("while a model was loaded");
  }
}

Status Version::MakeInstances(const Making& making) {
  homes_ = making.homes;
  if (!homes_ && !options_.nodes.empty())
    return InvalidArgument(Cat("model '", model_,
                               "' names NUMA nodes, but the engine places no "
                               "instances (EngineOptions::placement)"));
  for (int i = 0; i < options_.instances; ++i) {
    std::shared_ptr<const Home> home;
    if (homes_) {
      const int lanes = source_.lanes > 0 ? source_.lanes : LaneBudget();
      INFER_ASSIGN(home, homes_->Place(lanes, options_.nodes));
    }
    // Memory is near to who touches it first.
    const PinScope here(home ? &home->masks : nullptr);
    INFER_ASSIGN(auto context, program().NewContext());
    if (home) home_of_.emplace(context.get(), std::move(home));
    Grew(*context, context->memory());
    INFER_TRY(Warm(*context, {.priority = making.priority},
                   std::min(making.most_bytes, options_.memory_bytes)));
    idle.push_back(std::move(context));
  }
  if (bytes() > options_.memory_bytes)
    return ResourceExhausted(Cat("model '", model_, "' needs ", bytes(), " bytes, and may have ",
                                 options_.memory_bytes, " (memory_bytes)"));
  return {};
}

const Home* Version::HomeOf(const RunContext& context) const {
  const auto home = home_of_.find(&context);
  return home == home_of_.end() ? nullptr : home->second.get();
}

std::vector<int> Version::nodes() const {
  std::vector<int> nodes;
  for (const auto& [context, home] : home_of_) nodes.push_back(home->node);
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

size_t Version::NextIdle() const {
  size_t best = idle.size() - 1;
  if (!homes_) return best;
  int least = homes_->Busy(*HomeOf(*idle[best]));
  for (size_t i = best; i-- > 0;)
    if (const int busy = homes_->Busy(*HomeOf(*idle[i])); busy < least) {
      best = i;
      least = busy;
    }
  return best;
}

std::unique_ptr<RunContext> Version::TakeIdle() {
  const size_t best = NextIdle();
  if (homes_) homes_->Began(*HomeOf(*idle[best]));
  std::unique_ptr<RunContext> taken = std::move(idle[best]);
  idle.erase(idle.begin() + static_cast<std::ptrdiff_t>(best));
  return taken;
}

void Version::GiveBack(std::unique_ptr<RunContext> context) {
  if (homes_) homes_->Ended(*HomeOf(*context));
  idle.push_back(std::move(context));
}

const BatchTimes* Version::TimesOf(const ShapeKey& shape) const {
  const auto it = times_.find(shape);
  return it == times_.end() ? nullptr : &it->second;
}

void Version::BeginTrial(const ShapeKey& shape, int64_t limit) {
  times_.at(shape).trials.Begin(limit);
}

void Version::RanBatch(const ShapeKey& shape, const BatchAdvice& advice, int64_t rows, int64_t ns) {
  constexpr size_t kMostShapes = 64;
  if (!options_.batch.adapts) return;
  if (times_.size() >= kMostShapes && !times_.contains(shape)) times_.erase(times_.begin());
  BatchTimes& times = times_.try_emplace(shape, options_.batch.max_rows).first->second;
  times.curve.Ran(rows, ns);
  if (advice.by != BatchAdvice::By::kDeadline) times.trials.Ran(rows, ns, advice.tries);
}

Status Version::Warm(RunContext& context, const RunOptions& how, int64_t most_bytes) {
  if (options_.warm_inputs.empty()) return {};
  const Fit fit = FitOf(options_.warm_inputs);
  Status s = fit.status;
  if (s.ok()) s = WarmRows(context, fit, how, most_bytes);
  if (!s.ok()) return std::move(s).In(Cat("warm-up of model '", model_, "'"));
  return pads() ? WarmBuckets(context, fit, how) : Status();
}

/// Alone behind all else.
Status Version::WarmRows(RunContext& context, const Fit& fit, const RunOptions& how,
                         int64_t most_bytes) {
  constexpr int kMostRuns = 4;  // of more than one request
  Fit as_it_is = fit;           // no run of these is padded
  as_it_is.padded_to = 0;
  const ShapeKey shape = batches() ? ShapeOf(options_.warm_inputs, as_it_is) : ShapeKey();
  const auto run = [&](int64_t requests) -> Status {
    const std::vector<RunPart> all(static_cast<size_t>(requests),
                                   {.inputs = &options_.warm_inputs, .rows = fit.rows});
    INFER_TRY(BindStacked(*this, context, all));
    INFER_TRY(context.Run(how));
    const MemoryInfo took = context.memory();
    Grew(context, took);
    RanWithin(shape, requests * fit.rows, took.activation_bytes());
    return {};
  };
  const int64_t most = batches() && fit.rows > 0 ? options_.batch.max_rows / fit.rows : 1;
  if (most <= 1) return run(1);
  // Instances share what is left behind the weights.
  const auto fitting = [&] {
    const int64_t room = most_bytes == kNever ? kNever
                                              : std::max<int64_t>(0, most_bytes - weight_bytes_) /
                                                    options_.instances;
    return MemoryOf(shape).RowsWithin(room, most * fit.rows) / fit.rows;
  };
  // From the run of one request it is not known how many fit, but that so many do; behind a larger
  // run more may.
  int64_t ran = 1;
  if (most_bytes != kNever) INFER_TRY(run(1));
  for (int runs = 0; runs < kMostRuns && fitting() > ran; ++runs) {
    const int64_t requests = fitting();
    Status s = run(requests);
    if (s.ok())
      ran = requests;
    else if (s.code() == Code::kResource)
      RefusedMemory(shape, requests * fit.rows);
    else
      return s;
  }
  return run(1);
}

/// Pre: the last run was of the warm-up's inputs, alone and as they are.
Status Version::WarmBuckets(RunContext& context, const Fit& fit, const RunOptions& how) {
  constexpr double kMostDifference = 1e-3;
  const PaddedAxes& axes = padded_axes();
  if (fit.length < axes.least || !MasksAllowPadding(axes, options_.warm_inputs)) return {};
  std::vector<Datum> unpadded;
  for (size_t o = 0; o < program().outputs().size(); ++o)
    unpadded.push_back(context.output(o).is_tensor() ? Datum(context.output(o).tensor().Clone())
                                                     : context.output(o));
  const RunPart alone{.inputs = &options_.warm_inputs, .rows = fit.rows, .length = fit.length};
  for (int64_t extent : options_.buckets.extents) {
    if (extent <= fit.length) continue;
    RunPart part = alone;
    part.padded_to = extent;
    Status s = BindStacked(*this, context, {&part, 1});
    if (s.ok()) s = context.Run(how);
    const MemoryInfo took = context.memory();
    Grew(context, took);
    if (s.ok()) {
      Fit padded = fit;
      padded.padded_to = extent;
      if (batches())
        RanWithin(ShapeOf(options_.warm_inputs, padded), fit.rows, took.activation_bytes());
      const auto outputs = SplitOutputs(*this, context, {&part, 1});
      s = outputs.status();
      const Difference d = s.ok() ? Compare(unpadded, (*outputs)[0]) : Difference();
      if (s.ok() && (!d.comparable || d.worst > kMostDifference))
        s = Internal(Cat("outputs differ by ", d.worst, " of the largest"));
    }
    if (s.ok()) continue;
    unpaddable_ = Cat("the warm-up's inputs, ", axes.symbol, " = ", fit.length, ", padded to ",
                      extent, ": ", s.message());
    pad_ = -1;
    return {};
  }
  return {};
}

Status Version::ChooseBuckets() {
  auto& extents = options_.buckets.extents;
  if (extents.empty()) return {};
  std::sort(extents.begin(), extents.end());
  const auto& all = source_.padding;
  const std::string& symbol = options_.buckets.symbol;
  const auto is_meant = [&](const PaddedAxes& p) {
    return symbol.empty() ? p.proved : p.symbol == symbol;
  };
  const auto found = std::find_if(all.begin(), all.end(), is_meant);
  if (found != all.end() && found->proved) {
    pad_ = static_cast<int>(found - all.begin());
  } else if (found != all.end() || (symbol.empty() && !all.empty())) {
    const PaddedAxes& refused = found != all.end() ? *found : all.front();
    unpaddable_ = Cat(refused.symbol, ": ", refused.reason);
  } else {
    return InvalidArgument(Cat("model '", model_, "' has no extent ",
                               symbol.empty() ? "" : Cat("'", symbol, "' "),
                               "that it leaves open and requests could be padded along"));
  }
  return {};
}

/// Pre: the inputs fit the model.
void Version::FitBucket(const std::vector<Datum>& inputs, Fit& fit) const {
  const PaddedAxes& axes = padded_axes();
  for (size_t i = 0; i < inputs.size(); ++i)
    for (int a : axes.inputs[i]) {
      const int64_t extent = inputs[i].tensor().dim(a);
      if (fit.length == 0) fit.length = extent;
      if (extent != fit.length) return;  // the run will say what is wrong
    }
  const auto& extents = options_.buckets.extents;
  const auto bucket = std::lower_bound(extents.begin(), extents.end(), fit.length);
  if (bucket == extents.end())
    fit.padding = Padding::kLonger;
  else if (*bucket == fit.length)
    fit.padding = Padding::kExact;
  else if (fit.length < axes.least)
    fit.padding = Padding::kShort;
  else if (!MasksAllowPadding(axes, inputs))
    fit.padding = Padding::kMask;
  else
    fit.padding = Padding::kPadded;
  if (fit.padding == Padding::kPadded) fit.padded_to = *bucket;
}

int64_t Version::ExtentOf(const Tensor& t, size_t input, int axis, const Fit& fit) const {
  if (fit.padded_to == 0) return t.dim(axis);
  const std::vector<int>& padded = padded_axes().inputs[input];
  return std::count(padded.begin(), padded.end(), axis) > 0 ? fit.padded_to : t.dim(axis);
}

Fit Version::FitOf(const std::vector<Datum>& inputs) const {
  Fit fit;
  const auto& declared = program().inputs();
  fit.bytes = BytesOf(inputs);
  if (inputs.size() != declared.size()) {
    fit.status =
        InvalidArgument(Cat("got ", inputs.size(), " inputs, the model has ", declared.size()));
    return fit;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    fit.status = CheckInput(inputs[i], *declared[i]);
    if (!fit.status.ok()) return fit;
    if (!batches()) continue;  // else all are tensors: the proof refuses what cannot be cut
    const Tensor& t = inputs[i].tensor();
    const int axis = axes().inputs[i];
    if (i == 0) fit.rows = t.dim(axis);
    if (t.dim(axis) != fit.rows)
      fit.status =
          InvalidArgument(Cat("input '", declared[i]->name(), "' has ", t.dim(axis), " ",
                              axes().symbol, ", input '", declared[0]->name(), "' has ", fit.rows));
  }
  if (pads() && fit.status.ok()) FitBucket(inputs, fit);
  if (batches()) fit.shape = ShapeOf(inputs, fit);
  return fit;
}

/// Properties that agree where requests share a run. Pre: inputs are tensors that fit the model.
ShapeKey Version::ShapeOf(const std::vector<Datum>& inputs, const Fit& fit) const {
  ShapeKey shape;
  for (size_t i = 0; i < inputs.size(); ++i)
    for (int a = 0; a < inputs[i].tensor().rank(); ++a)
      if (a != axes().inputs[i]) shape.push_back(ExtentOf(inputs[i].tensor(), i, a, fit));
  return shape;
}

}  // namespace infer::engine
