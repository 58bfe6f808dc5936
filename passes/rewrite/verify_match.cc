#include "passes/rewrite/verify_match.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "passes/rewrite/region.h"

namespace infer {
namespace {

/// max|a - b| / max|a|; nullopt where a difference is no finite number.
template <typename T>
std::optional<double> FiniteError(std::span<const T> a, std::span<const T> b) {
  double difference = 0, scale = 0;
  bool finite = true;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), d = std::abs(x - static_cast<double>(b[i]));
    finite &= d <= std::numeric_limits<double>::max();
    difference = std::max(difference, d);
    scale = std::max(scale, std::abs(x));
  }
  if (!finite) return std::nullopt;
  return scale == 0 ? difference : difference / scale;
}

Result<double> TensorError(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims())
    return InvalidModel(Cat(ToString(TensorType(b.type())), " instead of ", ToString(a.type())));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!IsFloat(a.dtype())) return BitEqual(a, b) ? 0 : kInfinity;
  if (a.dtype() == DType::kF32)
    if (const auto error = FiniteError(a.data<float>(), b.data<float>())) return *error;
  double difference = 0, scale = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.At(i), y = b.At(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
      continue;
    }
    if (!std::isfinite(x) || !std::isfinite(y)) return kInfinity;
    scale = std::max(scale, std::abs(x));
    difference = std::max(difference, std::abs(x - y));
  }
  return difference == 0 ? 0 : scale == 0 ? difference : difference / scale;
}

}  // namespace

Result<double> RelativeError(const Datum& reference, const Datum& candidate) {
  if (reference.is_tensor() && candidate.is_tensor())
    return TensorError(reference.tensor(), candidate.tensor());
  if (reference.is_sequence() && candidate.is_sequence() &&
      reference.sequence().size() == candidate.sequence().size()) {
    double worst = 0;
    for (size_t i = 0; i < reference.sequence().size(); ++i) {
      INFER_ASSIGN(const double e, RelativeError(reference.sequence()[i], candidate.sequence()[i]));
      worst = std::max(worst, e);
    }
    return worst;
  }
  if (reference.is_optional() && candidate.is_optional()) {
    const auto &a = reference.optional().value, &b = candidate.optional().value;
    if (a && b) return RelativeError(*a, *b);
    if (!a && !b) return 0.0;
  }
  if (reference.is_map() && candidate.is_map()) {
    INFER_ASSIGN(const double keys, TensorError(reference.map().keys, candidate.map().keys));
    INFER_ASSIGN(const double values,
                 RelativeError(*reference.map().values, *candidate.map().values));
    return std::max(keys, values);
  }
  return InvalidModel("values of different kinds");
}

Result<std::vector<Datum>> RandomInputs(const Graph& g, uint64_t seed, int64_t symbol_value) {
  Random random(seed);
  std::vector<Datum> inputs;
  for (const Value* v : g.inputs()) {
    if (!v->type().is_tensor() || !v->shape().has_rank() || v->dtype() == DType::kString)
      return Unsupported(Cat("no random value for input '", v->name(), "' of type ",
                             ToString(v->type()), "; give real data"));
    Dims dims;
    for (const Dim& d : v->shape().dims()) dims.push_back(d.is_static() ? d.value() : symbol_value);
    Tensor t(v->dtype(), dims);
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      if (IsFloat(t.dtype()))
        t.Set(i, random.Normal());
      else
        t.SetInt(i, random.Below(t.dtype() == DType::kBool ? 2 : 3));
    }
    inputs.emplace_back(std::move(t));
  }
  return inputs;
}

Result<ValuesByName> ReferenceValues(const Graph& g, std::span<const Datum> inputs,
                                     const ValueNames* wanted) {
  ValuesByName values;
  EvalOptions options;
  options.tap = [&](const Value& v, const Datum& d) {
    if (!wanted || v.is_input() || v.is_output() || wanted->contains(v.name()))
      values[v.name()] = d;
  };
  INFER_TRY(Evaluate(g, inputs, options).status());
  return values;
}

