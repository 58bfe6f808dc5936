#include "tools/infer_bench/load_predictions.h"

#include <set>

#include "lib/support/strings.h"
#include "tools/infer_bench/predict/recommend.h"

namespace infer::bench {
namespace {

/// Samples of a run: those of one request, and more.
std::vector<std::string> RowsOf(int64_t batch, int64_t max_batch) {
  std::set<int64_t> rows = {std::max(batch, max_batch)};
  for (int64_t times : {1, 2, 4, 8, 16}) rows.insert(batch * times);
  std::vector<std::string> out;
  for (int64_t n : rows) out.push_back(Cat(n));
  return out;
}

}  // namespace

Status PredictFor(Context& context, const std::string& path, const LoadSetup& setup,
                  LoadTarget& target) {
  if (setup.predict.machine.empty() || !target.served) return {};
  INFER_ASSIGN(const Profile profile, ReadProfile(setup.predict.machine));
  context.Step("predict");
  PredictedGrid grid{.paths = {path},
                     .batches = RowsOf(target.session.batch, setup.serve.max_batch),
                     .precisions = {setup.session.precision}};
  for (const std::string& v : setup.predict.variants) grid.paths.push_back(v);
  for (const std::string& p : setup.predict.precisions) grid.precisions.push_back(p);
  SessionOptions session = setup.session;
  session.device.threads = target.threads;
  const auto predicted = PredictSettings(context, grid, session, profile);
  if (!predicted.ok()) {
    if (predicted.status().code() != Code::kCancelled)
      context.Warn(Cat("no recommendation by predictions: ", predicted.status().message()));
    return {};
  }
  std::vector<engine::Predicted> out;
  for (const PredictedSetting& s : predicted->settings)
    out.push_back({.variant = s.path,
                   .precision = s.precision,
                   .rows = s.batch,
                   .threads = s.threads,
                   .instances = s.threads == target.threads ? target.engine->lanes() : s.lanes,
                   .ms = s.ms,
                   .error = s.error});
  target.served->SetPredicted(std::move(out));
  return {};
}

}  // namespace infer::bench
