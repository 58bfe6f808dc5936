#include "quant/calibrate/calibrate.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "lib/ir/editor.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"
#include "quant/calibrate/cache.h"
#include "quant/calibrate/range_search.h"
#include "runtime/api/build_identity.h"

namespace infer {
namespace {

struct Watched {
  std::string name;
  std::unique_ptr<Observer> observer;
};

Result<std::vector<Watched>> MakeObservers(const Graph& graph,
                                           const std::vector<std::string>& wanted,
                                           const ObserverFactory& observer) {
  std::vector<Watched> watched;
  for (const std::string& name : wanted) {
    const Value* v = graph.FindValue(name);
    if (!v) return InvalidArgument(Cat("calibration: the graph has no value '", name, "'"));
    if (v->is_constant() || !v->type().is_tensor() || v->dtype() != DType::kF32)
      return InvalidArgument(Cat("calibration: value '", name, "' is not a computed f32 tensor"));
    watched.push_back({name, observer()});
  }
  return watched;
}

/// Whether `memory` knows all values; then their observers have seen what it has.
bool Remember(const CalibrationMemory& memory, std::vector<Watched>& watched) {
  if (watched.empty()) return false;
  const auto known = memory.find(watched[0].observer->state());
  if (known == memory.end()) return false;
  const auto knows = [&](const Watched& w) { return known->second.contains(w.name); };
  if (!std::all_of(watched.begin(), watched.end(), knows)) return false;
  for (Watched& w : watched) {
    std::string_view state = known->second.at(w.name);
    INFER_CHECK(w.observer->Load(state));
  }
  return true;
}

/// What was seen so far, in the file that the options name; without one nothing happens.
class Checkpoints {
 public:
  explicit Checkpoints(const CalibrationOptions& options) : options_(options) {}

  /// Takes up what is there. The first sample still to be seen.
  Result<int64_t> Open(const Graph& graph, const Samples& samples, std::vector<Watched>& watched) {
    if (options_.cache.empty() || watched.empty()) return 0;
    key_.model = ModelKey(graph);
    INFER_ASSIGN(key_.data, DataKey(samples, options_.stop));
    key_.state = watched[0].observer->state();
    key_.build = BuildIdentity();
    path_ = CachePath(options_.cache, key_);
    last_ = Clock::now();
    INFER_ASSIGN(const auto saved, ReadCalibration(path_));
    // Where the file cannot be written, that is better known now.
    if (!saved) return Begin(watched);
    if (!(saved->key == key_)) {
      Tell(Cat(path_, ": is of another ", WhatDiffers(saved->key, key_), "; calibrating anew"));
      return Begin(watched);
    }
    for (const Watched& w : watched) {
      if (saved->states.count(w.name)) continue;
      Tell(Cat(path_, ": has no value '", w.name, "'; calibrating anew"));
      return Begin(watched);
    }
    for (Watched& w : watched) {
      std::string_view state = saved->states.at(w.name);
      if (!w.observer->Load(state) || !state.empty())
        return InvalidArgument(
            Cat(path_, ": the state of value '", w.name, "' is damaged; delete the file"));
    }
    if (saved->done == 0) return 0;
    Tell(saved->done < samples.count
             ? Cat(path_, ": continues after ", saved->done, " of ", samples.count, " samples")
             : Cat(path_, ": calibrated already, nothing is run again"));
    return saved->done;
  }

  Status After(const std::vector<Watched>& watched, int64_t done, int64_t total) {
    if (path_.empty()) return {};
    const std::chrono::duration<double> since = Clock::now() - last_;
    if (done < total && since.count() < options_.checkpoint_seconds) return {};
    INFER_TRY(Write(watched, done));
    last_ = Clock::now();
    return {};
  }

  Status Write(const std::vector<Watched>& watched, int64_t done) const {
    if (path_.empty()) return {};
    SavedCalibration saved{key_, done, {}};
    for (const Watched& w : watched) w.observer->Save(saved.states[w.name]);
    return WriteCalibration(path_, saved);
  }

 private:
  Result<int64_t> Begin(const std::vector<Watched>& watched) const {
    INFER_TRY(Write(watched, 0));
    return 0;
  }
  void Tell(const std::string& line) const {
    if (options_.tell) options_.tell(line);
  }

