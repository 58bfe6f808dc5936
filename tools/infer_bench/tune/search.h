#pragma once
/// Which setting gives the most samples per second within an SLO, found by measuring. Knows neither
/// models nor clocks: a TuneTarget makes settings ready to be loaded.
///
///  1. Screening, up to 40 % of the budget: some queries of each setting, closed loop. Batches of
///     otherwise equal settings in ascending order: where one misses the SLO beyond doubt, larger
///     ones do, too. Of the engine, the rows that a run may have stand for the batch.
///  2. Successive halving (Jamieson & Talwalkar 2016): of the eight best four, of these two go on,
///     each round measuring longer. Best: the most samples per second, less where the SLO looks
///     missed.
///  3. Confirmation: the two best on fresh measurements, in turns; where neither meets the SLO, the
///     next best, up to five in all. Each test errs in at most 1 %, the choice in at most 5 %.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/infer_bench/tune/slo.h"

namespace infer::bench {

struct TuneSetting {
  std::string variant;                  ///< another file of the same model; "": the model
  std::optional<double> accuracy_loss;  ///< of the variant, as measured before; decides, not SQNR
  std::string precision;
  int threads = 1;
  int64_t batch = 0;  ///< 0: as the model has it
  int lanes = 1;
  int64_t max_batch = 0;  ///< rows that a run of the engine may have; 0: lanes without the engine
  /// "precision:fp16/threads:1/batch:4/lanes:2"; of a variant "variant:FILE/threads:1/...".
  /// Of the engine "precision:fp16/threads:1/max-batch:8/lanes:2".
  std::string Name() const;
};

struct OpenedSetting {
  Engine* engine = nullptr;       ///< until the next Open; its lanes are warm
  int64_t batch = 1;              ///< samples of a query
  int in_flight = 0;              ///< queries of the closed loop; 0: one for each lane
  std::optional<double> sqnr_db;  ///< of the outputs, where the precision may change them
};

class TuneTarget {
 public:
  virtual ~TuneTarget() = default;
  virtual double NowS() = 0;
  /// InvalidArgument, Unsupported and Resource say that this setting cannot be had.
  virtual Result<OpenedSetting> Open(const TuneSetting& setting) = 0;
};

enum class Fate {
  kOpen,         ///< not decided: measured too little, or not at all
  kChosen,       ///< meets the SLO, and nothing that does was found faster
  kMeets,        ///< meets it, confirmed
  kSlower,       ///< fewer samples per second than the choice
  kMisses,       ///< misses the SLO beyond doubt
  kInaccurate,   ///< of a precision or variant whose outputs are too far off
  kUnavailable,  ///< the model does not take it
};
std::string_view Name(Fate f);

struct TuneCandidate {
  TuneSetting setting;
  int64_t batch = 0;  ///< samples of a query; 0 as long as it was not opened
  Fate fate = Fate::kOpen;
  std::string reason;  ///< of the fate, for people
  std::optional<double> sqnr_db;
  double gather_ms = 0;  ///< open loop: until a batch is complete, part of every latency
  Evidence closed;       ///< closed loop with a query in flight for each row of each lane
  Evidence open;         ///< open loop at the rate; nothing without one
  Evidence confirmed;    ///< the fresh measurement, by the loop that the SLO is about
  bool confirming = false;
  double samples_per_s() const { return closed.samples_per_s(); }
};

struct TuneOptions {
  Slo slo;
  double rate = 0;  ///< samples per second of an open loop; 0: closed loop, highest throughput
  double budget_s = 60;
  double min_sqnr_db = 30;
  double max_drop = 0.005;  ///< accuracy loss that a variant may have
  uint64_t seed = 0;
  std::stop_token stop = {};
};

enum class TuneVerdict {
  kMet,           ///< the choice meets the SLO
  kNotMet,        ///< no setting that can be had meets it
  kInconclusive,  ///< neither is known
};
std::string_view Name(TuneVerdict v);

struct TuneResult {
  std::vector<TuneCandidate> candidates;  ///< in the order given
  std::optional<size_t> chosen;
  std::optional<size_t> best_guess;  ///< inconclusive: the most promising one
  TuneVerdict verdict = TuneVerdict::kInconclusive;
  std::string reason;  ///< of a verdict other than met
  double seconds = 0;
  int measurements = 0;
  bool interrupted = false;
};

/// `observe` sees what is known after each measurement. A status that is none of one setting's ends
/// the search; so does the first one where no setting can be had.
Result<TuneResult> Tune(std::vector<TuneSetting> settings, TuneTarget& target,
                        const TuneOptions& options,
                        const std::function<void(const TuneResult&)>& observe = {});

}  // namespace infer::bench
