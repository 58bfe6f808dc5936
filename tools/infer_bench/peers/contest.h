#pragma once
/// Engines on one model: each in its worker, timed in turns, with all else that ran in the
/// meantime.
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/support/random.h"
#include "tools/engines/worker.h"

namespace infer::peers {

struct EngineSpec {
  std::string name;  ///< as --engines has it
  std::vector<std::string> argv;
  std::vector<std::string> environment;
};

struct ContestOptions {
  int rounds = 18;              ///< quiet ones that a verdict takes
  int max_rounds = 54;          ///< with those that other load spoilt
  int starts = 6;               ///< of each worker anew; they share the rounds
  double block_s = 0.1;         ///< timed runs of an engine in one round, at least five
  double warmup_s = 3;          ///< at most, of every engine
  double max_other_load = 0.2;  ///< cores; more spoils a round
  double timeout_s = 300;       ///< of one answer
  int64_t min_runs = 5;         ///< of a block and of a window of the warm-up
  uint64_t seed = 0;            ///< of the order in each round
  std::stop_token stop = {};
};

/// One engine on one model.
struct Contender {
  std::string name;
  std::unique_ptr<Worker> worker;         ///< null between starts, and once it failed
  std::string failure;                    ///< why it takes no part any more; "": it does
  Json loaded;                            ///< its latest answer to "load"; null before
  std::vector<double> load_ms, first_ms;  ///< by start
  int64_t warmup_runs = 0;                ///< of all starts
  bool stable = true;                     ///< each warm-up ended because times had settled
  double run_ms = 0;                      ///< a run, as the last window of the warm-up had it
  int64_t settle_runs = 0;                ///< of a block, not timed
  int64_t block_runs = 0;                 ///< of a block, timed
  std::vector<double> samples_ms;         ///< of quiet rounds; of a long block every k-th run
  /// The runs of the latest block, without the time in which they were ready but others had the
  /// processor. Empty where the worker does not say.
  std::vector<double> undisturbed_ms;
  /// Names of threads that a device's driver had made for all processors, and that were set back.
  std::set<std::string> brought_back;

  bool takes_part() const { return worker != nullptr; }
  /// Asks its worker. Where that fails the contender takes no part any more, and null is returned.
  /// Not ok: interrupted.
  Result<Json> Ask(const Json& request, const ContestOptions& options);
  void Drop(std::string why);
};

struct Round {
  int start = 0;                  ///< of the workers
  std::vector<size_t> order;      ///< of the contenders
  std::vector<double> median_ms;  ///< by contender; NaN where it took no part
  double seconds = 0;
  double other_load = 0;    ///< cores that other processes used; 0 where the system does not say
  double waiting_load = 0;  ///< cores that workers used while it was another's turn
  bool quiet = false;
};

struct ContestResult {
  std::vector<Round> rounds;
  int64_t quiet_rounds = 0;
  bool load_known = true;  ///< the system tells what other processes use
  /// Mean over all rounds, waiting workers' included.
  double other_load() const;
};

/// Starts a worker, has it say hello, and loads the model; nothing where the contender has failed.
/// A failure is the contender's. Not ok: interrupted.
Status Enter(Contender& c, const EngineSpec& engine, const Json& load, const std::vector<int>& cpus,
             const std::string& log, const ContestOptions& options);

/// Runs until times have settled, and chooses the runs of a block. Drops the contender whose
/// threads may run elsewhere than on `cpus`; those of one that runs on a device are set back first,
/// since its driver makes threads of its own (Mesa's writers of the shader cache run anywhere).
Status WarmUp(Contender& c, const std::vector<int>& cpus, const ContestOptions& options);

/// One round; `blocks` gets each contender's times, in milliseconds and in order.
Result<Round> RunRound(std::vector<Contender>& contenders, Random& random,
                       const ContestOptions& options, std::vector<std::vector<double>>& blocks);

/// Rounds in which each contender runs one block, in an order drawn anew, until this start's share
/// of them were quiet or there were too many. Adds to `result`; `after_each` is told (quiet rounds,
/// options.rounds).
Status Compete(std::vector<Contender>& contenders, const ContestOptions& options, int start,
               Random& random, ContestResult& result,
               const std::function<void(int64_t, int64_t)>& after_each);

}  // namespace infer::peers