  using Clock = std::chrono::steady_clock;
  const CalibrationOptions& options_;
  CalibrationKey key_;
  std::string path_;
  Clock::time_point last_{};
};

Result<CalibratedValue> ChooseOf(const Observer& o, const QuantGrid& grid) {
  CalibratedValue v;
  v.seen = o.seen();
  v.count = o.count();
  v.non_finite = o.non_finite();
  if (v.count + v.non_finite == 0) return v;  // its extents were 0 in every sample
  INFER_ASSIGN(const ObservedRange chosen, o.Choose(grid));
  v.range = chosen.range;
  v.observer = chosen.observer;
  v.candidates = chosen.candidates;
  if (!o.histogram()) return v;
  const BinnedValues values(*o.histogram());
  v.error = values.SquaredError(ChooseParams(v.range, grid));
  if (v.range.lo < 0 && v.range.hi > 0) {
    const Interval r = FromZero(values, v.range, grid);
    v.from_zero = {v.observer, r, values.SquaredError(ChooseParams(r, grid))};
  }
  return v;
}

}  // namespace

Result<TappedProgram> CompileWithTaps(const Graph& graph, const std::vector<std::string>& taps,
                                      const Backend& backend, const CompileOptions& options) {
  return CompileOwnedWithTaps(graph.Clone(), taps, backend, options);
}

Result<TappedProgram> CompileOwnedWithTaps(Graph graph, const std::vector<std::string>& taps,
                                           const Backend& backend, const CompileOptions& options) {
  GraphEditor editor(graph);
  TappedProgram t;
  t.num_outputs = graph.outputs().size();
  t.tapped = taps;
  for (const std::string& name : taps) {
    Value* v = graph.FindValue(name);
    if (!v || v->is_constant())
      return InvalidArgument(Cat("the graph computes no value '", name, "'"));
    editor.MarkOutput(v);
  }
  INFER_ASSIGN(t.program, backend.CompileOwned(std::move(graph), options));
  INFER_ASSIGN(t.context, t.program->NewContext());
  return t;
}

Status RunInputs(RunContext& context, std::vector<Datum> inputs, std::stop_token stop,
                 std::function<void(const RawValue&)> watch) {
  for (size_t i = 0; i < inputs.size(); ++i) INFER_TRY(context.BindInput(i, std::move(inputs[i])));
  RunOptions options;
  options.stop = std::move(stop);
  options.watch = std::move(watch);
  return context.Run(options);
}

Result<Watch> Watch::Make(Graph graph, const std::vector<std::string>& wanted,
                          const Backend& backend, CompileOptions options) {
  Watch w;
  w.first_ = graph.outputs().size();
  GraphEditor editor(graph);
  for (size_t k = 0; k < wanted.size(); ++k) {
    Value* const v = graph.FindValue(wanted[k]);
    if (!v || v->is_constant())
      return InvalidArgument(Cat("the graph computes no value '", wanted[k], "'"));
    if (v->is_input()) {
      const auto at = std::find(graph.inputs().begin(), graph.inputs().end(), v);
      w.from_inputs_.emplace_back(at - graph.inputs().begin(), k);
      continue;
    }
    editor.MarkOutput(v);
    w.watched_.push_back(k);
  }
  options.watched = w.watched_.size();
  INFER_ASSIGN(w.program_, backend.CompileOwned(std::move(graph), options));
  INFER_ASSIGN(w.context_, w.program_->NewContext());
  return w;
}

Status Watch::Run(std::vector<Datum> inputs, const See& see, std::stop_token stop) {
  // The types of inputs are checked when they are bound.
  INFER_TRY(RunInputs(*context_, inputs, std::move(stop),
                      [&](const RawValue& v) { see(watched_[v.output - first_], v); }));
  for (const auto& [input, k] : from_inputs_) {
    if (!inputs[input].is_tensor()) continue;
    const Tensor& t = inputs[input].tensor();
    see(k, {input, t.dtype(), t.dims(), t.raw()});
  }
  return {};
}

Result<CalibrationTable> Calibrate(const Graph& graph, const std::vector<std::string>& wanted,
                                   const Samples& samples, const Backend& backend,
                                   const CalibrationOptions& options) {
  return CalibrateOwned(graph.Clone(), wanted, samples, backend, options);
}

Result<CalibrationTable> CalibrateOwned(Graph graph, const std::vector<std::string>& wanted,
                                        const Samples& samples, const Backend& backend,
                                        const CalibrationOptions& options) {
  if (samples.count <= 0) return InvalidArgument("calibration: there are no samples");
  INFER_ASSIGN(std::vector<Watched> watched, MakeObservers(graph, wanted, options.observer));
  Checkpoints checkpoints(options);
  int64_t first = samples.count;
  if (!options.memory || !Remember(*options.memory, watched)) {
    INFER_ASSIGN(first, checkpoints.Open(graph, samples, watched));
  }
  if (first < samples.count) {
    CompileOptions compile;
    compile.level = options.level;
    compile.threads = options.threads;
    INFER_ASSIGN(Watch watch, Watch::Make(std::move(graph), wanted, backend, compile));
    const auto see = [&](size_t k, const RawValue& v) { watched[k].observer->See(v); };
    for (int64_t run = first; run < samples.count; ++run) {
      if (options.stop.stop_requested()) {
        INFER_TRY(checkpoints.Write(watched, run));
        return Cancelled("calibration was stopped");
      }
      auto inputs = samples.get(run);
      Status s = inputs.status();
      if (s.ok()) {
        const LaneLease lease(options.threads);
        s = watch.Run(*std::move(inputs), see, options.stop);
      }
      if (!s.ok()) return std::move(s).In(Cat("calibration sample ", run));
      INFER_TRY(checkpoints.After(watched, run + 1, samples.count));
      if (options.progress) options.progress(run + 1, samples.count);
    }
  }
  if (options.memory)
    for (const Watched& w : watched) {
      std::string& state = (*options.memory)[w.observer->state()][w.name];
      if (state.empty()) w.observer->Save(state);
    }
  std::vector<std::optional<Result<CalibratedValue>>> chosen(watched.size());
  const LaneLease lease(options.threads);
  ParallelFor(static_cast<int64_t>(watched.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      chosen[i] = ChooseOf(*watched[i].observer, options.grid);
  });
  CalibrationTable table;
  for (size_t i = 0; i < watched.size(); ++i) {
    const std::string& name = watched[i].name;
    if (!chosen[i]->ok())
      return std::move(chosen[i]->status()).In(Cat("calibration: value '", name, "'"));
    table[name] = **std::move(chosen[i]);
  }
  return table;
}

}  // namespace infer
