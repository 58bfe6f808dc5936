#include "tools/common/index_bounds.h"

#include <algorithm>
#include <map>
#include <optional>

#include "lib/tensor/equations.h"

namespace infer {
namespace {

/// Of a constant: tables are no part of an index.
constexpr int64_t kMostNumbers = 1024;

/// The largest number that a value holds, as an expression of extents. Numbers are taken not to be
/// negative, as indices and extents are.
class LargestNumbers {
 public:
  /// Unknown where nothing is known.
  Dim Of(const Value& v) {
    const auto [it, fresh] = known_.try_emplace(&v);
    if (!fresh) return it->second;  // unknown while it is asked for
    Dim largest = Find(v);
    return known_[&v] = std::move(largest);
  }

 private:
  Dim Find(const Value& v) {
    if (!v.type().is_tensor() || !IsInteger(v.dtype())) return {};
    if (v.is_constant()) return LargestOf(*v.constant());
    if (const auto& elements = v.elements(); elements && !elements->empty())
      return LargestOf(*elements);
    const Node* n = v.producer();
    if (!n || n->inputs().empty() || !n->input(0)) return {};
    if (n->IsAny(Trait::kView | Trait::kPermutation | Trait::kConversion) || n->Is("Expand") ||
        n->Is("Tile"))
      return Of(*n->input(0));
    if (n->Is("Range")) {
      const Dim step = Of(*n->input(2));
      return step.KnownEqual(1) ? Of(*n->input(1)) - 1 : Dim();
    }
    if (n->Is("Add")) return Of(*n->input(0)) + Of(*n->input(1));
    if (n->Is("Mul")) return Of(*n->input(0)) * Of(*n->input(1));
    return {};
  }

  static Dim LargestOf(const Tensor& t) {
    if (t.num_elements() == 0 || t.num_elements() > kMostNumbers) return {};
    int64_t largest = t.IntAt(0);
    for (int64_t i = 1; i < t.num_elements(); ++i) largest = std::max(largest, t.IntAt(i));
    return largest;
  }

  static Dim LargestOf(const std::vector<Dim>& elements) {
    Dim largest = elements[0];
    for (const Dim& d : elements) {
      if (d.KnownEqual(largest)) continue;
      if (!d.is_static() || !largest.is_static()) return {};
      largest = std::max(largest.value(), d.value());
    }
    return largest;
  }

  std::map<const Value*, Dim> known_;
};

struct Flattened {
  Dim rows, of_rows, columns, of_columns;
};

/// `extent` = a * c, `count` = (b - 1) * c + d with a symbol c: rows b of a, columns d of c.
std::optional<Flattened> Unflattened(const Dim& extent, const Dim& count) {
  const Dim::Terms terms = extent.AsTerms();
  if (terms.size() != 1 || terms[0].second != 1 || terms[0].first.size() != 2) return std::nullopt;
  for (const size_t i : {size_t{1}, size_t{0}}) {
    const std::string &c = terms[0].first[i], &a = terms[0].first[1 - i];
    for (const auto& [monomial, k] : count.AsTerms()) {
      if (k != 1 || monomial.size() != 2) continue;
      const auto at = std::find(monomial.begin(), monomial.end(), c);
      if (at == monomial.end()) continue;
      const Dim columns = Dim::Symbol(c), rows = Dim::Symbol(monomial[at == monomial.begin()]);
      return Flattened{rows, Dim::Symbol(a), count - rows * columns + columns, columns};
    }
  }
  return std::nullopt;
}

}  // namespace

void StateIndexBounds(const Graph& g) {
  LargestNumbers largest;
  for (const auto& n : g.nodes()) {
    if (!n->Is("Gather") || !n->input(0)->type().is_tensor()) continue;
    const Shape& shape = n->input(0)->shape();
    if (!shape.has_rank()) continue;
    const auto axis = NormalizeAxis(n->Attr<int64_t>("axis"), shape.rank());
    if (!axis.ok() || !shape[*axis].is_symbolic()) continue;
    const Dim& extent = shape[*axis];
    const Dim count = largest.Of(*n->input(1)) + 1;
    if (!count.is_symbolic()) continue;
    if (const auto flat = Unflattened(extent, count)) {
      StateBroadcast(flat->of_rows, flat->rows);
      StateBroadcast(flat->of_columns, flat->columns);
    } else {
      StateBroadcast(extent, count);
    }
  }
}

}  // namespace infer
