#pragma once
/// All engines on one model with one number of threads: the same inputs, outputs that must agree,
/// times in turns, and what may be said of the first engine against each other one.
#include "tools/common/data_options.h"
#include "tools/common/input_values.h"
#include "tools/common/model_options.h"
#include "tools/infer_bench/peers/agreement.h"
#include "tools/infer_bench/peers/contest.h"
#include "tools/infer_bench/peers/verdict.h"

namespace infer::peers {

/// A model with values for its inputs, as all engines get it.
struct PreparedModel {
  Model model;
  ModelInputs inputs;
  /// Extents of the file's own symbolic dimensions, for engines that are told of them.
  std::map<std::string, int64_t> symbols;
};

/// `data`, if given, gives the inputs (its first sample); else `options` does.
Result<PreparedModel> Prepare(Context& context, const std::string& path, const ModelOptions& model,
                              const InputOptions& options, const DataFlags& data);

/// The first engine against another one.
struct Comparison {
  std::string peer;
  std::vector<OutputDifference> outputs;  ///< empty: one of the two has none
  bool disagrees = false;
  std::string reason;         ///< why there is no ratio; "": there is one
  bool inconclusive = false;  ///< the reason is other load
  StartRatios start_ratios;   ///< of quiet rounds; starts without any are left out
  std::optional<Ratio> ratio;
};

struct ModelOutcome {
  int threads = 0;
  std::vector<int> cpus;
  AgreementRule rule;
  std::vector<Contender> contenders;  ///< workers ended
  ContestResult contest;
  std::vector<Comparison> comparisons;
};

struct ModelContestOptions {
  ContestOptions contest;
  AgreementRule rule;  ///< for f32; the model decides (RuleFor)
  Json infer;          ///< device, level and rewrites of our own engine
  std::string external_root;
  bool lenient = false;
  std::string folder;  ///< for files of this contest; made here
};

/// Not ok: interrupted, or no file could be written. What an engine does wrong is in the outcome.
Result<ModelOutcome> RunModel(Context& context, const PreparedModel& model, const std::string& path,
                              const std::vector<EngineSpec>& engines, int threads,
                              const ModelContestOptions& options);

}  // namespace infer::peers