namespace {

/// Of a graph's results in a run in which its values were these.
Result<Datum> ResultIn(const ValuesByName& values, const Value& output) {
  if (output.is_constant()) return Datum(*output.constant());
  const auto it = values.find(output.name());
  if (it == values.end()) return Internal(Cat("'", output.name(), "' was not made"));
  return it->second;
}

/// One sample's side of a check.
class SampleCheck {
 public:
  SampleCheck(CapturedValues& values, size_t sample, const RunValues& run)
      : values_(values), sample_(sample), run_(run) {}

  /// Captures those of `wanted` that are not yet, from those that are.
  Status Complete(const OpRegistry& ops, std::vector<const Value*> wanted) {
    std::erase_if(wanted, [this](const Value* v) { return IsKnown(*v); });
    if (wanted.empty()) return {};
    INFER_ASSIGN(const Region missing,
                 RegionBetween(ops, wanted, [this](const Value& v) { return IsKnown(v); }));
    INFER_ASSIGN(ValuesByName made, Run(missing));
    for (const Value* v : wanted) {
      INFER_ASSIGN(Datum d, ResultIn(made, *v));
      values_.SetMade(v->name(), sample_, std::move(d));
    }
    return {};
  }

  /// Pre: complete. The results that `nodes` give on captured values.
  Result<ValuesByName> RunNodes(const OpRegistry& ops, std::span<Node* const> nodes,
                                const std::vector<Value*>& results) {
    const std::unordered_set<const Node*> inside(nodes.begin(), nodes.end());
    const std::vector<const Value*> targets(results.begin(), results.end());
    INFER_ASSIGN(const Region region, RegionBetween(ops, targets, [&](const Value& v) {
                   return !inside.contains(v.producer());
                 }));
    INFER_TRY(Complete(ops, region.inputs));
    return Run(region);
  }

  bool IsKnown(const Value& v) const {
    return v.is_constant() || values_.Find(v.name(), sample_) != nullptr;
  }
  Result<Datum> Get(const Value& v) const {
    if (v.is_constant()) return Datum(*v.constant());
    return *values_.Find(v.name(), sample_);
  }

 private:
  Result<ValuesByName> Run(const Region& region) const {
    std::vector<Datum> inputs;
    for (const Value* v : region.inputs) inputs.push_back(*values_.Find(v->name(), sample_));
    static const ValueNames none;
    return run_(region.graph, inputs, &none);
  }

