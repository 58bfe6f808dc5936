#include "tools/common/length_inputs.h"

#include <algorithm>
#include <set>

#include "lib/ir/roles.h"

namespace infer {
namespace {

enum GroupQueryOperand : size_t { kQuery = 0, kPastKey = 3, kLastKey = 5, kTotal = 6 };

class LengthSearch {
 public:
  explicit LengthSearch(const OpenExtents& extents) {
    for (const auto& [name, n] : extents) numbers_.emplace(name, Dim(n));
  }

  /// `summed`: v is a sum over what the input holds.
  std::optional<int64_t> Find(const Value& v, bool summed) {
    if (!seen_.insert({&v, summed}).second) return std::nullopt;
    for (const Use& use : v.uses()) {
      const Node& n = *use.user;
      if (n.Is("GroupQueryAttention", "com.microsoft") &&
          (use.operand == kLastKey || use.operand == kTotal)) {
        if (summed) return 1;
        if (const auto total = TotalOf(n)) return *total - (use.operand == kLastKey ? 1 : 0);
      }
      if (!n.output(0) || !Follows(n, use.operand, summed)) continue;
      if (const auto found = Find(*n.output(0), summed || n.Is("ReduceSum"))) return found;
    }
    return std::nullopt;
  }

 private:
  static bool Follows(const Node& n, size_t operand, bool summed) {
    if (n.Is("Add") || n.Is("Sub")) return summed && n.input(1 - operand)->is_constant();
    return operand == 0 && (IsCast(n) || n.Is(Trait::kView) || n.Is("ReduceSum"));
  }

  std::optional<int64_t> Extent(const Value* v, int axis) const {
    if (!v || !v->type().is_tensor() || !v->shape().has_rank() || v->shape().rank() <= axis)
      return std::nullopt;
    const Dim d = v->shape()[axis].Replaced(numbers_);
    return d.is_static() ? std::optional(d.value()) : std::nullopt;
  }

  /// The number of keys that the model states, where it does (a shared buffer may have fewer than
  /// it holds); else past and new ones.
  std::optional<int64_t> TotalOf(const Node& n) const {
    const Value* stated = n.input(kTotal);
    if (stated && stated->is_constant() && stated->constant()->num_elements() == 1)
      return stated->constant()->IntAt(0);
    const auto queries = Extent(n.input(kQuery), 1);
    if (!queries || !n.input(kPastKey)) return queries;
    const auto past = Extent(n.input(kPastKey), 2);
    return past ? std::optional(*past + *queries) : std::nullopt;
  }

  std::map<std::string, Dim> numbers_;
  std::set<std::pair<const Value*, bool>> seen_;
};

bool IsScalar(const Value* v, bool (*holds)(double)) {
  return v && v->is_constant() && v->constant()->num_elements() == 1 && IsFloat(v->dtype()) &&
         holds(v->constant()->At(0));
}

/// Whether a reader of `v`, which is 1 - mask where `inverted`, makes numbers of it that hide keys.
bool HidesKeys(const Value& v, bool inverted, std::set<const Value*>& seen) {
  if (!seen.insert(&v).second) return false;
  return std::any_of(v.uses().begin(), v.uses().end(), [&](const Use& use) {
    const Node& n = *use.user;
    const Value* other = n.inputs().size() == 2 ? n.input(1 - use.operand) : nullptr;
    if (inverted && IsScalar(MultipliedBy(&v, n), [](double c) { return c <= -1000; })) return true;
    const bool inverts = !inverted && n.Is("Sub") && use.operand == 1 &&
                         IsScalar(other, [](double c) { return c == 1; });
    const bool moves =
        use.operand == 0 && n.IsAny(Trait::kConversion | Trait::kView | Trait::kStrided);
    return (inverts || moves) && n.output(0) && HidesKeys(*n.output(0), inverted || inverts, seen);
  });
}

}  // namespace

bool IsKeepMask(const Value& v) {
  std::set<const Value*> seen;
  return HidesKeys(v, false, seen);
}

std::optional<int64_t> LengthFill(const Value& v, const OpenExtents& extents) {
  return LengthSearch(extents).Find(v, false);
}

}  // namespace infer
