#pragma once
/// Two sides measured live: start after start, each side in a fresh process, blocks of runs in
/// turns and in an order drawn anew, until a decision stands or the time is used up.
#include <set>

#include "tools/infer_bench/compare/decision.h"
#include "tools/infer_bench/peers/contest.h"
#include "tools/infer_bench/peers/model_contest.h"

namespace infer {

/// What is timed on one side.
struct CompareSide {
  std::string model;   ///< path
  std::string binary;  ///< an infer-bench; "": this program
  DeviceOptions device;
  std::string rewrites;                  ///< level by name, as infer-opt fuse has it
  std::vector<std::string> environment;  ///< NAME=VALUE, over the caller's own
};

/// One start of both sides.
struct StartRecord {
  double log_ratio = 0;         ///< what the decision takes: of the fastest runs of the blocks
  double median_log_ratio = 0;  ///< the same of the blocks' medians
  /// Median over rounds of a block's fastest run, without its waits for a processor.
  double fastest_ms[2] = {};
  double median_ms[2] = {};  ///< median over rounds of a block's median
  double load_ms[2] = {}, first_ms[2] = {};
  double other_load = 0;  ///< cores that other processes used meanwhile
  int64_t runs_of_block[2] = {};
  std::vector<double> samples_ms[2];  ///< every timed run, in order
  /// The same without the time in which others had the processor; empty where nobody says.
  std::vector<double> undisturbed_ms[2];
};

struct LiveOptions {
  /// No start begins that would probably end later than LimitOf says.
  double budget_s = 10;
  int rounds = 8;  ///< of a start, at most
  double block_s = 0.025;
  double warmup_s = 0.3;  ///< of a start and side, at most
  double timeout_s = 300;
  uint64_t seed = 0;
  std::stop_token stop = {};
  std::string external_root;
  bool lenient = false;
};

struct LiveComparison {
  std::vector<StartRecord> starts;
  std::vector<int> cpus;
  std::set<std::string> brought_back[2];  ///< as peers::Contender has them, of all starts
  double seconds = 0;
  bool interrupted = false;
};

/// Seconds that measuring may take with what is known by now: the budget; twice as long where a
/// suspicion is to be confirmed; six times as long for the first starts (kLeastMaxStarts), without
/// which nothing is decided: a large model takes seconds to load.
double LimitOf(const Decision& decision, double budget_s);

/// Adds each start to `decision`. `inputs[side]`: the model with the values that it gets, two;
/// `folder` is for files, `after_each` is told the seconds used. Not ok: a side failed (the message
/// names it). Interrupted: what there is, so marked.
Result<LiveComparison> CompareLive(const CompareSide (&sides)[2],
                                   const std::vector<peers::PreparedModel>& inputs,
                                   const std::string& folder, const LiveOptions& options,
                                   Decision& decision,
                                   const std::function<void(double seconds)>& after_each);

}  // namespace infer
