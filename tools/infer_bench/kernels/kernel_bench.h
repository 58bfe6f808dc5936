#pragma once
/// The kernels of a registry on the steps of models: every step is taken as its program runs it,
/// on the values that it sees there, checked against the reference kernels, and, once for equal
/// steps, timed.
#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "tools/infer_bench/kernels/step_check.h"
#include "tools/infer_bench/kernels/timer.h"

namespace infer::bench {

struct KernelBenchOptions {
  TimerOptions timer;
  std::string filter = "*";   ///< glob over names, without a "#2"
  bool list = false;          ///< nothing is run
  bool alternatives = false;  ///< kernels that accept a step and are not chosen, too
  int threads = 0;
  int level = 2;
  std::stop_token stop = {};           ///< looked at before every step
  std::function<void()> on_case = {};  ///< after each that is new
};

/// Steps that are equal: operators, attributes, types, extents, layouts, small integer constants,
/// kernel and lanes.
struct KernelCase {
  std::string name;        ///< "Conv+Relu/own:winograd4x4/1x64x56x56,64x64x3x3,64->1x64x56x56"
  std::string kernel, op;  ///< in the registry, the operator with its domain
  std::string operators;   ///< "Conv+Relu"
  std::string implementation, precision;
  bool chosen = true;
  int lanes = 1;
  std::vector<std::string> operands, results;  ///< "f32[1,64,56,56] aBcd16b"
  std::map<std::string, int64_t> uses;         ///< steps, by model
  Cost cost;
  int64_t constant_bytes = 0;
  StepCheck check;       ///< the worst of all uses
  std::string wrong_in;  ///< the model and node where it is wrong
  bool is_view = false;  ///< nothing runs
  std::optional<KernelTime> time;
  int64_t all_uses() const;
};

/// An entry of the registry.
struct KernelEntry {
  std::string op;      ///< with its domain; "any": of a kind (a trait), not by name
  std::string kernel;  ///< its name
  auto operator<=>(const KernelEntry&) const = default;
};

/// What was taken from one model.
struct KernelSource {
  std::string name;
  int64_t steps = 0;                         ///< that a run executes
  int64_t with_kernel = 0;                   ///< of them
  std::map<std::string, int64_t> reference;  ///< others, by operator
};

class KernelBench {
 public:
  KernelBench(KernelList kernels, const KernelBenchOptions& options)
      : kernels_(std::move(kernels)), options_(options), timer_(options.timer) {}

  /// Runs the model, step by step. Once a stop (of the timer) is requested it returns early,
  /// without a failure.
  Status Add(const std::string& source, Graph graph, const std::vector<Datum>& inputs);

  const std::vector<KernelCase>& cases() const { return cases_; }
  const std::vector<KernelSource>& sources() const { return sources_; }
  /// Entries of the registry in its order, each once.
  std::vector<KernelEntry> Entries() const;
  /// Those that a step of some model was given to (with `alternatives`: that took one).
  const std::set<KernelEntry>& covered() const { return covered_; }
  /// Google Benchmark's JSON of the cases with a time, with "uses" as a counter.
  std::string Gbench() const;

 private:
  class Walk;
  Status AddStep(Walk& walk, size_t step, KernelSource& facts);
  /// The kernel on the operands, checked against `want` and, where the case is new, timed.
  Status Measure(const Walk& walk, const StepKernel& kernel, std::span<const Tensor> operands,
                 std::span<const Tensor> want);
  /// Counts a use. nullptr: the filter does not want it.
  KernelCase* CaseOf(const Walk& walk, const StepKernel& kernel);
  static KernelEntry EntryOf(const KernelDef& kernel);

  KernelList kernels_;
  KernelBenchOptions options_;
  KernelTimer timer_;
  std::vector<KernelCase> cases_;
  std::map<std::string, size_t> by_key_;
  std::map<std::string, int> by_name_;  // how many have it, but for a "#2"
  std::vector<KernelSource> sources_;
  std::set<KernelEntry> covered_;
};

}  // namespace infer::bench
