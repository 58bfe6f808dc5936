#include "quant/algorithm/reader_ranges.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lib/ir/eval.h"

namespace infer {
namespace {

constexpr int kPoints = 4096;
constexpr size_t kMaxNodes = 12;
/// An end shorter than this share of the range is left: it would not make the grid finer.
constexpr size_t kLeastCut = kPoints / 32;

bool IsFunction(const Node& n) {
  return n.IsAny(Trait::kUnary | Trait::kElementwise) && n.def().deterministic &&
         n.outputs().size() == 1 && IsF32(n.output(0));
}

bool IsScalar(const Value* v) {
  return v->is_constant() && v->constant()->num_elements() == 1 && v->dtype() == DType::kF32;
}

/// The element-wise nodes that compute functions of `x` alone, and the results that others read.
struct Closure {
  std::vector<const Node*> nodes;  // topological
  std::vector<const Value*> exits;
};

Closure FunctionsOf(const Value* x) {
  Closure c;
  std::set<const Value*> known{x};
  std::set<const Node*> taken;
  std::vector<const Node*> ready;
  const auto reached = [&](const Value* v) {
    for (const Use& u : v->uses()) ready.push_back(u.user);
  };
  reached(x);
  while (!ready.empty() && c.nodes.size() <= kMaxNodes) {
    const Node* n = ready.back();
    ready.pop_back();
    if (taken.count(n) || !IsFunction(*n)) continue;
    const bool closed = std::all_of(n->inputs().begin(), n->inputs().end(), [&](const Value* v) {
      return !v || known.count(v) || IsScalar(v);
    });
    if (!closed) continue;  // comes again when its other operand is known
    taken.insert(n);
    c.nodes.push_back(n);
    known.insert(n->output(0));
    reached(n->output(0));
  }
  std::sort(c.nodes.begin(), c.nodes.end(),
            [](const Node* a, const Node* b) { return Graph::Before(*a, *b); });
  for (const Value* v : known) {
    const bool read = std::any_of(v->uses().begin(), v->uses().end(),
                                  [&](const Use& u) { return !taken.count(u.user); });
    if (read || v->is_output()) c.exits.push_back(v);
  }
  return c;
}

/// By exit: the function's values on `points`.
Result<std::vector<std::vector<float>>> Evaluate(const Closure& c, const Value* x,
                                                 const Tensor& points, const OpRegistry& ops) {
  std::map<const Value*, Datum> values{{x, Datum(points)}};
  for (const Node* n : c.nodes) {
    std::vector<const Datum*> inputs;
    std::vector<std::unique_ptr<Datum>> scalars;
    for (const Value* v : n->inputs()) {
      if (!v) {
        inputs.push_back(nullptr);
      } else if (v->is_constant()) {
        // Bounds of Clip must be scalars; any other constant may be.
        scalars.push_back(std::make_unique<Datum>(v->constant()->Reshaped({})));
        inputs.push_back(scalars.back().get());
      } else {
        inputs.push_back(&values.at(v));
      }
    }
    INFER_ASSIGN(std::vector<Datum> out, EvaluateNode(*n, inputs, ops));
    values[n->output(0)] = std::move(out[0]);
  }
  std::vector<std::vector<float>> result;
  for (const Value* v : c.exits) result.push_back(values.at(v).tensor().ToFloats());
  return result;
}

/// How many points from one end have, in every function, a value within `tolerance` of the last of
/// them: those can be cut off.
size_t FlatEnd(const std::vector<std::vector<float>>& f, const std::vector<double>& tolerance,
               bool from_end) {
  size_t flat = f[0].size() - 1;
  for (size_t e = 0; e < f.size(); ++e) {
    double lo = 0, hi = 0;
    size_t last = 0;
    for (size_t i = 0; i < f[e].size(); ++i) {
      const double y = static_cast<double>(f[e][from_end ? f[e].size() - 1 - i : i]);
      if (!std::isfinite(y)) return 0;
      lo = i == 0 ? y : std::min(lo, y);
      hi = i == 0 ? y : std::max(hi, y);
      if (hi - lo > 2 * tolerance[e]) break;
      if (hi - y <= tolerance[e] && y - lo <= tolerance[e]) last = i;
    }
    flat = std::min(flat, last);
  }
  return flat;
}

}  // namespace

Result<int> NarrowByReaders(StaticModel& model, const Graph& original, double tolerance) {
  INFER_ASSIGN(const QuantPlan plan, PlanQuantization(model.graph, original, model.scheme));
  int changed = 0;
  for (const Value* v : plan.values) {
    const auto entry = model.ranges.find(v->name());
    if (entry == model.ranges.end() || v->is_output()) continue;
    const Closure c = FunctionsOf(v);
    if (c.nodes.empty() || c.nodes.size() > kMaxNodes || c.exits.empty()) continue;
    if (std::find(c.exits.begin(), c.exits.end(), v) != c.exits.end()) continue;
    Interval& range = entry->second.range;
    if (!(range.lo < range.hi)) continue;
    Tensor points(DType::kF32, {kPoints});
    for (int i = 0; i < kPoints; ++i)
      points.mutable_data<float>()[i] =
          static_cast<float>(range.lo + (range.hi - range.lo) * i / (kPoints - 1));
    auto f = Evaluate(c, v, points, model.graph.ops());
    if (!f.ok()) continue;  // a form that one-dimensional points do not fit
    std::vector<double> allowed;
    bool same = true;
    for (const std::vector<float>& y : *f) {
      same = same && y.size() == static_cast<size_t>(kPoints);
      const Interval r = FiniteRange(y);
      allowed.push_back(tolerance * (r.hi - r.lo) / 255);
    }
    if (!same) continue;
    size_t low = FlatEnd(*f, allowed, false), high = FlatEnd(*f, allowed, true);
    if (low < kLeastCut) low = 0;
    if (high < kLeastCut) high = 0;
    if (low + high + 1 >= static_cast<size_t>(kPoints) || low + high == 0) continue;
    const auto x = points.data<float>();
    range = {static_cast<double>(x[low]), static_cast<double>(x[x.size() - 1 - high])};
    ++changed;
  }
  return changed;
}

}  // namespace infer
