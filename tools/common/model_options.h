#pragma once
/// What every command that takes a model shares: reading it, setting its shapes, choosing a device.
#include <memory>
#include <string>
#include <vector>

#include "lib/onnx/import.h"
#include "lib/onnx/model.h"
#include "runtime/api/program.h"
#include "runtime/devices/devices.h"
#include "tools/common/command.h"
#include "tools/common/open_extents.h"

namespace infer {

struct ModelOptions {
  std::vector<std::string> set;    ///< --set N=1: a symbolic dimension
  std::vector<std::string> shape;  ///< --shape input=1x3x224x224
  std::string external_root;
  bool freeze = true;  ///< whether LoadModel applies --set and --shape
  bool lenient = false;
  void Declare(Options& options);
  /// For commands that write the model: --set and --shape say what it is checked and measured with,
  /// and stand in the file only where --freeze asks for it.
  void DeclareForWriter(Options& options);
};

/// Imports `path` ("-": standard input) and, where options.freeze is set, applies --set and
/// --shape. Results are re-inferred.
Result<Model> LoadModel(Context& context, const std::string& path, const ModelOptions& options);
/// Applies --set and --shape to a graph.
Status ApplyShapes(Graph& g, const ModelOptions& options);
/// A copy with them; a plain copy where LoadModel has applied them already.
Result<Graph> WithShapes(const Graph& g, const ModelOptions& options);

/// A copy in which open dimensions of inputs have extents that inference accepts, for costs; the
/// graph as it is when none were found. `extents` (if given) receives them.
Graph WithFoundExtents(const Graph& g, OpenExtents* extents = nullptr);

struct DeviceOptions {
  std::string device = "cpu";
  int threads = 0;
  bool pin = false;  ///< done before the command runs (tools/common/pinning.h)
  int level = 2;
  std::string compute = "f32";  ///< Compute by its name
  std::string memory = "fast";  ///< or "low"
  bool tune = false;
  std::string tune_cache;
  /// --compute, beside one of the below, for commands that run models to be judged or timed.
  void DeclareCompute(Options& options);
  /// --memory, for commands whose memory is looked at.
  void DeclareMemory(Options& options);
  Compute computes() const { return ComputeOf(compute).value_or(Compute::kF32); }
  /// Of the model that others are judged by: in f32.
  DeviceOptions InF32() const;
  void Declare(Options& options);
  /// All but --threads, for commands that take several.
  void DeclareWithoutThreads(Options& options);
};
/// --device
void DeclareDevice(Options& options, std::string* device, const std::string& help);
/// Tells how the device computes in what --compute asks for, where that is not as expected.
/// Unsupported: it does not.
Status TellCompute(Context& context, const DeviceOptions& options);
/// Sets the lane budget from --threads, makes the backend and compiles. `observe` sees every step.
Result<std::shared_ptr<const Program>> CompileFor(const Graph& g, const DeviceOptions& options,
                                                  PlanObserver observe = {});
/// The same, of a graph that nobody else needs (Backend::CompileOwned).
Result<std::shared_ptr<const Program>> CompileOwnedFor(Graph g, const DeviceOptions& options);
/// The same, of a graph that is asked for its types afterwards: large constants lose their
/// elements, which the program has in forms of its own.
Result<std::shared_ptr<const Program>> CompileTakingWeights(Graph& g, const DeviceOptions& options);

}  // namespace infer
