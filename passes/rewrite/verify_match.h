#pragma once
/// Proof of one match alone: the values that it sees in a real run go through both sides.
#include "lib/ir/eval.h"
#include "passes/rewrite/driver.h"

namespace infer {

/// max|d| / max|ref| of a float output; for other types 0 when equal, infinity when not.
/// InvalidModel when the types differ. NaNs must stand at the same places.
Result<double> RelativeError(const Datum& reference, const Datum& candidate);

/// Random values of the declared types: normal floats, integers in [0, 3), coins for bools. Symbols
/// become `symbol_value`, unknown dimensions too. Unsupported for unknown rank or no tensor.
Result<std::vector<Datum>> RandomInputs(const Graph& g, uint64_t seed, int64_t symbol_value = 3);

/// What every value of a graph was in some runs on reference kernels, by name: a value that takes
/// the place of another takes over its name, and stands for the same thing.
class CapturedValues {
 public:
  /// `samples`: the inputs of each run, in graph order. `outputs` (if given) receives the results
  /// of the last run.
  static Result<CapturedValues> Capture(const Graph& g, std::span<const std::vector<Datum>> samples,
                                        std::vector<Datum>* outputs = nullptr);
  size_t num_samples() const { return samples_.size(); }
  /// nullptr when it is not known.
  const Datum* Find(const std::string& name, size_t sample) const;
  /// The name now stands for something else.
  void Drop(const std::string& name);

 private:
  std::vector<std::unordered_map<std::string, Datum>> samples_;
};

/// The worst RelativeError of the patch's results. Values that were not captured are evaluated from
/// those that were. Unsupported when that is not possible.
Result<double> VerifyMatch(const Patch& patch, const CapturedValues& values);
/// What a node may deviate: OpDef::tolerance, wider for 16-bit results.
double ToleranceOf(const Node& n);
/// What the operators on both sides may deviate together.
double ToleranceOf(const Match& m, const Patch& p);

/// Refuses matches that are outside their tolerance on captured values.
class VerifyingReviewer : public MatchReviewer {
 public:
  explicit VerifyingReviewer(CapturedValues values) : values_(std::move(values)) {}
  Status Review(const Candidate& c, MatchRecord& record) override;
  void OnAdded(const Node& node) override {
    for (const Value* v : node.outputs())
      if (v) values_.Drop(v->name());
  }
  int64_t verified() const { return verified_; }
  int64_t not_evaluated() const { return not_evaluated_; }  ///< in subgraphs, or no kernel
  double seconds() const { return seconds_; }

 private:
  CapturedValues values_;
  int64_t verified_ = 0, not_evaluated_ = 0;
  double seconds_ = 0;
};

}  // namespace infer
