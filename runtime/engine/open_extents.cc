#include "runtime/engine/open_extents.h"

#include <algorithm>
#include <cctype>

#include "lib/ir/roles.h"
#include "lib/support/strings.h"

namespace infer::engine {
namespace {

constexpr size_t kSizesOfResize = 3, kRepeatsOfTile = 1;
constexpr size_t kStartsOfSlice = 1, kEndsOfSlice = 2, kAxesOfSlice = 3, kStepsOfSlice = 4;

/// Symbols that stand for expressions are named by them: "floor((N+1)/2)" names N, "N_long" does
/// not.
bool Names(const std::string& expression, const std::string& symbol) {
  const auto is_part = [&](size_t i) {
    return i < expression.size() &&
           (std::isalnum(static_cast<unsigned char>(expression[i])) != 0 || expression[i] == '_');
  };
  for (size_t at = expression.find(symbol); at != std::string::npos;
       at = expression.find(symbol, at + 1))
    if (!is_part(at - 1) && !is_part(at + symbol.size())) return true;
  return false;
}

bool IsSlice(const Node& node) { return node.Is("Slice"); }

bool AreAll(const Value* v, int64_t number) {
  const Tensor* t = v ? v->known() : nullptr;
  if (!t || !IsInteger(t->dtype())) return false;
  const std::vector<int64_t> all = t->ToInts();
  return std::all_of(all.begin(), all.end(), [&](int64_t i) { return i == number; });
}

}  // namespace

std::string Quoted(const Value& v) { return Cat("'", v.name(), "'"); }

bool HangsOn(const Dim& extent, const std::string& symbol) {
  if (extent.is_static() || extent.is_unknown()) return false;
  for (const auto& [monomial, factor] : extent.AsTerms())
    for (const std::string& s : monomial)
      if (Names(s, symbol)) return true;
  return false;
}

std::optional<std::vector<int>> AxesNamed(const Shape& shape, const std::string& symbol) {
  std::vector<int> axes;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!HangsOn(shape[i], symbol)) continue;
    if (shape[i].symbol() != symbol) return std::nullopt;
    axes.push_back(i);
  }
  return axes;
}

const std::vector<Dim>* KnownElements(const Value& v) {
  if (!v.elements()) return nullptr;
  const auto& all = *v.elements();
  const bool known =
      std::none_of(all.begin(), all.end(), [](const Dim& d) { return d.is_unknown(); });
  return known ? &all : nullptr;
}

bool HasUnknownExtent(const Value& v) {
  if (!v.type().is_tensor() || !v.shape().has_rank()) return true;
  const auto& dims = v.shape().dims();
  return std::any_of(dims.begin(), dims.end(), [](const Dim& d) { return d.is_unknown(); });
}

bool OnlySaysLengths(const Node& node, size_t operand) {
  if (IsSlice(node)) return operand == kEndsOfSlice;
  if (node.Is("Resize")) return operand == kSizesOfResize;
  if (node.Is("Tile")) return operand == kRepeatsOfTile;
  // Lengths of several results are where the next ones begin.
  return operand > 0 && node.outputs().size() == 1 && !node.Is(Trait::kLookup) &&
         node.IsAny(Trait::kView | Trait::kStrided);
}

bool AreLinked(const AxisLinks& links, size_t in, int in_axis, size_t out, int out_axis) {
  return std::any_of(links.begin(), links.end(), [&](const AxisLink& l) {
    return l.kind == AxisLink::Kind::kSame && l.from.value == in && l.to.value == out &&
           l.from.axis == in_axis && l.to.axis == out_axis && l.from.is_whole() && l.to.is_whole();
  });
}

void LeastExtents::Follow(const Node& node) {
  const Value* result = node.output();
  if (!result || !result->type().is_tensor() || KnownElements(*result)) return;
  const bool is_minimum = node.Is("Min");
  if (!is_minimum && !IsCast(node)) return;
  const std::vector<Dim>* found = nullptr;
  for (const Value* v : node.inputs()) {
    if (!v || v->known()) continue;
    if (found) return;
    found = Of(v);
    if (!found) return;
  }
  const Dim count = result->shape().num_elements();
  if (found && count.KnownEqual(static_cast<int64_t>(found->size()))) of_[result] = *found;
}

const std::vector<Dim>* LeastExtents::Of(const Value* v) const {
  if (!v) return nullptr;
  if (const auto* elements = KnownElements(*v)) return elements;
  const auto it = of_.find(v);
  return it == of_.end() ? nullptr : &it->second;
}

std::optional<std::vector<Prefix>> PrefixesOf(const Node& node, const LeastExtents& extents) {
  if (!IsSlice(node) || !node.input(kStartsOfSlice) || !AreAll(node.input(kStartsOfSlice), 0) ||
      (node.input(kStepsOfSlice) && !AreAll(node.input(kStepsOfSlice), 1)) ||
      !node.input(0)->shape().has_rank())
    return std::nullopt;
  const std::vector<Dim>* ends = extents.Of(node.input(kEndsOfSlice));
  if (!ends) return std::nullopt;
  std::vector<Prefix> prefixes;
  const Tensor* axes = node.input(kAxesOfSlice) ? node.input(kAxesOfSlice)->known() : nullptr;
  if (node.input(kAxesOfSlice) &&
      (!axes || axes->num_elements() != static_cast<int64_t>(ends->size())))
    return std::nullopt;
  for (size_t i = 0; i < ends->size(); ++i) {
    const auto given = static_cast<int64_t>(i);
    const auto axis =
        NormalizeAxis(axes ? axes->IntAt(given) : given, node.input(0)->shape().rank());
    if (!axis.ok() || (*ends)[i].is_unknown()) return std::nullopt;
    prefixes.push_back({*axis, (*ends)[i]});
  }
  return prefixes;
}

}  // namespace infer::engine
