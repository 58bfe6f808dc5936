#include "tools/infer_bench/tune/model_target.h"

#include <algorithm>
#include <limits>

#include "lib/support/measure.h"
#include "lib/support/parallel.h"
#include "quant/accuracy/compare.h"
#include "tools/bench/precision.h"
#include "tools/common/host.h"
#include "tools/infer_bench/load/setup.h"

namespace infer::bench {
namespace {

/// Of the machine's memory, for programs that may be asked for again.
constexpr int64_t kMemoryShare = 4;
/// Before an engine is measured: times as many queries as are in flight, and seconds at most.
constexpr int64_t kWarmingRounds = 8;
constexpr double kMostWarmingS = 0.5;

/// fp32 is the file with other rounding only.
bool MayChangeOutputs(const TuneSetting& s) {
  return !s.variant.empty() || (s.precision != kAsIs && s.precision != "fp32");
}

int64_t BytesOf(const std::vector<Datum>& values) {
  int64_t bytes = 0;
  for (const Datum& v : values)
    if (v.is_tensor()) bytes += static_cast<int64_t>(v.tensor().byte_size());
  return bytes;
}

}  // namespace

double ModelTarget::NowS() { return MsSince(start_) / 1e3; }

/// The remark on random inputs is worth one line, not one for each setting.
Result<Session> ModelTarget::OpenQuietly(const std::string& variant,
                                         const SessionOptions& options) {
  const bool quiet = context_.quiet;
  if (!model_.is_null()) context_.quiet = true;
  auto session = OpenSession(context_, variant.empty() ? path_ : variant, options);
  context_.quiet = quiet;
  if (session.ok() && model_.is_null() && variant.empty()) {
    model_ = session->model;
    inputs_ = {{}, session->inputs.random, session->inputs.extents};
  }
  return session;
}

/// Against the model as it is, every node by itself, on the same inputs; the output that is worst.
/// -inf where NaN or integers differ.
Result<double> ModelTarget::SqnrOf(Session& s, int64_t batch) {
  auto golden = golden_.find(batch);
  if (golden == golden_.end()) {
    SessionOptions options = session_;
    options.batch = batch;
    options.device.level = 0;
    INFER_ASSIGN(const Session as_is, OpenQuietly("", options));
    INFER_TRY(as_is.run->Run({.stop = context_.stop()}));
    auto outputs = TakeOutputs(*as_is.run, as_is.program->outputs().size());
    golden = golden_.emplace(batch, std::move(outputs)).first;
  }
  INFER_TRY(s.run->Run({.stop = context_.stop()}));
  const std::vector<Datum> outputs = TakeOutputs(*s.run, s.program->outputs().size());
  std::vector<TensorComparer> comparers(outputs.size());
  INFER_TRY(AddOutputs(golden->second, outputs, comparers));
  double least = std::numeric_limits<double>::infinity();
  for (const TensorComparer& c : comparers) {
    const TensorMetrics m = c.metrics();
    if (m.non_finite_mismatches + m.unequal > 0) return -std::numeric_limits<double>::infinity();
    least = std::min(least, m.sqnr_db);
  }
  return least;
}

Result<ModelTarget::Compiled> ModelTarget::Compile(const TuneSetting& setting) {
  SessionOptions options = session_;
  options.precision = setting.precision;
  options.batch = setting.batch;
  options.device.threads = setting.threads;
  engine::ModelSource source;
  if (setting.max_batch > 0)
    options.observe = [&](const Graph& g) { engine::ProveAxes(g, source); };
  INFER_ASSIGN(Session s, OpenQuietly(setting.variant, options));
  source.program = s.program;
  source.device = options.device.device;
  const MemoryInfo memory = s.run->memory();
  Compiled c{.key = {setting.variant, setting.precision, setting.batch, setting.threads},
             .source = std::move(source),
             .inputs = s.inputs.values,
             .batch = s.batch,
             .bytes = memory.weight_bytes + memory.arena_bytes + BytesOf(s.inputs.values),
             .sqnr_db = {}};
  if (MayChangeOutputs(setting)) {
    const std::pair of(setting.variant, setting.precision);
    auto known = sqnr_db_.find(of);
    if (known == sqnr_db_.end()) {
      INFER_ASSIGN(const double sqnr_db, SqnrOf(s, setting.batch));
      known = sqnr_db_.emplace(of, sqnr_db).first;
    }
    c.sqnr_db = known->second;
  }
  return c;
}

/// The longest unused go first.
void ModelTarget::Forget() {
  static const int64_t most_bytes = GetHostFacts().memory_bytes / kMemoryShare;
  int64_t bytes = 0;
  for (const Compiled& c : kept_) bytes += c.bytes;
  for (; kept_.size() > 1 && bytes > most_bytes; kept_.pop_back()) bytes -= kept_.back().bytes;
}

Status ModelTarget::Make(const TuneSetting& setting) {
  const std::tuple of_graph(setting.variant, setting.precision, setting.batch);
  if (const auto failed = failures_.find(of_graph); failed != failures_.end())
    return failed->second;
  const std::tuple key(setting.variant, setting.precision, setting.batch, setting.threads);
  const auto known =
      std::find_if(kept_.begin(), kept_.end(), [&](const Compiled& c) { return c.key == key; });
  if (known != kept_.end()) {
    std::rotate(kept_.begin(), known, known + 1);
    return {};
  }
  auto compiled = Compile(setting);
  if (!compiled.ok()) {
    if (!context_.stop().stop_requested()) failures_[of_graph] = compiled.status();
    return compiled.status();
  }
  kept_.push_front(*std::move(compiled));
  Forget();
  return {};
}

Result<OpenedSetting> ModelTarget::Open(const TuneSetting& setting) {
  engine_.reset();  // its lanes let go of a program that may be forgotten
  INFER_TRY(Make(setting));
  const Compiled& c = kept_.front();
  SetLaneBudget(LaneBudgetFor(setting.threads, setting.lanes));
  return setting.max_batch > 0 ? OpenServed(c, setting) : OpenBare(c, setting);
}

Result<OpenedSetting> ModelTarget::OpenBare(const Compiled& c, const TuneSetting& setting) {
  INFER_ASSIGN(engine_, ModelEngine::Make(c.source.program, c.inputs, c.batch, setting.lanes,
                                          context_.stop()));
  return OpenedSetting{.engine = engine_.get(), .batch = c.batch, .sqnr_db = c.sqnr_db};
}

/// In the closed loop as many queries are in flight as full runs on all instances have rows.
Result<OpenedSetting> ModelTarget::OpenServed(const Compiled& c, const TuneSetting& setting) {
  INFER_ASSIGN(engine_,
               ServedModel::Make({.names = {path_}, .sources = {c.source}}, c.inputs, c.batch,
                                 setting.lanes, {.engine = true, .max_batch = setting.max_batch},
                                 session_.inputs.seed, context_.stop()));
  const auto in_flight = static_cast<int>(setting.lanes * setting.max_batch);
  // The first run of each number of rows plans its shape.
  INFER_TRY(Drive(*engine_, {.concurrency = in_flight,
                             .duration_s = 0,
                             .min_queries = kWarmingRounds * in_flight,
                             .max_duration_s = kMostWarmingS,
                             .keep = 0,
                             .stop = context_.stop()})
                .status());
  return OpenedSetting{
      .engine = engine_.get(), .batch = c.batch, .in_flight = in_flight, .sqnr_db = c.sqnr_db};
}

}  // namespace infer::bench
