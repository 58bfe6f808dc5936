#pragma once
/// What `load` and `soak` share: a model behind lanes, warmed up.
#include "tools/bench/session.h"
#include "tools/infer_bench/load/drive.h"
#include "tools/infer_bench/load/predict_options.h"
#include "tools/infer_bench/load/served_model.h"

namespace infer::bench {

struct LoadSetup {
  SessionOptions session;
  ServeOptions serve;      ///< not declared by Declare
  PredictOptions predict;  ///< neither
  int lanes = 0;
  double warmup_s = 1;
  void Declare(Options& options);
};

struct LoadTarget {
  Session session;
  std::unique_ptr<Engine> engine;
  ServedModel* served = nullptr;  ///< the engine, where it is one
  int threads = 1;                ///< of a run
  int lane_budget = 1;            ///< runnable threads of all runs together
  LoadResult warmup;
};

/// Runnable threads of all runs together: no more than there are cores, but always those of one
/// run.
int LaneBudgetFor(int threads, int lanes);

/// `in_flight` queries are what the lanes are for: no more lanes than that, unless --lanes says so.
Result<LoadTarget> OpenTarget(Context& context, const std::string& path, const LoadSetup& setup,
                              int64_t in_flight);

/// The parts of a report that say what was loaded: model, inputs, lanes, warm-up.
Json TargetJson(const LoadTarget& target, const LoadSetup& setup);
Json SettingsJson(const LoadOptions& load);
/// With raw samples or without.
Json ToJson(const LoadResult& r, bool samples);

/// Latency, waiting, service and lag as rows, and below them what came and what was answered.
std::string LoadTable(const LoadResult& r);

}  // namespace infer::bench
