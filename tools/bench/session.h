#pragma once
/// A model made ready to run: loaded, compiled, its inputs bound, each stage timed.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/common/input_values.h"
#include "tools/common/model_options.h"
#include "tools/common/report.h"

namespace infer::bench {

struct SessionOptions {
  ModelOptions model;
  DeviceOptions device;
  InputOptions inputs;
  /// "as-is", or one of PrecisionNames: what is made of the graph before it is compiled.
  std::string precision = "as-is";
  int64_t batch = 0;  ///< > 0: of the leading dimension of the inputs
  /// Is shown the graph as it is compiled.
  std::function<void(const Graph&)> observe = {};
  void Declare(Options& options);  ///< of the first three
};

struct Session {
  std::string path;
  Json model;  ///< as in reports, with its SHA-256
  ModelInputs inputs;
  int64_t batch = 1;  ///< samples per run: the leading extent of the first input
  std::shared_ptr<const Program> program;
  std::unique_ptr<RunContext> run;
  double load_ms = 0, convert_ms = 0, inputs_ms = 0, compile_ms = 0;
  int64_t compiled_resident_bytes = 0;  ///< resident set after compiling
};

/// Gives the leading dimension that the first input leaves open this extent, wherever it stands.
/// InvalidArgument: there is none, or it is fixed to another.
Status SetBatch(Graph& g, int64_t batch);

/// Loads, converts, compiles and binds; sets the lane budget from --threads.
/// InvalidArgument: the batch or the precision does not fit the model.
Result<Session> OpenSession(Context& context, const std::string& path,
                            const SessionOptions& options);

}  // namespace infer::bench
