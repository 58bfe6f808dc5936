#pragma once
/// A compiled model behind the engine of runtime/engine as something to load: its queue, batches
/// and priorities.
#include <condition_variable>
#include <memory>
#include <mutex>

#include "lib/support/random.h"
#include "runtime/engine/engine.h"
#include "tools/common/options.h"
#include "tools/common/report.h"
#include "tools/infer_bench/load/engine.h"

namespace infer::bench {

struct ServeOptions {
  bool engine = false;
  int64_t max_batch = 1;
  double batch_delay_ms = 0;
  std::vector<std::string> priorities;  ///< shares of high, normal, low; empty: all normal
  void Declare(Options& options);
  /// InvalidArgument: settings that contradict each other.
  Result<std::array<double, engine::kPriorities>> Shares() const;
};

class ServedModel : public Engine {
 public:
  /// Every instance has run once when this returns. A request has `batch` samples; a query of more
  /// is several requests. `stop` cancels them.
  static Result<std::unique_ptr<ServedModel>> Make(engine::ModelSource source,
                                                   std::vector<Datum> inputs, int64_t batch,
                                                   int instances, const ServeOptions& options,
                                                   uint64_t seed, const std::stop_token& stop);
  ~ServedModel() override;
  int lanes() const override { return instances_; }
  double NowMs() override;
  void Submit(int64_t id, int64_t samples) override;
  std::vector<Done> Wait(double until_ms) override;
  void Abandon() override;

  /// What came before counts in no statistics.
  Status BeginMeasuring();
  /// {"instances", "max_batch", ..., "phases_ms", "priorities"}.
  Json StatsJson() const;
  std::string StatsTable() const;

 private:
  struct Query {
    int64_t open = 0;  // requests that have not ended
    Done done;
  };
  struct OfPriority {
    double share = 0;
    engine::Histogram total_ns;
  };
  ServedModel(engine::ModelSource source, std::vector<Datum> inputs, int64_t batch, int instances,
              ServeOptions options, uint64_t seed)
      : source_(std::move(source)),
        inputs_(std::move(inputs)),
        batch_(batch),
        instances_(instances),
        options_(std::move(options)),
        random_(seed) {}
  Status Load(const std::string& name);
  engine::Priority Draw();
  void Ended(const std::shared_ptr<Query>& query, double submitted_ms, engine::Priority priority,
             engine::Outcome outcome);
  engine::ModelStats Stats() const;

  engine::ModelSource source_;
  std::vector<Datum> inputs_;
  int64_t batch_;
  int instances_;
  ServeOptions options_;
  Random random_;
  std::string name_;
  std::array<OfPriority, engine::kPriorities> by_priority_;
  std::shared_ptr<const engine::Clock> clock_ = engine::SteadyClock();
  std::stop_source cancel_;
  std::optional<std::stop_callback<engine::Task>> on_stop_;

  std::mutex mutex_;
  std::condition_variable answered_;
  std::vector<Done> done_;
  int64_t open_ = 0;                        // requests that have not ended
  std::unique_ptr<engine::Engine> engine_;  // last: its callbacks use all the others
};

}  // namespace infer::bench
