#include "passes/rewrite/verify_match.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

Result<double> TensorError(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims())
    return InvalidModel(Cat(ToString(TensorType(b.type())), " instead of ", ToString(a.type())));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!IsFloat(a.dtype())) return BitEqual(a, b) ? 0 : kInfinity;
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

/// Evaluates values back to what was captured, once each.
class Recompute {
 public:
  Recompute(const CapturedValues& values, size_t sample, const OpRegistry& ops)
      : values_(values), sample_(sample), ops_(ops) {}

  Result<Datum> Get(const Value* v) {
    if (v->is_constant()) return Datum(*v->constant());
    if (const Datum* d = values_.Find(v->name(), sample_)) return *d;
    if (const auto it = done_.find(v); it != done_.end()) return it->second;
    const Node* n = v->producer();
    if (!n) return Unsupported(Cat("no value was captured of '", v->name(), "'"));
    if (++nodes_ > kMaxNodes) return Unsupported("too far from captured values");
    std::vector<Datum> inputs(n->inputs().size());
    std::vector<const Datum*> pointers(n->inputs().size(), nullptr);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (n->inputs()[i]) {
        INFER_ASSIGN(inputs[i], Get(n->inputs()[i]));
        pointers[i] = &inputs[i];
      }
    INFER_ASSIGN(auto outputs, EvaluateNode(*n, pointers, ops_));
    for (size_t i = 0; i < n->outputs().size() && i < outputs.size(); ++i)
      if (n->outputs()[i]) done_[n->outputs()[i]] = outputs[i];
    return done_.at(v);
  }

 private:
  static constexpr int kMaxNodes = 256;
  const CapturedValues& values_;
  const size_t sample_;
  const OpRegistry& ops_;
  std::unordered_map<const Value*, Datum> done_;
  int nodes_ = 0;
};

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

Result<CapturedValues> CapturedValues::Capture(const Graph& g,
                                               std::span<const std::vector<Datum>> samples,
                                               std::vector<Datum>* outputs) {
  CapturedValues captured;
  for (const std::vector<Datum>& inputs : samples) {
    auto& values = captured.samples_.emplace_back();
    EvalOptions options;
    options.tap = [&](const Value& v, const Datum& d) { values[v.name()] = d; };
    INFER_ASSIGN(auto results, Evaluate(g, inputs, options));
    if (outputs) *outputs = std::move(results);
  }
  return captured;
}

const Datum* CapturedValues::Find(const std::string& name, size_t sample) const {
  const auto it = samples_[sample].find(name);
  return it == samples_[sample].end() ? nullptr : &it->second;
}

void CapturedValues::Drop(const std::string& name) {
  for (auto& values : samples_) values.erase(name);
}

Result<double> VerifyMatch(const Patch& patch, const CapturedValues& values) {
  double worst = 0;
  for (size_t sample = 0; sample < values.num_samples(); ++sample) {
    Recompute region(values, sample, patch.graph.ops());
    std::vector<Datum> inputs;
    for (const Value* v : patch.inputs) {
      INFER_ASSIGN(Datum d, region.Get(v));
      inputs.push_back(std::move(d));
    }
    INFER_ASSIGN(const auto results, Evaluate(patch.graph, inputs));
    for (size_t i = 0; i < patch.outputs.size(); ++i) {
      INFER_ASSIGN(const Datum reference, region.Get(patch.outputs[i]));
      INFER_ASSIGN(const double error, RelativeError(reference, results[i]));
      worst = std::max(worst, error);
    }
  }
  return worst;
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
  if (!c.top_level) {  // names of another graph
    ++not_evaluated_;
    return {};
  }
  const auto start = std::chrono::steady_clock::now();
  const auto error = VerifyMatch(c.patch, values_);
  seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!error.ok()) {
    if (error.status().code() != Code::kUnsupported) return error.status().In("evaluating");
    ++not_evaluated_;
    return {};
  }
  ++verified_;
  record.error = *error;
  record.tolerance = ToleranceOf(c.match, c.patch);
  if (record.error <= record.tolerance) return {};
  return InvalidModel(Cat("its result deviates by ", FormatDouble(record.error), ", more than ",
                          FormatDouble(record.tolerance)));
}

}  // namespace infer
