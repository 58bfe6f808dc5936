#include "tools/infer_bench/load/setup.h"

#include <algorithm>
#include <filesystem>

#include "lib/support/parallel.h"
#include "lib/support/readable.h"
#include "lib/support/strings.h"
#include "tools/bench/bench_json.h"
#include "tools/bench/precision.h"
#include "tools/common/route_file.h"
#include "tools/infer_bench/load/curve.h"
#include "tools/infer_bench/load/model_engine.h"

namespace infer::bench {
namespace {

std::vector<std::string> Row(std::string name, const Latencies& l) {
  std::vector<std::string> row = {std::move(name)};
  for (double v : {l.min(), l.mean()}) row.push_back(Rounded(v, 4));
  for (const Percentile& p : l.Percentiles()) row.push_back(p.value ? Rounded(*p.value, 4) : "-");
  row.push_back(Rounded(l.max(), 4));
  return row;
}

/// One model of a route, made ready as the model of the command line.
Result<engine::ModelSource> OpenVariant(Context& context, const std::string& path,
                                        SessionOptions options) {
  engine::ModelSource source;
  options.observe = [&](const Graph& g) { engine::ProveAxes(g, source); };
  INFER_ASSIGN(Session session, OpenSession(context, path, options));
  source.program = session.program;
  source.device = options.device.device;
  return source;
}

/// Which variant of a route is the model of the command line. InvalidArgument: none is.
Result<std::vector<bool>> FindMain(const RouteFile& route, const std::string& file,
                                   const std::string& path) {
  std::vector<bool> is_main;
  for (const std::string& p : route.paths) {
    std::error_code none;
    is_main.push_back(p.empty() || std::filesystem::equivalent(p, path, none));
  }
  if (std::find(is_main.begin(), is_main.end(), true) == is_main.end())
    return InvalidArgument(Cat(file, ": ", path, " is none of its variants"));
  return is_main;
}

/// The variants of --route.
Result<ServedVariants> OpenVariants(Context& context, const LoadSetup& setup,
                                    const std::string& path, RouteFile route,
                                    const engine::ModelSource& main) {
  ServedVariants out;
  INFER_ASSIGN(const std::vector<bool> is_main, FindMain(route, setup.serve.route, path));
  for (size_t i = 0; i < route.paths.size(); ++i) {
    const engine::RouteVariant& v = route.policy.variants[i];
    SessionOptions options = setup.session;
    if (v.device) options.device.device = *v.device;
    out.names.push_back(v.model);
    if (is_main[i] && options.device.device == setup.session.device.device) {
      out.sources.push_back(main);
      continue;
    }
    INFER_ASSIGN(auto source, OpenVariant(context, is_main[i] ? path : route.paths[i], options));
    out.sources.push_back(std::move(source));
  }
  out.route = std::move(route.policy);
  return out;
}

/// The model of the command line and those of --also. What --set, --shape, --input and --fill say
/// is of the first alone.
Result<ServedVariants> OpenMix(Context& context, const LoadSetup& setup, const Session& main,
                               engine::ModelSource source, const std::vector<double>& shares) {
  ServedVariants out{.names = {main.path}, .sources = {std::move(source)}};
  out.mix.push_back({.share = shares[0], .inputs = main.inputs.values, .batch = main.batch});
  for (size_t i = 0; i < setup.serve.also.size(); ++i) {
    const std::string& path = setup.serve.also[i];
    SessionOptions options = setup.session;
    options.model.set.clear();
    options.model.shape.clear();
    options.inputs.input.clear();
    options.inputs.fill.clear();
    engine::ModelSource of_file;
    options.observe = [&](const Graph& g) { engine::ProveAxes(g, of_file); };
    INFER_ASSIGN(Session session, OpenSession(context, path, options));
    of_file.program = session.program;
    of_file.device = options.device.device;
    std::string name = path;
    for (int n = 2; std::find(out.names.begin(), out.names.end(), name) != out.names.end(); ++n)
      name = Cat(path, " #", n);
    out.names.push_back(std::move(name));
    out.sources.push_back(std::move(of_file));
    out.mix.push_back({.share = shares[i + 1],
                       .inputs = std::move(session.inputs.values),
                       .batch = session.batch});
  }
  return out;
}

}  // namespace

void LoadSetup::Declare(Options& o) {
  session.Declare(o);
  session.device.DeclareCompute(o);
  o.Section("Options");
  o.Value("--batch", &session.batch,
          "Samples of a run, the leading dimension of the inputs; 0: as the model has it");
  o.Choice("--precision", &session.precision, PrecisionNames(), "What the model is converted to");
  o.Value("--lanes", &lanes,
          "Queries that are worked on at once, each in a context of its own; 0: as many as have "
          "cores");
  o.Value("--warmup", &warmup_s, "Seconds of a closed loop before anything is measured");
}

int LaneBudgetFor(int threads, int lanes) {
  return std::max(threads, std::min(lanes * threads, AvailableCores()));
}

Result<LoadTarget> OpenTarget(Context& context, const std::string& path, const LoadSetup& setup,
                              int64_t in_flight) {
  INFER_TRY(TellCompute(context, setup.session.device));
  const int cores = AvailableCores();
  LoadTarget t;
  t.threads = setup.session.device.threads > 0 ? setup.session.device.threads : cores;
  const int with_cores = std::max(1, cores / t.threads);
  const int lanes =
      setup.lanes > 0
          ? setup.lanes
          : static_cast<int>(std::min<int64_t>(with_cores, std::max<int64_t>(in_flight, 1)));
  // Its places are those of one team; the lanes' teams would share them.
  if (setup.session.device.pin && lanes > 1) return InvalidArgument("--pin: with --lanes 1 only");
  INFER_TRY(setup.serve.Shares().status());
  INFER_TRY(setup.predict.Check(setup.serve, setup.session.device.device));
  INFER_ASSIGN(const std::vector<double> shares, setup.serve.ModelShares());
  std::optional<RouteFile> route;
  if (!setup.serve.route.empty()) {
    INFER_ASSIGN(route, ReadRouteFile(setup.serve.route, setup.session.device.device));
    INFER_TRY(FindMain(*route, setup.serve.route, path).status());
  }
  SessionOptions session = setup.session;
  engine::ModelSource source;
  if (setup.serve.engine) session.observe = [&](const Graph& g) { engine::ProveAxes(g, source); };
  INFER_ASSIGN(t.session, OpenSession(context, path, session));
  source.program = t.session.program;
  source.device = setup.session.device.device;
  ServedVariants served_variants{.names = {path}, .sources = {std::move(source)}};
  if (route) {
    const engine::ModelSource main = served_variants.sources[0];
    INFER_ASSIGN(served_variants, OpenVariants(context, setup, path, *std::move(route), main));
  } else if (!shares.empty()) {
    engine::ModelSource main = std::move(served_variants.sources[0]);
    INFER_ASSIGN(served_variants, OpenMix(context, setup, t.session, std::move(main), shares));
  }
  t.lane_budget = LaneBudgetFor(t.threads, lanes);
  SetLaneBudget(t.lane_budget);
  context.Step("warm up");
  if (setup.serve.engine) {
    ServeOptions serve = setup.serve;
    serve.most_instances = std::max(lanes, with_cores);
    INFER_ASSIGN(auto served, ServedModel::Make(std::move(served_variants), t.session.inputs.values,
                                                t.session.batch, lanes, serve,
                                                setup.session.inputs.seed, context.stop()));
    t.served = served.get();
    t.engine = std::move(served);
  } else {
    INFER_ASSIGN(t.engine, ModelEngine::Make(t.session.program, t.session.inputs.values,
                                             t.session.batch, lanes, context.stop()));
  }
  LoadOptions warm{
      .max_duration_s = std::max(5.0, setup.warmup_s), .keep = 0, .stop = context.stop()};
  INFER_ASSIGN(t.warmup, MeasureCapacity(*t.engine, setup.warmup_s, warm));
  if (t.served) INFER_TRY(t.served->BeginMeasuring());
  return t;
}

Json TargetJson(const LoadTarget& t, const LoadSetup& setup) {
  return {{"path", t.session.path},
          {"model", t.session.model},
          {"precision", setup.session.precision},
          {"batch", t.session.batch},
          {"random_inputs", t.session.inputs.random},
          {"extents", t.session.inputs.extents},
          {"device", setup.session.device.device},
          {"level", setup.session.device.level},
          {"compute", setup.session.device.compute},
          {"lanes", t.engine->lanes()},
          {"threads", t.threads},
          {"lane_budget", t.lane_budget},
          {"pin", setup.session.device.pin},
          {"load_ms", t.session.load_ms},
          {"compile_ms", t.session.compile_ms},
          {"warmup",
           {{"seconds", t.warmup.seconds},
            {"queries", t.warmup.answered},
            {"throughput_per_s", t.warmup.throughput_per_s()}}}};
}

Json SettingsJson(const LoadOptions& o) {
  const bool closed = o.arrivals == Arrivals::kClosed, at_rate = o.rate > 0;
  return {{"arrivals", Name(o.arrivals)},
          {"concurrency", closed ? Json(o.concurrency) : Json()},
          {"rate_per_s", closed || !at_rate ? Json() : Json(o.rate)},
          {"seed", o.seed},
          {"samples_per_query", o.samples_per_query},
          {"duration_s", o.duration_s},
          {"min_queries", o.min_queries},
          {"max_queries", o.max_queries},
          {"max_duration_s", o.max_duration_s},
          {"drain_s", o.drain_s}};
}

Json ToJson(const LoadResult& r, bool samples) {
  Json j = {{"issued", r.issued},
            {"answered", r.answered},
            {"answered_in_time", r.answered_in_time},
            {"unanswered", r.unanswered},
            {"oldest_unanswered_ms", r.oldest_unanswered_ms},
            {"seconds", r.seconds},
            {"total_seconds", r.total_seconds},
            {"offered_per_s", r.offered_per_s()},
            {"throughput_per_s", r.throughput_per_s()},
            {"queue", {{"mean", r.queue_mean}, {"max", r.queue_max}, {"backlog", r.backlog}}},
            {"latency_ms", ToJson(r.latency)},
            {"waiting_ms", ToJson(r.waiting)},
            {"service_ms", ToJson(r.service)},
            {"lag_ms", ToJson(r.lag)},
            {"ended", r.ended},
            {"interrupted", r.interrupted}};
  if (samples) j["samples"] = {{"at_ms", r.latency.first().at_ms}, {"ms", r.latency.first().ms}};
  return j;
}

std::string LoadTable(const LoadResult& r) {
  std::vector<std::vector<std::string>> rows = {{"ms", "min", "mean"}};
  for (double q : kReportedQuantiles) rows[0].push_back(PercentileName(q));
  rows[0].push_back("max");
  rows.push_back(Row("latency", r.latency));
  rows.push_back(Row("waiting", r.waiting));
  rows.push_back(Row("service", r.service));
  if (r.lag.count() > 0) rows.push_back(Row("generator's lag", r.lag));
  std::string out = TextTable(rows);
  out += Cat(r.issued, " queries in ", Fixed(r.seconds, 1), " s (", Rounded(r.offered_per_s(), 4),
             " per s), answered ", Rounded(r.throughput_per_s(), 4), " per s; queue: mean ",
             Rounded(r.queue_mean, 3), ", most ", r.queue_max, "\n");
  if (r.unanswered > 0)
    out += Cat(r.unanswered, " without an answer, the oldest for ",
               Rounded(r.oldest_unanswered_ms, 4), " ms: counted with their age\n");
  return out;
}

}  // namespace infer::bench
