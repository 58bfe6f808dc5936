#include "tools/infer_bench/predict/recommend.h"

#include <cmath>

#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/precision.h"
#include "tools/common/open_extents.h"

namespace infer::bench {
namespace {

Result<Graph> GraphOf(Context& context, const PredictedSetting& s, const SessionOptions& session) {
  INFER_ASSIGN(Model model, LoadModel(context, s.path, session.model));
  INFER_TRY(SetBatch(model.graph, s.batch));
  Graph known = WithFoundExtents(model.graph);
  if (HasOpenDims(known)) return InvalidArgument("no extents fit its open dimensions");
  if (s.precision == kAsIs) return known;
  INFER_ASSIGN(auto backend, MakeBackend(session.device.device));
  INFER_TRY(ConvertPrecision(known, s.precision, *backend, context.stop()));
  return known;
}

Status PredictSetting(Context& context, const SessionOptions& session, const Profile& profile,
                      PredictedSetting& s) {
  INFER_ASSIGN(const Graph graph, GraphOf(context, s, session));
  DeviceOptions device = session.device;
  device.threads = s.threads;
  INFER_ASSIGN(const PlannedModel planned, PlanModel(graph, device));
  INFER_ASSIGN(const Prediction p, Predict(planned.facts, profile, s.threads));
  if (p.unpredictable > 0 || p.counted_once > 0)
    return Unsupported("the time of some steps hangs on data");
  if (p.ms <= 0) return Unsupported("no time is predicted for it");
  s.ms = p.ms;
  s.error = ErrorOf(p, *profile.For(s.threads));
  return {};
}

/// The first is what is now. Threads: the session's, then the profile's others.
Result<std::vector<PredictedSetting>> SettingsOf(const PredictedGrid& grid,
                                                 const SessionOptions& session,
                                                 const Profile& profile) {
  const int cores = AvailableCores();
  std::vector<int> threads = {session.device.threads > 0 ? session.device.threads : cores};
  for (const LaneProfile& l : profile.lanes)
    if (l.lanes != threads[0] && l.lanes <= cores) threads.push_back(l.lanes);
  std::vector<PredictedSetting> out;
  for (const std::string& path : grid.paths)
    for (const std::string& precision : grid.precisions) {
      INFER_TRY(CheckPrecision(precision));
      for (int t : threads)
        for (const std::string& text : grid.batches) {
          const auto batch = ParseInt(text);
          if (!batch || *batch <= 0)
            return InvalidArgument(Cat("--batches ", text, ": a whole number above 0"));
          out.push_back({.path = path,
                         .precision = precision,
                         .batch = *batch,
                         .threads = t,
                         .lanes = std::max(1, cores / t)});
        }
    }
  return out;
}

Json SettingJson(const PredictedSetting& s) {
  return {{"path", s.path},   {"precision", s.precision},
          {"batch", s.batch}, {"threads", s.threads},
          {"lanes", s.lanes}, {"predicted_ms", s.ms},
          {"error", s.error}, {"samples_per_s", s.samples_per_s()}};
}

std::string Percent(double share) { return Cat(std::lround(100 * share), " %"); }

std::string Figures(const PredictedSetting& s) {
  return Cat(s.Name(), ": ", Rounded(s.ms, 3), " ms +- ", Percent(s.error), ", ",
             Rounded(s.samples_per_s(), 3), " samples/s");
}

std::string Text(const std::vector<PredictedSetting>& all, const AdvisedByPrediction& advised) {
  std::string out = Cat("now:         ", Figures(all[0]), "\n");
  for (const PredictedAdvice& a : advised.changes) {
    out += Cat("recommended: ", Name(a.knob), " (", Percent(a.low), " to ", Percent(a.high),
               " more samples/s", a.keeps_limit ? "; it keeps the limit" : "",
               all[a.to].lanes > all[a.from].lanes ? "; runs at once may slow each other" : "",
               ")\n             ", Figures(all[a.to]), "\n");
    if (a.knob == PredictedKnob::kVariant || a.knob == PredictedKnob::kPrecision)
      out += "             accuracy is not predicted: infer-opt eval, infer-bench tune\n";
  }
  if (!advised.none.empty()) out += Cat("nothing to recommend: ", advised.none, "\n");
  return out;
}

}  // namespace

Result<PredictedSettings> PredictSettings(Context& context, const PredictedGrid& grid,
                                          const SessionOptions& session, const Profile& profile) {
  INFER_ASSIGN(std::vector<PredictedSetting> wanted, SettingsOf(grid, session, profile));
  PredictedSettings out{.settings = {}, .unavailable = Json::array()};
  for (size_t i = 0; i < wanted.size() && !context.stop().stop_requested(); ++i) {
    context.Progress("predict", static_cast<int64_t>(i), static_cast<int64_t>(wanted.size()));
    const Status status = PredictSetting(context, session, profile, wanted[i]);
    if (status.ok()) {
      out.settings.push_back(std::move(wanted[i]));
    } else if (i == 0) {
      return Status(status).In(wanted[0].Name());
    } else {
      out.unavailable.push_back({{"setting", wanted[i].Name()}, {"reason", status.message()}});
    }
  }
  if (out.settings.empty()) return Cancelled("nothing was predicted before the stop");
  return out;
}

Result<Json> RecommendByPrediction(Context& context, const PredictedGrid& grid,
                                   const SessionOptions& session, const Profile& profile) {
  INFER_ASSIGN(PredictedSettings predicted, PredictSettings(context, grid, session, profile));
  const std::vector<PredictedSetting>& all = predicted.settings;
  const AdvisedByPrediction advised = AdviseByPrediction(all, 0, grid.within_ms);
  Json settings = Json::array(), changes = Json::array();
  for (const PredictedSetting& s : all) settings.push_back(SettingJson(s));
  for (const PredictedAdvice& a : advised.changes)
    changes.push_back({{"knob", Name(a.knob)},
                       {"from", a.from},
                       {"to", a.to},
                       {"keeps_limit", a.keeps_limit},
                       {"gain_low", a.low},
                       {"gain_high", a.high}});
  context.Print(Text(all, advised));
  return Json{{"within_ms", grid.within_ms > 0 ? Json(grid.within_ms) : Json()},
              {"settings", std::move(settings)},
              {"unavailable", std::move(predicted.unavailable)},
              {"changes", std::move(changes)},
              {"chosen", advised.chosen},
              {"none", advised.none.empty() ? Json() : Json(advised.none)}};
}

}  // namespace infer::bench
