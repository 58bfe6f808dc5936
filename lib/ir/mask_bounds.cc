#include "lib/ir/mask_bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "lib/tensor/float_limits.h"

namespace infer {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A factor that makes the lowest number of truth values or lengths.
bool IsHuge(const Tensor& t, double lowest) {
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (std::abs(t.At(i)) >= -lowest / 2) return true;
  return false;
}
/// A factor that takes the lowest number away from the edge.
bool Shrinks(const Tensor& t) {
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (!(std::abs(t.At(i)) < 1)) return false;
  return true;
}

/// Operators that hand the lowest number on: they move, convert, add or choose.
bool HandsOn(const Node& n) {
  return n.IsAny(Trait::kView | Trait::kMove | Trait::kConversion | Trait::kAdditive |
                 Trait::kReduction) ||
         n.Is("Min");
}

/// A walk from a mask back to where the number that is looked for can come from.
class LowestSearch {
 public:
  enum class For : uint8_t { kLowest, kInfinity };
  LowestSearch(double lowest, For what) : lowest_(lowest), what_(what) {}

  bool MayHold(const Value& v) {
    if (!v.type().is_tensor() || !IsFloat(v.dtype()) || !seen_.insert(&v).second) return false;
    if (v.is_constant()) return Holds(*v.constant());
    const Node* n = v.producer();
    if (!n) return depth_ == 0;  // what a body is given, its node is given
    if (!n->subgraphs().empty()) return AnyOperand(*n) || ReturnedByBody(*n, v.producer_index());
    if (what_ == For::kInfinity && MakesInfinity(*n)) return true;
    if (n->Is("Mul") || n->Is("Div")) return Product(*n);
    if (n->Is("Max") || n->Is("Clip")) return Bounded(*n);
    return HandsOn(*n) && AnyOperand(*n);
  }

 private:
  bool Holds(const Tensor& t) const {
    for (int64_t i = 0; i < t.num_elements(); ++i)
      if (what_ == For::kInfinity ? t.At(i) == -kInfinity
                                  : std::isfinite(t.At(i)) && t.At(i) <= lowest_)
        return true;
    return false;
  }
  /// The logarithm of 0, and the sum of two that both are the lowest number.
  bool MakesInfinity(const Node& n) const {
    const auto may_be_lowest = [&](const Value* v) {
      return v && LowestSearch(lowest_, For::kLowest).MayHold(*v);
    };
    return n.Is("Log") || (n.Is("Add") && may_be_lowest(n.input(0)) && may_be_lowest(n.input(1)));
  }
  bool AnyOperand(const Node& n) {
    for (const Value* v : n.inputs())
      if (v && MayHold(*v)) return true;
    return false;
  }
  /// Result `i` of an If, Loop or Scan, as one of its bodies returns it.
  bool ReturnedByBody(const Node& n, size_t i) {
    const size_t at = i + (n.Is("Loop") ? 1 : 0);  // behind the condition
    ++depth_;
    const bool found = std::any_of(n.subgraphs().begin(), n.subgraphs().end(), [&](const auto& s) {
      const auto& returned = s.second->outputs();
      return at < returned.size() && MayHold(*returned[at]);
    });
    --depth_;
    return found;
  }
  bool Product(const Node& n) {
    for (size_t i = 0; i < 2; ++i) {
      if (!n.input(i)->is_constant() || (n.Is("Div") && i == 0)) continue;
      const Tensor& factor = *n.input(i)->constant();
      if (n.Is("Div")) return MayHold(*n.input(0));
      if (what_ == For::kInfinity) return Holds(factor) || MayHold(*n.input(1 - i));
      if (IsHuge(factor, lowest_)) return true;
      return !Shrinks(factor) && MayHold(*n.input(1 - i));
    }
    return AnyOperand(n);
  }
  /// Max and Clip with a constant above the lowest number keep it out.
  bool Bounded(const Node& n) {
    for (size_t i = n.Is("Clip") ? 1 : 0; i < n.inputs().size() && (n.Is("Max") || i < 2); ++i)
      if (const Value* v = n.input(i); v && v->is_constant() && !Holds(*v->constant()))
        return false;
    return AnyOperand(n);
  }

  double lowest_;
  For what_;
  int depth_ = 0;  // of bodies
  std::set<const Value*> seen_;
};

/// The largest of `keys` elements from `row` on.
double Most(const Tensor& t, int64_t row, int64_t keys) {
  double most = -kInfinity;
  for (int64_t i = 0; i < keys; ++i) most = std::max(most, t.At(row + i));
  return most;
}

}  // namespace

bool MayHideAllByLowest(const Value& mask) {
  if (!mask.type().is_tensor() || !IsFloat(mask.dtype())) return false;
  const double lowest = LowestFinite(mask.dtype());
  if (!mask.is_constant()) return LowestSearch(lowest, LowestSearch::For::kLowest).MayHold(mask);
  const Tensor& t = *mask.constant();
  const int64_t keys = t.rank() > 0 ? t.dim(-1) : 1;
  for (int64_t row = 0; row < t.num_elements(); row += keys) {
    const double most = Most(t, row, keys);
    if (std::isfinite(most) && most <= lowest) return true;
  }
  return false;
}

bool IsAttentionHiddenByLowest(const Node& n) {
  return n.Is("Attention") && n.input(3) && MayHideAllByLowest(*n.input(3));
}

bool MayHideAllByInfinity(const Value& mask) {
  if (!mask.type().is_tensor() || !IsFloat(mask.dtype())) return true;
  if (!mask.is_constant())
    return LowestSearch(LowestFinite(mask.dtype()), LowestSearch::For::kInfinity).MayHold(mask);
  const Tensor& t = *mask.constant();
  const int64_t keys = t.rank() > 0 ? t.dim(-1) : 1;
  for (int64_t row = 0; row < t.num_elements(); row += keys)
    if (Most(t, row, keys) == -kInfinity) return true;
  return false;
}

bool MustMakeZeroWithoutKeys(const Node& n) {
  return n.Is("Attention") && n.input(3) &&
         n.Attr<int64_t>(kWithoutKeys) != int64_t(WithoutKeys::kAny) &&
         MayHideAllByInfinity(*n.input(3));
}

}  // namespace infer
