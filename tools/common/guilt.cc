#include "tools/common/guilt.h"

#include <algorithm>
#include <limits>

#include "lib/support/readable.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr size_t kGuilty = 3;
constexpr double kNoDifference = std::numeric_limits<double>::infinity();

std::string Db(const std::optional<double>& v) { return v ? Fixed(*v, 1) : "-"; }

std::optional<double> Accumulated(const AccuracyReport& accuracy, const std::string& name) {
  for (const auto* values : {&accuracy.layers, &accuracy.outputs})
    for (const ValueAccuracy& v : *values)
      if (v.name == name && v.is_float) return v.metrics.sqnr_db;
  return std::nullopt;
}

Json ToJson(const IsolatedLayer& l, const AccuracyReport& accuracy) {
  Json j = {{"layer", l.name},
            {"golden_op", l.golden_op},
            {"candidate_op", l.candidate_op},
            {"local_sqnr_db", JsonNumber(l.local.sqnr_db)},
            {"local_max_error_ratio", JsonNumber(l.local.max_error_ratio)}};
  if (l.output_sqnr_db) j["output_sqnr_db"] = JsonNumber(*l.output_sqnr_db);
  if (const auto a = Accumulated(accuracy, l.name)) j["accumulated_sqnr_db"] = JsonNumber(*a);
  return j;
}

}  // namespace

std::string LayersText(const std::vector<IsolatedLayer>& layers, const AccuracyReport& accuracy,
                       size_t max_layers) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "golden", "candidate", "alone: output dB", "alone: itself dB", "accumulated dB"}};
  for (size_t i = 0; i < std::min(layers.size(), max_layers); ++i) {
    const IsolatedLayer& l = layers[i];
    rows.push_back({l.name, l.golden_op, l.candidate_op, Db(l.output_sqnr_db),
                    Fixed(l.local.sqnr_db, 1), Db(Accumulated(accuracy, l.name))});
  }
  return Cat(rows.size() - 1, " guiltiest of ", layers.size(),
             " layers that differ; alone: all others are golden's\n", TextTable(rows));
}

Json ToJson(const std::vector<IsolatedLayer>& layers, const AccuracyReport& accuracy) {
  Json out = Json::array();
  for (const IsolatedLayer& l : layers) out.push_back(ToJson(l, accuracy));
  return out;
}

void TellGuilty(Context& context, const std::vector<IsolatedLayer>& isolated,
                const AccuracyReport& accuracy, Json& report) {
  std::vector<IsolatedLayer> worst;
  for (const IsolatedLayer& l : isolated)
    if (worst.size() < kGuilty && l.output_sqnr_db != kNoDifference) worst.push_back(l);
  if (worst.empty() && !isolated.empty())
    context.PrintLine("no layer alone changes the outputs on this device");
  if (worst.empty()) return;
  report["guilty"] = ToJson(worst, accuracy);
  for (const IsolatedLayer& l : worst)
    context.PrintLine(Cat("guilty  ", Printable(l.name), " (", l.golden_op, " as ", l.candidate_op,
                          "): alone it leaves the outputs at ", Db(l.output_sqnr_db),
                          " dB, itself at ", Fixed(l.local.sqnr_db, 1), " dB"));
}

std::vector<IsolatedLayer> Isolate(Context& context, const Graph& golden, const Graph& candidate,
                                   const DeviceOptions& device, const Samples& samples,
                                   const IsolateOptions& options) {
  const auto isolate = [&]() -> Result<std::vector<IsolatedLayer>> {
    INFER_ASSIGN(const LayerMap map, LayerMap::Of(golden, candidate));
    INFER_ASSIGN(const auto backend, MakeBackend(device.device));
    IsolateOptions o = options;
    o.threads = device.threads;
    o.stop = context.stop();
    o.progress = [&](int64_t done, int64_t total) { context.Progress("isolate", done, total); };
    return IsolateLayers(map, *backend, samples, o);
  };
  auto found = isolate();
  if (found.ok()) return *std::move(found);
  context.Note(Cat("no layer can be blamed: ", found.status().message()));
  return {};
}

}  // namespace infer
