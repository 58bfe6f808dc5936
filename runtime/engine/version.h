#pragma once
/// One version of a model as the engine holds it: contexts over one program, and its queue.
#include <memory>
#include <span>
#include <vector>

#include "runtime/api/program.h"
#include "runtime/engine/batch_axes.h"
#include "runtime/engine/queue.h"

namespace infer::engine {

/// What a model is run by.
struct ModelSource {
  std::shared_ptr<const Program> program;
  BatchAxes axes = {};  ///< of the graph that the program was compiled from
};

/// ProveBatchAxes, then Compile.
Result<ModelSource> CompileSource(const Backend& backend, Graph graph,
                                  const CompileOptions& options);

struct ModelOptions {
  int instances = 1;  ///< contexts: runs of the model that go on at once
  QueueLimits queue = {};
  /// With max_rows > 1 the source's batch axes must be proved; Load refuses else.
  BatchRules batch = {};
  /// Run once in every instance before the version takes requests: alone, and stacked to max_rows.
  /// Empty: not run, so the first requests pay for planning their shapes.
  std::vector<Datum> warm_inputs = {};
};

/// What the request's inputs are to the version.
struct Fit {
  Status status;
  int64_t bytes = 0, rows = 1;
  ShapeKey shape;
};

class Version {
 public:
  /// Contexts are made and warmed on the calling thread.
  static Result<std::shared_ptr<Version>> Make(std::string model, int64_t number,
                                               ModelSource source, ModelOptions options);
  const std::string& model() const { return model_; }
  int64_t number() const { return number_; }
  const ModelOptions& options() const { return options_; }
  const BatchAxes& axes() const { return source_.axes; }
  const Program& program() const { return *source_.program; }
  const std::shared_ptr<const Program>& shared_program() const { return source_.program; }
  bool batches() const { return options_.batch.max_rows > 1; }

  /// Number, types and extents of inputs against the model's.
  Fit FitOf(const std::vector<Datum>& inputs) const;

  // The rest is guarded by the engine's mutex.
  RequestQueue queue;
  std::vector<std::unique_ptr<RunContext>> idle;
  int64_t running_requests = 0;
  int running = 0;          // instances in runs
  int64_t run_ns = 0;       // what a run takes: a moving mean, each new one counts an eighth
  bool superseded = false;  // takes no more requests
  bool aside = false;       // its runs are nobody's to wait for
  bool ran = false;         // or was warmed
  void Ran(int64_t ns) { run_ns += run_ns == 0 ? ns : (ns - run_ns) / 8; }

 private:
  Version(std::string model, int64_t number, ModelSource source, ModelOptions options)
      : queue(options.queue),
        model_(std::move(model)),
        number_(number),
        source_(std::move(source)),
        options_(std::move(options)) {}
  Status Warm(RunContext& context) const;

  std::string model_;
  int64_t number_;
  ModelSource source_;
  ModelOptions options_;
};

/// Binds the inputs of requests, side by side where they are several. What is bound borrows the
/// requests' memory: they must outlive the run.
Status BindStacked(const Version& version, RunContext& context,
                   std::span<const std::vector<Datum>* const> requests);

/// Outputs of each request, in memory of their own. Failed where an output has not the extents that
/// the batch axes promise.
Result<std::vector<std::vector<Datum>>> SplitOutputs(const Version& version,
                                                     const RunContext& context,
                                                     std::span<const int64_t> rows);

}  // namespace infer::engine
