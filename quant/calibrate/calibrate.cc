#include "quant/calibrate/calibrate.h"

#include <memory>
#include <utility>

#include "lib/ir/editor.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Where the numbers of one wanted value come from in a run.
struct Watched {
  std::string name;
  bool is_input = false;
  size_t index = 0;  // input or output number
  std::unique_ptr<Observer> observer;
};

Result<std::vector<Watched>> PlaceWatches(const Graph& graph,
                                          const std::vector<std::string>& wanted,
                                          const ObserverFactory& observer,
                                          std::vector<std::string>& taps) {
  std::vector<Watched> watched;
  for (const std::string& name : wanted) {
    const Value* v = graph.FindValue(name);
    if (!v) return InvalidArgument(Cat("calibration: the graph has no value '", name, "'"));
    if (v->is_constant() || !v->type().is_tensor() || v->dtype() != DType::kF32)
      return InvalidArgument(Cat("calibration: value '", name, "' is not a computed f32 tensor"));
    Watched w{name, v->is_input(), 0, observer()};
    if (w.is_input) {
      while (graph.inputs()[w.index] != v) ++w.index;
    } else {
      w.index = graph.outputs().size() + taps.size();
      taps.push_back(name);
    }
    watched.push_back(std::move(w));
  }
  return watched;
}

}  // namespace

Result<TappedProgram> CompileWithTaps(const Graph& graph, const std::vector<std::string>& taps,
                                      const Backend& backend, const CompileOptions& options) {
  Graph tapped = graph.Clone();
  GraphEditor editor(tapped);
  TappedProgram t;
  t.num_outputs = tapped.outputs().size();
  t.tapped = taps;
  for (const std::string& name : taps) {
    Value* v = tapped.FindValue(name);
    if (!v || v->is_constant())
      return InvalidArgument(Cat("the graph computes no value '", name, "'"));
    editor.MarkOutput(v);
  }
  INFER_ASSIGN(t.program, backend.Compile(tapped, options));
  INFER_ASSIGN(t.context, t.program->NewContext());
  return t;
}

Status RunInputs(RunContext& context, std::vector<Datum> inputs, std::stop_token stop) {
  for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(context.BindInput(i, std::move(inputs[i])));
  RunOptions options;
  options.stop = std::move(stop);
  return context.Run(options);
}

Result<CalibrationTable> Calibrate(const Graph& graph, const std::vector<std::string>& wanted,
                                   const Samples& samples, const Backend& backend,
                                   const CalibrationOptions& options) {
  if (samples.count <= 0) return InvalidArgument("calibration: there are no samples");
  std::vector<std::string> taps;
  INFER_ASSIGN(std::vector<Watched> watched, PlaceWatches(graph, wanted, options.observer, taps));
  CompileOptions compile;
  compile.level = 0;
  compile.threads = options.threads;
  INFER_ASSIGN(TappedProgram t, CompileWithTaps(graph, taps, backend, compile));
  for (int64_t run = 0; run < samples.count; ++run) {
    if (options.stop.stop_requested()) return Cancelled("calibration was stopped");
    auto inputs = samples.get(run);
    if (!inputs.ok()) return std::move(inputs.status()).In(Cat("calibration sample ", run));
    if (Status s = RunInputs(*t.context, *inputs, options.stop); !s.ok())
      return std::move(s).In(Cat("calibration sample ", run));
    for (Watched& w : watched) {
      const Datum& d = w.is_input ? (*inputs)[w.index] : t.context->output(w.index);
      w.observer->See(d.tensor().data<float>());
    }
    if (options.progress) options.progress(run + 1, samples.count);
  }
  CalibrationTable table;
  for (const Watched& w : watched) {
    auto range = w.observer->Choose(options.grid);
    if (!range.ok()) return std::move(range.status()).In(Cat("calibration: value '", w.name, "'"));
    table[w.name] = {w.observer->seen(), *range, w.observer->count(), w.observer->non_finite()};
  }
  return table;
}

}  // namespace infer
