#include "tools/common/solve_extents.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "tools/common/index_bounds.h"
#include "tools/common/open_extents.h"

namespace infer {
namespace {

/// A constant operand of more would make samples large: then 1 and others are tried first.
constexpr int64_t kMaxBroadcast = 64;

/// The sum's terms without what divides all of them: symbols (extents are not 0) and a number.
Dim::Terms Reduced(Dim::Terms terms) {
  int64_t divisor = 0;
  Dim::Monomial common = terms[0].first;
  for (const auto& [monomial, c] : terms) {
    divisor = std::gcd(divisor, c);
    Dim::Monomial both;
    std::set_intersection(common.begin(), common.end(), monomial.begin(), monomial.end(),
                          std::back_inserter(both));
    common = std::move(both);
  }
  for (auto& [monomial, c] : terms) {
    c /= std::max<int64_t>(divisor, 1);
    Dim::Monomial rest;
    std::set_difference(monomial.begin(), monomial.end(), common.begin(), common.end(),
                        std::back_inserter(rest));
    monomial = std::move(rest);
  }
  return terms;
}

Dim ToDim(const Dim::Terms& terms) {
  Dim sum = 0;
  for (const auto& [monomial, c] : terms) {
    Dim product = c;
    for (const std::string& s : monomial) product = product * Dim::Symbol(s);
    sum = sum + product;
  }
  return sum;
}

struct Elimination {
  std::string symbol;
  Dim value;
  int cost = 0;  // the least is taken
};

/// How to read "the sum of `terms` is 0" as the value of one symbol.
std::optional<Elimination> Eliminate(const Dim::Terms& terms, const std::set<std::string>& open,
                                     const std::set<std::string>& kept) {
  std::optional<Elimination> best;
  for (size_t i = 0; i < terms.size(); ++i) {
    const auto& [monomial, c] = terms[i];
    if (monomial.size() != 1 || (c != 1 && c != -1) || !open.contains(monomial[0])) continue;
    Dim::Terms rest;
    bool linear = true, negative = false;
    for (size_t j = 0; j < terms.size(); ++j) {
      if (j == i) continue;
      const auto& [other, k] = terms[j];
      linear &= std::find(other.begin(), other.end(), monomial[0]) == other.end();
      negative |= !other.empty() && k * -c < 0;
      rest.emplace_back(other, k * -c);
    }
    if (!linear) continue;
    const int cost = (negative ? 2 : 0) + (kept.contains(monomial[0]) ? 1 : 0);
    // Of equals the last name goes.
    if (!best || cost <= best->cost) best = Elimination{monomial[0], ToDim(rest), cost};
  }
  return best;
}

bool OnlyOpen(const Dim::Terms& terms, const std::set<std::string>& open) {
  return std::all_of(terms.begin(), terms.end(), [&](const auto& term) {
    return std::all_of(term.first.begin(), term.first.end(),
                       [&](const std::string& s) { return open.contains(s); });
  });
}

class Solver {
 public:
  Solver(const std::set<std::string>& open, const std::set<std::string>& kept,
         const std::map<std::string, int64_t>& fixed, int64_t max_broadcast)
      : open_(open), kept_(kept), max_broadcast_(max_broadcast) {
    for (const auto& [name, n] : fixed) solution_.emplace(name, Dim(n));
  }

  /// Until no equation says more.
  void Use(const std::vector<ExtentEquation>& equations, bool broadcast) {
    std::vector<const ExtentEquation*> left;
    for (const ExtentEquation& e : equations)
      if (e.broadcast == broadcast) left.push_back(&e);
    for (bool found = true; found;) {
      found = false;
      std::erase_if(left, [&](const ExtentEquation* e) {
        bool done = false;
        if (Apply(*e, done)) found = true;
        return done;
      });
    }
  }

  ExtentSolution Take() && { return std::move(solution_); }

 private:
  /// Whether a symbol was eliminated; `done`: the equation is of no more use.
  bool Apply(const ExtentEquation& e, bool& done) {
    const Dim a = e.a.Replaced(solution_), b = e.b.Replaced(solution_), difference = a - b;
    done = !difference.is_symbolic();
    if (done) return false;
    if (e.broadcast && (a.KnownEqual(1) || b.KnownEqual(1))) return false;
    if (e.broadcast)
      for (const Dim* d : {&a, &b})
        if (d->is_static() && d->value() > max_broadcast_) return false;
    const Dim::Terms terms = Reduced(difference.AsTerms());
    if (!OnlyOpen(terms, open_)) return false;
    const auto found = Eliminate(terms, open_, kept_);
    if (!found || (found->value.is_static() && found->value.value() < 0)) return false;
    done = true;
    for (auto& [name, value] : solution_) value = value.Replaced({{found->symbol, found->value}});
    solution_[found->symbol] = found->value;
    return true;
  }

  const std::set<std::string>& open_;
  const std::set<std::string>& kept_;
  const int64_t max_broadcast_;
  ExtentSolution solution_;
};

}  // namespace

std::vector<ExtentEquation> EquationsOf(const Graph& g) {
  Graph named = g.Clone();
  GraphEditor editor(named);
  for (Value* v : named.inputs()) {
    if (!v->type().is_tensor() || !v->shape().has_rank()) continue;
    std::vector<Dim> dims = v->shape().dims();
    for (int axis = 0; axis < v->shape().rank(); ++axis)
      if (!v->shape()[axis].is_static())
        dims[static_cast<size_t>(axis)] = Dim::Symbol(OpenDimName(*v, axis));
    editor.SetType(v, TensorType{v->dtype(), Shape(std::move(dims))});
  }
  std::vector<ExtentEquation> equations;
  const CollectExtentEquations collect(&equations);
  (void)InferTypes(named);  // what is ill-typed whatever the extents is reported by those who run
  StateIndexBounds(named);
  return equations;
}

ExtentSolution SolveExtents(const std::vector<ExtentEquation>& equations, Strictness strictness,
                            const std::set<std::string>& open, const std::set<std::string>& kept,
                            const std::map<std::string, int64_t>& fixed) {
  const bool is_large = strictness == Strictness::kLarge;
  Solver solver(open, kept, fixed, is_large ? std::numeric_limits<int64_t>::max() : kMaxBroadcast);
  solver.Use(equations, false);
  if (strictness != Strictness::kEqual) {
    solver.Use(equations, true);
    solver.Use(equations, false);  // products of what is known now
  }
  return std::move(solver).Take();
}

}  // namespace infer
