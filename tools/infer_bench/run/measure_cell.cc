#include "tools/infer_bench/run/measure_cell.h"

#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/bench/cold.h"
#include "tools/bench/numbers.h"
#include "tools/common/host.h"

namespace infer::bench {
namespace {

/// Share of runs that may end on another processor before a reader is told.
constexpr double kMigrations = 0.05;

Json NumbersJson(const NumberCounts& c) {
  return {{"elements", c.elements},
          {"denormals", c.denormals},
          {"nans", c.nans},
          {"infinities", c.infinities},
          {"zeros", c.zeros}};
}

/// Of the outputs of the model; those that the timed runs left on the device come to the host by
/// one run more.
Result<NumberCounts> OutputNumbers(const Session& s, const std::stop_token& stop) {
  bool has_left = false;
  for (size_t i = 0; i < s.program->outputs().size(); ++i)
    has_left |= s.run->resident_output(i).ok();
  if (has_left) INFER_TRY(s.run->Run({.stop = stop}));
  std::vector<Datum> outputs;
  for (size_t i = 0; i < s.program->outputs().size(); ++i) outputs.push_back(s.run->output(i));
  return CountNumbers(outputs);
}

/// Warns of the cell, on stderr and in its entry.
class CellWarnings {
 public:
  CellWarnings(Context& context, std::string name) : context_(context), name_(std::move(name)) {}
  void Add(const std::string& text) {
    context_.Warn(Cat(name_, ": ", text));
    texts_.push_back(text);
  }
  void Of(const Sampled& s) {
    if (s.warmup.ended == WarmUpEnd::kTime) Add("times had not settled when the warm-up ended");
    if (static_cast<double>(s.migrations) > kMigrations * static_cast<double>(s.samples.size()))
      Add(Cat("the thread changed its processor in ", s.migrations, " of ", s.samples.size(),
              " runs; --pin keeps it"));
  }
  void Of(const NumberCounts& c, std::string_view where) {
    if (c.denormals > 0)
      Add(Cat(c.denormals, " of ", c.elements, " numbers of the ", where,
              " are denormal: arithmetic on them can be many times slower"));
    if (c.nans + c.infinities > 0)
      Add(Cat(c.nans, " NaN and ", c.infinities, " infinities in the ", where));
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  Context& context_;
  std::string name_;
  std::vector<std::string> texts_;
};

Json MemoryJson(const Session& s, const Json& cold) {
  Json m = infer::ToJson(s.run->memory());
  m["compiled_resident_bytes"] = s.compiled_resident_bytes;
  m["resident_bytes"] = ResidentBytes();
  m["peak_resident_bytes"] = PeakResidentBytes();
  // Of this model alone: a process that ran nothing else.
  m["cold_peak_resident_bytes"] = cold.is_null() ? Json() : cold["peak_resident_bytes"];
  m["allocated_peak_bytes"] = cold.is_null() ? Json() : cold["allocated_peak_bytes"];
  return m;
}

Json CellJson(const Cell& cell) {
  Json seq = Json::object();
  for (const auto& [symbol, extent] : cell.seq) seq[symbol] = extent;
  return {{"name", cell.Name()},
          {"precision", cell.precision},
          {"threads", cell.threads},
          {"seq", std::move(seq)}};
}

void AddSteady(Json& entry, const Session& s, const Sampled& m) {
  const Distribution d = Describe(m.samples.ms);
  entry["first_ms"] = m.first_ms;
  entry["warmup"] = ToJson(m.warmup);
  entry["ended"] = m.ended;
  entry["interrupted"] = m.interrupted;
  entry["latency_ms"] = ToJson(d);
  entry["throughput_per_s"] =
      d.median > 0 ? Json(1000.0 * static_cast<double>(s.batch) / d.median) : Json();
  entry["samples_ms"] = m.samples.ms;
  entry["samples_at_ms"] = m.samples.at_ms;
  entry["samples_cpu_ms"] = m.samples.cpu_ms;
  entry["migrations"] = m.migrations;
}

}  // namespace

Result<CellResult> MeasureCell(Context& context, const Cell& cell, const CellOptions& options) {
  SessionOptions session_options = cell.Session(options.session);
  INFER_ASSIGN(Session s, OpenSession(context, cell.path, session_options));
  const std::string name = cell.Name();
  CellWarnings warnings(context, name);
  CellResult result;
  Json& entry = result.entry;
  entry = CellJson(cell);
  entry["model"] = s.model;
  entry["batch"] = s.batch;
  entry["random_inputs"] = s.inputs.random;
  entry["extents"] = s.inputs.extents;
  entry["seed"] = options.session.inputs.seed;
  entry["fill"] = options.session.inputs.fill;
  entry["load_ms"] = s.load_ms;
  entry["convert_ms"] = s.convert_ms;
  entry["compile_ms"] = s.compile_ms;

  context.Step("measure " + name);
  const MachineWatch watch;
  // The caches of a decoder stay where they are, as from one token to the next.
  const RunOptions run{.stop = options.sampling.stop, .leave_resident = true};
  INFER_ASSIGN(const Sampled m, Sample([&] { return s.run->Run(run); }, options.sampling));
  const Watched watched = watch.Finish();
  AddSteady(entry, s, m);
  entry["watch"] = ToJson(watched);
  warnings.Of(m);
  for (const std::string& w : Warnings(watched)) warnings.Add(w);

  const bool ran = m.warmup.samples.size() + m.samples.size() > 0;
  const NumberCounts inputs = CountNumbers(s.inputs.values);
  NumberCounts outputs;
  if (ran && !m.interrupted) {
    INFER_ASSIGN(outputs, OutputNumbers(s, options.sampling.stop));
  }
  entry["numbers"] = {{"inputs", NumbersJson(inputs)}, {"outputs", NumbersJson(outputs)}};
  warnings.Of(inputs, "inputs");
  warnings.Of(outputs, "outputs");

  context.Step("cold start " + name);
  session_options.inputs.known_extents = s.inputs.extents;
  ColdOptions cold{.starts = m.interrupted ? 0 : options.cold, .stop = context.stop()};
  INFER_ASSIGN(const auto starts, MeasureColdStarts(cell.path, session_options, cold));
  entry["cold"] = ToJson(starts);
  entry["memory"] = MemoryJson(s, entry["cold"]);
  if (options.profile && ran && !context.stop().stop_requested()) {
    context.Step("profile " + name);
    INFER_ASSIGN(result.profile, ProfileRuns(name, *s.program, *s.run, context.stop()));
    if (result.profile->runs > 0)
      AddTo(entry, *result.profile);
    else
      result.profile.reset();
  }
  entry["warnings"] = warnings.texts();
  return result;
}

}  // namespace infer::bench