  CapturedValues& values_;
  const size_t sample_;
  const RunValues& run_;
};

template <typename T>
std::vector<const Value*> Both(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<const Value*> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace

Result<CapturedValues> CapturedValues::Capture(const Graph& g,
                                               std::span<const std::vector<Datum>> samples,
                                               std::vector<Datum>* outputs, const RunValues& run,
                                               const ValueNames* wanted) {
  CapturedValues captured;
  for (const std::vector<Datum>& inputs : samples) {
    INFER_ASSIGN(ValuesByName values, run(g, inputs, wanted));
    if (outputs) {
      outputs->clear();
      for (const Value* v : g.outputs()) {
        INFER_ASSIGN(Datum d, ResultIn(values, *v));
        outputs->push_back(std::move(d));
      }
    }
    captured.samples_.push_back(std::move(values));
  }
  return captured;
}

const Datum* CapturedValues::Find(const std::string& name, size_t sample) const {
  const auto it = samples_[sample].find(name);
  return it == samples_[sample].end() ? nullptr : &it->second;
}

void CapturedValues::Drop(const std::string& name) {
  made_.erase(name);
  for (auto& values : samples_) values.erase(name);
}

Result<double> VerifyMatch(const Match& match, const Patch& patch, CapturedValues& values,
                           const RunValues& run, std::vector<ValuesByName>* made) {
  const OpRegistry& ops = patch.graph.ops();
  double worst = 0;
  for (size_t sample = 0; sample < values.num_samples(); ++sample) {
    SampleCheck check(values, sample, run);
    INFER_TRY(check.Complete(ops, Both(patch.inputs, patch.outputs)));
    std::vector<Datum> inputs;
    bool all_captured = true;
    for (const Value* v : patch.inputs) {
      INFER_ASSIGN(Datum d, check.Get(*v));
      inputs.push_back(std::move(d));
      all_captured = all_captured && !values.IsMade(v->name());
    }
    INFER_ASSIGN(ValuesByName results, run(patch.graph, inputs, nullptr));
    ValuesByName matched;
    if (!all_captured) {
      INFER_ASSIGN(matched, check.RunNodes(ops, CoveredNodes(match, patch), patch.outputs));
    }
    for (size_t i = 0; i < patch.outputs.size(); ++i) {
      INFER_ASSIGN(const Datum reference, all_captured ? check.Get(*patch.outputs[i])
                                                       : ResultIn(matched, *patch.outputs[i]));
      INFER_ASSIGN(const Datum result, ResultIn(results, *patch.graph.outputs()[i]));
      INFER_ASSIGN(const double error, RelativeError(reference, result));
      worst = std::max(worst, error);
    }
    if (made) made->push_back(std::move(results));
  }
  return worst;
}

Status BoundaryRecorder::Review(const Candidate& c, MatchRecord&) {
  if (!c.top_level) return {};
  for (const Value* v : Both(c.patch.inputs, c.patch.outputs)) names_.insert(v->name());
  return {};
}

double ToleranceOf(const Node& n) {
  double t = std::max(n.def().tolerance, 1e-6);
  for (const Value* v : n.outputs()) {
    if (!v || !v->type().is_tensor()) continue;
    if (v->dtype() == DType::kF16) t = std::max(t, 0x1p-9);
    if (v->dtype() == DType::kBF16) t = std::max(t, 0x1p-6);
  }
  return t;
}

double ToleranceOf(const Match& m, const Patch& p) {
  double sum = 0;
  for (const Node* n : m.nodes()) sum += ToleranceOf(*n);
  for (const auto& n : p.graph.nodes()) sum += ToleranceOf(*n);
  return sum;
}

Status VerifyingReviewer::Review(const Candidate& c, MatchRecord& record) {
  made_.clear();
  to_come_.clear();
  taken_over_.clear();
  for (const Value* v : c.patch.outputs) taken_over_.insert(v->name());
  if (!c.top_level) {  // names of another graph
    ++not_evaluated_;
    return {};
  }
  const auto start = std::chrono::steady_clock::now();
  const auto error = VerifyMatch(c.match, c.patch, values_, run_, &made_);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!error.ok()) {
    if (error.status().code() != Code::kUnsupported) return error.status().In("evaluating");
    ++not_evaluated_;
    return {};
  }
  ++verified_;
  record.error = *error;
  record.tolerance = ToleranceOf(c.match, c.patch);
  if (record.error <= record.tolerance) {
    Expect(c.patch);
    return {};
  }
  return InvalidModel(Cat("its result deviates by ", FormatDouble(record.error), ", more than ",
                          FormatDouble(record.tolerance)));
}

void VerifyingReviewer::Expect(const Patch& patch) {
  for (const auto& n : patch.graph.nodes()) {
    std::vector<std::string>& names = to_come_.emplace_back();
    // Values are captured by name, also those that take over the name of another one.
    for (const Value* v : n->outputs()) names.push_back(v && !v->is_output() ? v->name() : "");
  }
}

void VerifyingReviewer::OnAdded(const Node& node) {
  std::vector<std::string> names;
  if (!to_come_.empty()) {
    names = std::move(to_come_.front());
    to_come_.pop_front();
  }
  names.resize(node.outputs().size());
  for (size_t i = 0; i < names.size(); ++i) {
    const Value* const v = node.output(i);
    if (!v) continue;
    values_.Drop(v->name());
    for (size_t sample = 0; sample < made_.size(); ++sample)
      if (const auto it = made_[sample].find(names[i]); it != made_[sample].end())
        values_.SetMade(v->name(), sample, it->second);
  }
}

void VerifyingReviewer::OnErasing(const Node& node) {
  for (const Value* v : node.outputs())
    if (v && !taken_over_.contains(v->name())) values_.Drop(v->name());
}

}  // namespace infer
