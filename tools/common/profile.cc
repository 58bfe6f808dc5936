#include "tools/common/profile.h"

#include <algorithm>
#include <numeric>

#include "lib/support/file.h"
#include "lib/support/measure.h"
#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/common/report.h"

namespace infer {
namespace {

constexpr int kFewestPairs = 5, kMostPairs = 51;

constexpr size_t kShownFusedFrom = 60;

std::string NameOf(const StepInfo& s) {
  return s.node.empty() && !s.outputs.empty() ? s.outputs[0] : s.node;
}

/// Sums of one profiled run, by step.
struct RunSums {
  explicit RunSums(size_t steps)
      : ms(steps, 0), reference(steps, 0), copies(steps, 0), device(steps, 0) {}
  std::vector<double> ms, reference, copies, device;
};

class Runs {
 public:
  Runs(const Program& program, RunContext& run) : program_(program), run_(run) {}

  Status Add(bool profile_first) {
    double profiled = 0, other = 0;
    if (profile_first) INFER_TRY(Profiled(&profiled));
    const CommandInfo before = run_.commands();
    INFER_TRY(Timed({.leave_resident = true}, &other));
    commands_ = run_.commands() - before;
    if (!profile_first) INFER_TRY(Profiled(&profiled));
    unprofiled_.push_back(other);
    ratios_.push_back(profiled / other);
    return {};
  }

  size_t count() const { return ratios_.size(); }

  void Fill(ModelProfile& p) const {
    p.runs = static_cast<int>(count());
    if (ratios_.empty()) return;
    p.wall_ms = Quantile(walls_, 0.5);
    p.unprofiled_ms = Quantile(unprofiled_, 0.5);
    p.overhead = Quantile(ratios_, 0.5);
    p.unexplained = Quantile(unexplained_, 0.5);
    p.device_ms = Quantile(device_, 0.5);
    p.commands = commands_;
    p.reference = reference_.Median();
    for (size_t s = 0; s < p.steps.size(); ++s) {
      p.steps[s].ms = Median(&RunSums::ms, s);
      p.steps[s].reference_ms = Median(&RunSums::reference, s);
      p.steps[s].copy_ms = Median(&RunSums::copies, s);
      p.steps[s].device_ms = Median(&RunSums::device, s);
    }
    std::vector<size_t> order(walls_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return walls_[a] < walls_[b]; });
    p.timeline = timelines_[order[(order.size() - 1) / 2]];
  }

 private:
  Status Timed(const RunOptions& options, double* ms) {
    const auto start = std::chrono::steady_clock::now();
    INFER_TRY(run_.Run(options));
    *ms = MsSince(start);
    return {};
  }

  Status Profiled(double* wall) {
    INFER_TRY(Timed({.profile = true, .leave_resident = true}, wall));
    RunSums& sums = sums_.emplace_back(program_.steps().size());
    double explained = 0, device = 0;
    for (const StepTiming& t : run_.profile()) {
      sums.ms[t.step] += t.duration_ms;
      sums.reference[t.step] += t.reference_ms;
      if (t.is_copy) sums.copies[t.step] += t.duration_ms;
      if (t.on_device) {
        sums.device[t.step] += t.duration_ms;
        device += t.duration_ms;
      }
      explained += t.duration_ms;
    }
    walls_.push_back(*wall);
    device_.push_back(device);
    unexplained_.push_back((*wall - explained) / *wall);
    reference_.Add(*wall, run_.reference_times());
    timelines_.emplace_back(run_.profile().begin(), run_.profile().end());
    return {};
  }

  double Median(std::vector<double> RunSums::*of, size_t step) const {
    std::vector<double> all;
    for (const RunSums& sums : sums_) all.push_back((sums.*of)[step]);
    return Quantile(all, 0.5);
  }

  const Program& program_;
  RunContext& run_;
  std::vector<double> walls_, unprofiled_, ratios_, unexplained_, device_;
  std::vector<RunSums> sums_;
  std::vector<std::vector<StepTiming>> timelines_;
  CommandInfo commands_;
  ReferenceSamples reference_;
};

std::string Percent(double share) { return Fixed(100 * share, 1); }

std::string Rate(int64_t amount, double ms) {
  return ms > 0 && amount > 0 ? Fixed(static_cast<double>(amount) / ms / 1e6, 1) : "-";
}

int64_t Moved(const Cost& c) { return c.bytes_read + c.bytes_written; }

std::string ShownFusedFrom(const StepInfo& s) {
  if (s.fused_from.size() < 2) return "";
  std::string all = Join(s.fused_from, " ");
  if (all.size() <= kShownFusedFrom) return all;
  return Cat(all.substr(0, kShownFusedFrom), "... (", s.fused_from.size(), ")");
}

}  // namespace

