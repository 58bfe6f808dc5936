/// Extents with names of their own that products need to be equal, and what is joined: exporters
/// name the axes of each cached tensor by themselves, and keys and values then seem to be of two
/// lengths, or of another batch than the queries.
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/ir/editor.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

std::set<std::string> SymbolsOfInputs(const Graph& g) {
  std::set<std::string> symbols;
  for (const Value* v : g.inputs())
    if (v->type().is_tensor() && v->shape().has_rank())
      for (const Dim& d : v->shape().dims())
        if (!d.symbol().empty()) symbols.insert(d.symbol());
  return symbols;
}

/// a == b where that says that two symbols are one extent.
std::optional<std::pair<std::string, std::string>> EqualSymbols(const Dim& a, const Dim& b) {
  if (a.is_unknown() || b.is_unknown()) return std::nullopt;
  const Dim difference = a - b;
  if (difference.is_unknown()) return std::nullopt;
  const Dim::Terms terms = difference.AsTerms();
  if (terms.size() != 2) return std::nullopt;
  const auto& [first, by] = terms[0];
  const auto& [second, back] = terms[1];
  if (first.size() != 1 || second.size() != 1 || by * back != -1) return std::nullopt;
  return std::pair(first[0], second[0]);
}

/// The rows of input 1 of a MatMul; nullptr where they are not known to be rows.
const Dim* RowsOf(const Value& v) {
  if (!v.type().is_tensor() || !v.shape().has_rank() || v.shape().rank() < 1) return nullptr;
  return &v.shape()[v.shape().rank() > 1 ? v.shape().rank() - 2 : 0];
}

const Dim* ColumnsOf(const Value& v) {
  if (!v.type().is_tensor() || !v.shape().has_rank() || v.shape().rank() < 1) return nullptr;
  return &v.shape()[v.shape().rank() - 1];
}

void Replace(Graph& g, const std::map<std::string, Dim>& by) {
  GraphEditor e(g);
  for (const auto& v : g.values()) {
    if (v->type().is_tensor() && v->shape().has_rank()) {
      std::vector<Dim> dims;
      for (const Dim& d : v->shape().dims()) dims.push_back(d.Replaced(by));
      e.SetType(v.get(), TensorType{v->dtype(), Shape(std::move(dims))});
    }
    if (!v->elements()) continue;
    std::vector<Dim> elements;
    for (const Dim& d : *v->elements()) elements.push_back(d.Replaced(by));
    e.SetElements(v.get(), std::move(elements));
  }
}

/// Pairs of extents that are equal wherever `n` runs.
std::vector<std::pair<Dim, Dim>> EqualExtentsOf(const Node& n) {
  std::vector<std::pair<Dim, Dim>> equal;
  if (n.Is("MatMul")) {
    const Dim *columns = ColumnsOf(*n.input(0)), *rows = RowsOf(*n.input(1));
    if (columns && rows) equal.emplace_back(*columns, *rows);
    return equal;
  }
  const Value& y = *n.output(0);
  if (!n.Is("Concat") || !y.type().is_tensor() || !y.shape().has_rank()) return equal;
  const auto along = NormalizeAxis(n.Attr<int64_t>("axis"), y.shape().rank());
  if (!along.ok()) return equal;
  const Shape& first = n.input(0)->shape();
  for (const Value* v : n.inputs()) {
    if (!first.has_rank() || !v->shape().has_rank()) continue;
    for (int axis = 0; axis < y.shape().rank(); ++axis)
      if (axis != *along) equal.emplace_back(first[axis], v->shape()[axis]);
  }
  return equal;
}

/// Whether two names have become one.
bool UniteOne(Graph& g, const Node& n, const std::set<std::string>& open) {
  for (const auto& [a, b] : EqualExtentsOf(n)) {
    const auto equal = EqualSymbols(a, b);
    if (!equal || !open.contains(equal->first) || !open.contains(equal->second)) continue;
    Replace(g, {{equal->second, Dim::Symbol(equal->first)}});
    return true;
  }
  return false;
}

class EqualExtents : public Pass {
 public:
  std::string name() const override { return "equal-extents"; }

  Result<bool> Run(Graph& g, PassContext&) override {
    const std::set<std::string> open = SymbolsOfInputs(g);
    bool changed = false;
    if (open.size() < 2) return changed;
    for (const auto& n : g.nodes())
      while (UniteOne(g, *n, open)) changed = true;
    return changed;
  }
};

}  // namespace

std::unique_ptr<Pass> UniteEqualExtents() { return std::make_unique<EqualExtents>(); }

}  // namespace infer
