#pragma once
/// Compiled models behind the engine of runtime/engine as something to load: queues, batches,
/// priorities, and a route where they are several.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "lib/support/random.h"
#include "runtime/engine/anomaly.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/faults.h"
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/infer_bench/load/arrivals.h"
#include "tools/infer_bench/load/engine.h"
#include "tools/infer_bench/load/recommendations.h"

namespace infer::bench {

struct ServeOptions {
  bool engine = false;
  int64_t max_batch = 1;
  double batch_delay_ms = 0;
  bool adapt_batch = false;
  std::vector<std::string> pad_to = {};      ///< extents of buckets; empty: nothing is padded
  std::string pad_axis = {};                 ///< the extent that is padded; "": the first proved
  std::vector<std::string> priorities = {};  ///< shares of high, normal, low; empty: all normal
  std::string route = {};                    ///< file of a policy; "": one model
  std::vector<std::string> also = {};        ///< files of further models, beside the first
  std::vector<std::string> shares = {};      ///< of queries, by model; empty: alike
  int64_t keys = 0;                          ///< that requests have, drawn evenly; 0: none
  double deadline_ms = 0;                    ///< of a request; 0: none
  double model_memory_mib = 0;               ///< that a model may have; 0: any
  std::string placement = "anywhere";        ///< of instances: "nodes", "cores"
  std::vector<std::string> faults = {};      ///< planned, as ParseFaults takes them
  std::string save_arrivals = {};            ///< file that gets what came; "": none
  std::string trace_requests = {};           ///< file that gets their phases; "": none
  std::shared_ptr<const ArrivalTrace> replay = {};  ///< not declared: of queries by their number
  int most_instances = 1;                           ///< not declared: cores over threads of a run
  void Declare(Options& options);
  /// InvalidArgument: settings that contradict each other.
  Result<std::array<double, engine::kPriorities>> Shares() const;
  Result<engine::Buckets> Buckets() const;
  /// Of queries, the first model's in front; they sum to 1. Empty: there is one model.
  Result<std::vector<double>> ModelShares() const;
};

/// One of several models that have nothing to do with each other.
struct MixedModel {
  double share = 1;  ///< of the queries
  std::vector<Datum> inputs = {};
  int64_t batch = 1;  ///< samples of a request
};

/// The one model of an engine, the variants of its route, or several models beside each other.
struct ServedVariants {
  std::vector<std::string> names = {};
  std::vector<engine::ModelSource> sources = {};  ///< as `names`
  std::optional<engine::RoutePolicy> route = {};  ///< of models with these names
  std::vector<MixedModel> mix = {};  ///< as `names`, where they are models beside each other
};

class ServedModel : public Engine {
 public:
  /// Every instance has run once when this returns. A request has `batch` samples; a query of more
  /// is several requests. `stop` cancels them. With planned faults a query that fails or is
  /// rejected counts as answered. Of a mix, `inputs` and `batch` are those of its models, each
  /// query goes to one of them, and one whose requests may not share runs has runs of one.
  static Result<std::unique_ptr<ServedModel>> Make(ServedVariants variants,
                                                   std::vector<Datum> inputs, int64_t batch,
                                                   int instances, const ServeOptions& options,
                                                   uint64_t seed, const std::stop_token& stop);
  ~ServedModel() override;
  int lanes() const override { return instances_; }
  double NowMs() override;
  void Submit(int64_t id, int64_t samples) override;
  std::vector<Done> Wait(double until_ms) override;
  bool FollowAnswers(const NextFn& next, int64_t samples) override;
  void Abandon() override;

  /// For recommendations.
  void SetPredicted(std::vector<engine::Predicted> predicted) { predicted_ = std::move(predicted); }
  /// What came before counts in no statistics. Planned faults begin.
  Status BeginMeasuring();
  /// {"instances", "max_batch", ..., "phases_ms", "priorities", "route"}; counts are of all models.
  Json StatsJson() const;
  std::string StatsTable() const;
  /// Requests since BeginMeasuring, the first kMostArrivals of them; where --save-arrivals asks.
  ArrivalTrace Recorded() const;
  /// Writes what --save-arrivals and --trace-requests ask for.
  Status WriteFiles(Context& context) const;

 private:
  struct Query {
    int64_t open = 0;  // requests that have not ended
    size_t model = 0;  // of a mix
    Done done;
  };
  /// What was unusual of one variant.
  struct Seen {
    size_t variant = 0;
    double at_s = 0;  ///< since measuring began
    engine::Anomaly anomaly;
  };
  struct OfPriority {
    double share = 0;
    engine::Histogram total_ns;
  };
  ServedModel(ServedVariants variants, std::vector<Datum> inputs, int64_t batch, int instances,
              ServeOptions options, uint64_t seed)
      : variants_(std::move(variants)),
        inputs_(std::move(inputs)),
        batch_(batch),
        instances_(instances),
        options_(std::move(options)),
        random_(seed) {}
  Status Load(const std::string& name);
  std::string ModelName(const std::string& name, size_t variant) const;
  engine::Priority Draw();
  size_t DrawModel();
  const std::vector<Datum>& InputsOf(size_t model) const;
  int64_t BatchOf(size_t model) const;
  engine::Request NextRequest(int64_t query, size_t model);
  void Record(const engine::Request& request);
  /// The requests of a query, counted as open. `mutex_` is held.
  struct Requests {
    std::shared_ptr<Query> query;
    std::vector<engine::Request> requests = {};
  };
  Requests Begin(int64_t id, int64_t samples);
  void HandOver(Requests begun);
  void Ended(const std::shared_ptr<Query>& query, double submitted_ms, engine::Priority priority,
             engine::Outcome outcome);
  void Watch();
  engine::ModelStats Stats() const;
  std::vector<engine::MatrixCell> Matrix() const;
  std::optional<engine::RouteStats> StatsOfRoute() const;
  engine::BatchRules Rules(size_t model) const;
  int64_t MemoryBytes() const;  ///< that a model may have
  double AnsweredPerS(const engine::ModelStats& s) const;
  std::vector<engine::ModelStats> StatsOfMix() const;
  Json MixJson() const;
  std::string MixTable() const;
  /// Of each variant, and of the route in the first one's place.
  std::vector<AdvisedModel> Advise() const;

  ServedVariants variants_;
  std::vector<Datum> inputs_;
  int64_t batch_;
  int instances_;
  ServeOptions options_;
  engine::Buckets buckets_;
  Random random_;
  std::string name_;
  std::array<OfPriority, engine::kPriorities> by_priority_;
  std::vector<engine::AnomalyWatch> watches_;  // of the variants
  std::vector<Seen> seen_;
  std::vector<engine::Predicted> predicted_;
  int64_t began_ns_ = 0, watched_slot_ = 0;
  bool measuring_ = false;
  std::shared_ptr<engine::RequestLog> log_;  // nullptr: nobody asks for it
  std::shared_ptr<const engine::Clock> clock_ = engine::SteadyClock();
  std::stop_source cancel_;
  std::optional<std::stop_callback<engine::Task>> on_stop_;
  std::shared_ptr<engine::FaultInjector> faults_;  // nullptr: none are planned

  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::vector<Arrival> recorded_;
  std::vector<Done> done_;
  NextFn next_;  // of a closed loop whose answers are followed
  int64_t next_samples_ = 0;
  int64_t open_ = 0;                        // requests that have not ended
  int64_t last_end_ns_ = 0;                 // when the last request ended
  std::unique_ptr<engine::Engine> engine_;  // last: its callbacks use all the others
};

}  // namespace infer::bench