void ModelProfile::Compare(const Roofline& r) {
  roofline = r;
  for (StepProfile& s : steps) s.floor_ms = r.FloorMs(s.info, s.info.cost, program_bytes);
}

double ModelProfile::floor_ms() const {
  double sum = 0;
  for (const StepProfile& s : steps) sum += s.floor_ms;
  return sum;
}

std::string ModelProfile::Headline() const {
  std::string text = Cat(
      name, ": ", Fixed(wall_ms, 3), " ms profiled, ", Fixed(overhead, 3), " x unprofiled, ",
      Percent(unexplained), " % unexplained; ",
      device_ms > 0 ? Cat("device busy ", Fixed(device_ms, 3), " ms by its clock; ") : "",
      commands.submissions > 0
          ? Cat(commands.submissions, " submissions, ", commands.recorded, " commands recorded; ")
          : "",
      reference.ToString(), "\n");
  if (roofline && wall_ms > 0)
    text +=
        Cat("roofline: ", Percent(floor_ms() / wall_ms), " % of peak (", Fixed(floor_ms(), 3),
            " ms by direct algorithms; ", roofline->lanes,
            roofline->lanes == 1 ? " thread: " : " threads: ", roofline->ToString(), ")",
            floor_ms() > wall_ms ? "; above 100 %: Winograd's and Strassen's algorithms need fewer "
                                   "operations, or the peak was measured under load"
                                 : "",
            "\n");
  return text;
}

std::string ModelProfile::Table() const {
  // Of a device, transfers stand by themselves: they would hide which shader takes the time.
  const auto own_ms = [&](const StepProfile& s) {
    return ran_on_device() ? s.ms - s.copy_ms : s.ms;
  };
  std::vector<const StepProfile*> order;
  double transfers = 0;
  for (const StepProfile& s : steps) {
    order.push_back(&s);
    transfers += s.ms - own_ms(s);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto* a, const auto* b) { return own_ms(*a) > own_ms(*b); });
  std::vector<std::vector<std::string>> rows = {{"node", "operator", "kernel", "precision", "ms",
                                                 "%", "MFLOP", "MB", "GFLOP/s", "GB/s",
                                                 "roofline %", "fused from"}};
  const auto share = [&](double ms) { return Percent(wall_ms > 0 ? ms / wall_ms : 0); };
  if (transfers > 0)
    rows.push_back({"(transfers)", "", "copy", "", Fixed(transfers, 4), share(transfers), "", "",
                    "", "", "-", ""});
  for (const StepProfile* s : order) {
    const Cost& cost = s->info.cost;
    const double ms = own_ms(*s);
    rows.push_back({NameOf(s->info), ShownOperators(s->info.op), s->info.kernel, s->info.precision,
                    Fixed(ms, 4), share(ms), Fixed(static_cast<double>(cost.flops) / 1e6, 2),
                    Fixed(static_cast<double>(Moved(cost)) / 1e6, 3), Rate(cost.flops, ms),
                    Rate(Moved(cost), ms),
                    s->floor_ms > 0 && ms > 0 ? Percent(s->floor_ms / ms) : "-",
                    ShownFusedFrom(s->info)});
  }
  return TextTable(rows);
}

Result<ModelProfile> ProfileRuns(const std::string& name, const Program& program, RunContext& run,
                                 const std::stop_token& stop, double enough_ms) {
  Runs runs(program, run);
  const auto start = std::chrono::steady_clock::now();
  for (int pair = 0; pair < kMostPairs && !stop.stop_requested(); ++pair) {
    if (pair >= kFewestPairs && MsSince(start) > enough_ms) break;
    INFER_TRY(runs.Add(pair % 2 == 0));
  }
  ModelProfile p;
  p.name = name;
  p.lanes = LaneBudget();
  const auto kernels = run.step_kernels();
  const auto costs = run.step_costs();
  for (size_t s = 0; s < program.steps().size(); ++s) {
    StepInfo info = program.steps()[s];
    // What runs a body is no kernel of the plan.
    if (s < kernels.size() && info.kernel != "bodies") info.kernel = kernels[s];
    if (s < costs.size()) info.cost = costs[s];
    p.steps.push_back({.info = std::move(info)});
  }
  p.program_bytes = run.memory().weight_bytes + run.memory().arena_bytes;
  runs.Fill(p);
  return p;
}

