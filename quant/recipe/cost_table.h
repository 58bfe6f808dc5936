#pragma once
/// What a model takes by a stored table: how a recipe weighs layers in FP32 against INT8 without
/// measuring, so that what it chooses does not depend on what else the machine does.
///
/// The time of a step is a launch, its operations and the bytes that it moves, each times a price
/// of its family (kind of operator, numbers, algorithm). Operations and bytes are counted from the
/// program as it is compiled for the shapes that run, so the QuantizeLinear and DequantizeLinear
/// that stay around a layer and the fusions that they break are in it. Copies into other layouts
/// are not counted by themselves: the prices hold what they took on average. The built-in prices
/// are of one thread of an x64, with AVX-512 VNNI or without; tools/infer_opt/recipe_costs.py fits
/// others.
///
/// A table may be of ONNX Runtime's kernels instead, for files that ONNX Runtime reads: then the
/// steps are those that it launches (quant/target/ort_steps.h), foretold from the graph.
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "quant/target/ort_steps.h"
#include "runtime/api/program.h"

namespace infer {

/// In microseconds: of a launch, of a million operations (Cost::flops), of 1,000 bytes moved.
struct StepPrice {
  double launch_us = 0, mflop_us = 0, kb_us = 0;
};

/// The runtime whose kernels a table has prices of.
enum class CostsOf : uint8_t { kOurs, kOnnxRuntime };

struct CostTable {
  std::string name;
  std::map<std::string, StepPrice, std::less<>> prices;  ///< by family, every one of CostFamilies
  CostsOf runtime = CostsOf::kOurs;
  /// A model in INT8 counts as faster where it is told to take at most this share of FP32's time:
  /// what the table errs by. 0 < sure <= 1.
  double sure = 1;
  /// Of our kernels, on processors with AVX-512 VNNI, or on those without.
  static CostTable Stored(bool vnni);
  /// The one of this processor and INFER_MAX_ISA.
  static const CostTable& BuiltIn();
  /// Of ONNX Runtime's kernels: the same on every machine, since the file is for another one.
  static const CostTable& OfOnnxRuntime();
};

/// The families: those that FamilyOf gives, or OrtFamilies().
std::span<const std::string_view> CostFamilies(CostsOf runtime = CostsOf::kOurs);
/// "" for a view, which costs nothing. `kernel`: the one that runs.
std::string_view FamilyOf(const StepInfo& step, std::string_view kernel);

/// A model: what a run takes by a table, and what its file will about hold.
struct ModelCost {
  double us = 0;
  int64_t bytes = 0;
  /// A run by a second table, of ONNX Runtime's kernels, where the file is for nobody in
  /// particular; else 0.
  double elsewhere_us = 0;
};
/// Of the last run's shapes. Pre: `run` has run, and is of `program`.
double RunMicroseconds(const Program& program, const RunContext& run, const CostTable& table);
/// Who reads the file, which rewrites it further before it runs.
struct FileReader {
  const Target* target = nullptr;  ///< an ONNX Runtime; nullptr: the newest of Targets()
  int64_t opset = 0;               ///< of the file; 0: as the target likes it
};
/// The same by a table of ONNX Runtime, of `g` as it will be written, for inputs like `inputs`
/// (graph order); nothing is run. Errors of SpecializeInputs.
Result<double> OrtMicroseconds(const Graph& g, std::span<const Datum> inputs,
                               const FileReader& reader, const CostTable& table);
/// Constants, and what names, types and attributes of nodes take in an ONNX file: an estimate.
int64_t EstimatedFileBytes(const Graph& g);

/// Work done, in seconds by a table: a clock that is as fast on a busy machine as on an idle one.
class WorkClock {
 public:
  explicit WorkClock(double limit_seconds) : limit_(limit_seconds) {}
  void Spend(double seconds) { spent_ += seconds; }
  double seconds() const { return spent_; }
  bool IsOver() const { return spent_ > limit_; }

 private:
  double limit_, spent_ = 0;
};
/// What compiling `program` took, in seconds by the same clock: kernels are generated, constants
/// packed.
double CompileSeconds(const Program& program);

}  // namespace infer
