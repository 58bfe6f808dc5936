#include "tools/common/length_inputs.h"

#include <deque>
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

  /// As MostLength, or as PositionsOf where it `is_index`.
  std::optional<int64_t> Most(const Value& v, bool is_index) const {
    std::set<const Value*> seen = {&v};
    std::deque<const Value*> forms = {&v};
    for (; !forms.empty(); forms.pop_front())
      for (const Use& use : forms.front()->uses()) {
        const Node& n = *use.user;
        if (const auto most = MostOf(n, use.operand, is_index)) return most;
        if (use.operand == 0 && n.output(0) && IsSame(n) && seen.insert(n.output(0)).second)
          forms.push_back(n.output(0));
      }
    return std::nullopt;
  }

  /// What `v` must hold, by the first reader of it, or of what follows from it, that says so.
  std::optional<int64_t> Find(const Value& v) const {
    std::set<Form> seen = {{&v, false}};
    std::deque<Form> forms(seen.begin(), seen.end());
    for (; !forms.empty(); forms.pop_front()) {
      const auto [value, summed] = forms.front();
      for (const Use& use : value->uses()) {
        const Node& n = *use.user;
        if (n.Is("GroupQueryAttention", "com.microsoft") &&
            (use.operand == kLastKey || use.operand == kTotal)) {
          if (summed) return 1;
          if (const auto total = TotalOf(n)) return *total - (use.operand == kLastKey ? 1 : 0);
        }
        if (!n.output(0) || !Follows(n, use.operand, summed)) continue;
        const Form next{n.output(0), summed || n.Is("ReduceSum")};
        if (seen.insert(next).second) forms.push_back(next);
      }
    }
    return std::nullopt;
  }

 private:
  using Form = std::pair<const Value*, bool>;  // and whether it is a sum over what the input holds

  static bool Follows(const Node& n, size_t operand, bool summed) {
    if (n.Is("Add") || n.Is("Sub")) return summed && n.input(1 - operand)->is_constant();
    return operand == 0 && (IsCast(n) || n.Is(Trait::kView) || n.Is("ReduceSum"));
  }

  /// Whether its elements are those of its first operand.
  static bool IsSame(const Node& n) {
    return n.IsAny(Trait::kConversion | Trait::kView | Trait::kStrided) || n.Is("Expand");
  }

  std::optional<int64_t> MostOf(const Node& n, size_t operand, bool is_index) const {
    constexpr size_t kSequenceLengths = 4;
    if (!is_index && IsRecurrentLayer(n) && operand == kSequenceLengths)
      return Extent(n.input(0), n.AttrOr<int64_t>("layout", 0) != 0 ? 1 : 0);
    const bool compares = n.inputs().size() == 2 && n.output(0) &&
                          n.output(0)->dtype() == DType::kBool && n.Is("Equal") == is_index;
    return compares && n.input(0)->dtype() != DType::kBool ? Positions(n.input(1 - operand))
                                                           : std::nullopt;
  }

  /// How many there are, where `v` holds 0, 1, 2, ...
  std::optional<int64_t> Positions(const Value* v) const {
    while (v->producer() && IsSame(*v->producer())) v = v->producer()->input(0);
    if (v->producer() && v->producer()->Is("Range")) return Extent(v, 0);
    if (!v->is_constant() || !IsInteger(v->dtype())) return std::nullopt;
    const Tensor& t = *v->constant();
    for (int64_t i = 0; i < t.num_elements(); ++i)
      if (t.IntAt(i) != i) return std::nullopt;
    return t.num_elements() > 1 ? std::optional(t.num_elements()) : std::nullopt;
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
};

bool IsScalar(const Value* v, bool (*holds)(double)) {
  return v && v->is_constant() && v->constant()->num_elements() == 1 && IsFloat(v->dtype()) &&
         holds(v->constant()->At(0));
}

struct MaskForm {
  const Value* value;
  bool inverted;  ///< 1 - mask
};

/// Whether `n`, which reads it, makes numbers of it that hide keys.
bool HidesKeys(const MaskForm& form, const Node& n) {
  return form.inverted &&
         IsScalar(MultipliedBy(form.value, n), [](double c) { return c <= -1000; });
}

/// The same mask as `use.user` makes it of it; nullopt: something else.
std::optional<MaskForm> FormBehind(const MaskForm& form, const Use& use) {
  const Node& n = *use.user;
  if (!n.output(0)) return std::nullopt;
  const Value* other = n.inputs().size() == 2 ? n.input(1 - use.operand) : nullptr;
  if (!form.inverted && n.Is("Sub") && use.operand == 1 &&
      IsScalar(other, [](double c) { return c == 1; }))
    return MaskForm{n.output(0), true};
  if (use.operand == 0 && n.IsAny(Trait::kConversion | Trait::kView | Trait::kStrided))
    return MaskForm{n.output(0), form.inverted};
  return std::nullopt;
}

}  // namespace

bool IsKeepMask(const Value& v) {
  std::set<const Value*> seen = {&v};
  std::vector<MaskForm> forms = {{&v, false}};
  while (!forms.empty()) {
    const MaskForm form = forms.back();
    forms.pop_back();
    for (const Use& use : form.value->uses()) {
      if (HidesKeys(form, *use.user)) return true;
      const auto behind = FormBehind(form, use);
      if (behind && seen.insert(behind->value).second) forms.push_back(*behind);
    }
  }
  return false;
}

std::optional<int64_t> MostLength(const Value& v, const OpenExtents& extents) {
  return LengthSearch(extents).Most(v, false);
}

std::optional<int64_t> PositionsOf(const Value& v, const OpenExtents& extents) {
  return LengthSearch(extents).Most(v, true);
}

std::optional<int64_t> LengthFill(const Value& v, const OpenExtents& extents) {
  return LengthSearch(extents).Find(v);
}

}  // namespace infer
