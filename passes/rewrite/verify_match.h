#pragma once
/// Proof of one match alone: the values that it sees in a real run go through both sides.
#include <deque>
#include <unordered_set>

#include "lib/ir/eval.h"
#include "passes/rewrite/driver.h"

namespace infer {

/// max|d| / max|ref| of a float output; for other types 0 when equal, infinity when not.
/// InvalidModel when the types differ. NaNs must stand at the same places.
Result<double> RelativeError(const Datum& reference, const Datum& candidate);

/// Random values of the declared types: normal floats, integers in [0, 3), coins for bools. Symbols
/// become `symbol_value`, unknown dimensions too. Unsupported for unknown rank or no tensor.
Result<std::vector<Datum>> RandomInputs(const Graph& g, uint64_t seed, int64_t symbol_value = 3);

/// The values of a graph in one run, by name.
using ValuesByName = std::unordered_map<std::string, Datum>;
using ValueNames = std::unordered_set<std::string>;
/// Runs a graph on inputs in its order: what its inputs, its outputs and `wanted` values were;
/// nullptr: all but constants.
using RunValues = std::function<Result<ValuesByName>(const Graph& g, std::span<const Datum> inputs,
                                                     const ValueNames* wanted)>;
/// On reference kernels.
Result<ValuesByName> ReferenceValues(const Graph& g, std::span<const Datum> inputs,
                                     const ValueNames* wanted);

/// The values of a graph in some runs, by name: a value that takes the place of another takes
/// over its name, and stands for the same thing.
class CapturedValues {
 public:
  /// `samples`: the inputs of each run, in graph order. `outputs` (if given) receives the results
  /// of the last run. `wanted`: as for RunValues.
  static Result<CapturedValues> Capture(const Graph& g, std::span<const std::vector<Datum>> samples,
                                        std::vector<Datum>* outputs = nullptr,
                                        const RunValues& run = ReferenceValues,
                                        const ValueNames* wanted = nullptr);
  size_t num_samples() const { return samples_.size(); }
  /// nullptr when it is not known.
  const Datum* Find(const std::string& name, size_t sample) const;
  /// A value that was not captured but computed from those that were.
  void SetMade(const std::string& name, size_t sample, Datum value) {
    samples_[sample][name] = std::move(value);
    made_.insert(name);
  }
  bool IsMade(const std::string& name) const { return made_.contains(name); }
  /// The name now stands for something else, or for nothing.
  void Drop(const std::string& name);

 private:
  std::vector<ValuesByName> samples_;
  ValueNames made_;
};

/// The worst RelativeError of the patch's results, against what was captured of them; where an
/// operand was computed and not captured, against what the match gives for it. Values that are
/// missing are computed from those that are there. Unsupported when that is not possible. `made`
/// (if given) receives the values of the patch, by sample.
Result<double> VerifyMatch(const Match& match, const Patch& patch, CapturedValues& values,
                           const RunValues& run = ReferenceValues,
                           std::vector<ValuesByName>* made = nullptr);

/// Lets every match pass, and notes the values that it begins and ends at.
class BoundaryRecorder : public MatchReviewer {
 public:
  Status Review(const Candidate& c, MatchRecord& record) override;
  const ValueNames& names() const { return names_; }

 private:
  ValueNames names_;
};

/// What a node may deviate: OpDef::tolerance, wider for 16-bit results.
double ToleranceOf(const Node& n);
/// What the operators on both sides may deviate together.
double ToleranceOf(const Match& m, const Patch& p);

/// Refuses matches that are outside their tolerance on captured values. The values that a patch
/// brings in are captured with it; dead ones are let go.
class VerifyingReviewer : public MatchReviewer {
 public:
  explicit VerifyingReviewer(CapturedValues values, RunValues run = ReferenceValues)
      : values_(std::move(values)), run_(std::move(run)) {}
  Status Review(const Candidate& c, MatchRecord& record) override;
  void OnAdded(const Node& node) override;
  void OnErasing(const Node& node) override;
  int64_t verified() const { return verified_; }
  int64_t not_evaluated() const { return not_evaluated_; }  ///< in subgraphs, or no kernel
  double seconds() const { return seconds_; }
  const CapturedValues& values() const { return values_; }

 private:
  void Expect(const Patch& patch);

  CapturedValues values_;
  RunValues run_;
  // Of the patch that was reviewed last: its values by sample, the names there of what its nodes,
  // as far as they are not in the graph yet, make for each other, and the names that it takes over.
  std::vector<ValuesByName> made_;
  std::deque<std::vector<std::string>> to_come_;
  std::unordered_set<std::string> taken_over_;
  int64_t verified_ = 0, not_evaluated_ = 0;
  double seconds_ = 0;
};

}  // namespace infer