void AddTo(Json& report, const ModelProfile& p) {
  report["profile"] = {{"runs", p.runs},
                       {"wall_ms", p.wall_ms},
                       {"unprofiled_ms", p.unprofiled_ms},
                       {"overhead", p.overhead},
                       {"unexplained", p.unexplained},
                       {"device_ms", p.device_ms},
                       {"submissions", p.commands.submissions},
                       {"recorded_commands", p.commands.recorded}};
  if (p.roofline) {
    report["profile"]["roofline"] = ToJson(*p.roofline);
    report["profile"]["floor_ms"] = p.floor_ms();
    report["profile"]["roofline_percent"] =
        p.wall_ms > 0 ? Json(100 * p.floor_ms() / p.wall_ms) : Json();
  }
  report["reference"] = ToJson(p.reference);
  Json& layers = report["layers"] = Json::array();
  for (const StepProfile& s : p.steps)
    layers.push_back({{"node", s.info.node},
                      {"op", s.info.op},
                      {"kernel", s.info.kernel},
                      {"precision", s.info.precision},
                      {"fused_from", s.info.fused_from},
                      {"ms", s.ms},
                      {"reference_ms", s.reference_ms},
                      {"copy_ms", s.copy_ms},
                      {"device_ms", s.device_ms},
                      {"floor_ms", s.floor_ms},
                      {"cost", ToJson(s.info.cost)}});
}

std::string ChromeTrace(const std::vector<ModelProfile>& profiles) {
  Json events = Json::array();
  int process = 0;
  for (const ModelProfile& p : profiles) {
    ++process;
    // The host's steps and transfers, and what the device's clock timed.
    constexpr int kHost = 1, kDevice = 2;
    const auto event = [&](Json fields, int thread) {
      fields.update({{"pid", process}, {"tid", thread}});
      events.push_back(std::move(fields));
    };
    const auto name = [&](std::string_view of, const std::string& text, int thread) {
      event({{"ph", "M"}, {"name", of}, {"args", {{"name", text}}}}, thread);
    };
    name("process_name", p.name, kHost);
    name("thread_name", "steps", kHost);
    if (std::any_of(p.timeline.begin(), p.timeline.end(),
                    [](const StepTiming& t) { return t.on_device; }))
      name("thread_name", "device", kDevice);
    for (const StepTiming& t : p.timeline) {
      const StepProfile& s = p.steps[t.step];
      Json args = {{"operator", s.info.op},
                   {"kernel", t.is_copy ? "copy" : s.info.kernel},
                   {"precision", s.info.precision},
                   {"fused_from", s.info.fused_from}};
      if (!t.is_copy) {
        args.update(ToJson(s.info.cost));
        if (s.floor_ms > 0 && t.duration_ms > 0)
          args["roofline_percent"] = 100 * s.floor_ms / t.duration_ms;
      }
      event({{"ph", "X"},
             {"name", Cat(NameOf(s.info), t.is_copy ? " (copy)" : "")},
             {"cat", t.reference_ms > 0 ? "reference"
                     : t.is_copy        ? "copy"
                                        : "kernel"},
             {"ts", 1e3 * t.start_ms},
             {"dur", 1e3 * t.duration_ms},
             {"args", std::move(args)}},
            t.on_device ? kDevice : kHost);
    }
  }
  const Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  return JsonText(trace, 1);
}

void ProfileOptions::Declare(Options& options) {
  options.Section("Profile");
  options.Flag(
      "--layers", &layers,
      "Table of the time that each step takes beside the machine's roofline, and the share "
      "of reference kernels");
  options.Value("--trace", &trace,
                "Write one profiled run to FILE for chrome://tracing or Perfetto", PathUse::kWrite);
}

Status ShowProfiles(Context& context, const ProfileOptions& options,
                    std::vector<ModelProfile>& profiles, const std::vector<Json*>& reports) {
  if (profiles.empty()) return {};
  context.Step("roofline");
  int most = 1;
  for (const ModelProfile& p : profiles) most = std::max(most, p.lanes);
  SetLaneBudget(std::max(most, LaneBudget()));
  for (size_t i = 0; i < profiles.size(); ++i) {
    if (!profiles[i].ran_on_device()) profiles[i].Compare(MeasuredRoofline(profiles[i].lanes));
    AddTo(*reports[i], profiles[i]);
    if (options.layers) context.Print(Cat("\n", profiles[i].Headline(), profiles[i].Table()));
  }
  if (options.trace.empty()) return {};
  return WriteFileAtomically(options.trace, ChromeTrace(profiles));
}

}  // namespace infer
