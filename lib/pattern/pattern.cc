#include "lib/pattern/pattern.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "lib/ir/op_name.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

template <typename F>
Pattern Changed(const Pattern& p, F&& change) {
  Pattern::Data d = *p;
  change(d);
  return Pattern(std::move(d));
}

std::string ToText(const AttrValue& v) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "absent"; }
    std::string operator()(int64_t x) const { return Cat(x); }
    std::string operator()(float x) const { return Cat(x); }
    std::string operator()(const std::string& x) const { return Cat('"', x, '"'); }
    std::string operator()(const Tensor& x) const { return ToString(x); }
    std::string operator()(const ValueType& x) const { return ToString(x); }
    std::string operator()(const std::vector<int64_t>& x) const {
      return Cat('[', Join(x, ","), ']');
    }
    std::string operator()(const std::vector<float>& x) const {
      return Cat('[', Join(x, ","), ']');
    }
    std::string operator()(const std::vector<std::string>& x) const {
      return Cat('[', Join(x, ","), ']');
    }
  };
  return std::visit(Visitor{}, v);
}

/// The relative error of a rounded constant.
double Rounding(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kF32: return 1e-4;
    case DType::kF16: return 0x1p-10;
    case DType::kBF16: return 0x1p-7;
    default: return 0;
  }
}

void CountUses(const Pattern& p, std::map<const Pattern::Data*, int>& uses) {
  if (++uses[p.id()] > 1) return;
  for (const Pattern& o : p->operands) CountUses(o, uses);
}

class Describer {
 public:
  explicit Describer(const Pattern& p) { CountUses(p, uses_); }
  std::string operator()(const Pattern& p) {
    if (uses_[p.id()] < 2) return Text(p);
    // What occurs again has a letter, and is spelled out where it first stands.
    const auto [it, is_new] =
        letters_.try_emplace(p.id(), static_cast<char>('a' + letters_.size() % 26));
    const std::string letter(1, it->second);
    return !is_new || p->kind == Pattern::Kind::kAny ? letter : Cat(letter, ':', Text(p));
  }

 private:
  std::string Text(const Pattern& p) {
    switch (p->kind) {
      case Pattern::Kind::kAny: return p->or_omitted ? "_?" : "_";
      case Pattern::Kind::kConstant: return p->where.empty() ? "const" : Conditions(p);
      case Pattern::Kind::kOneOf: return Cat('(', Operands(p, " | "), ')');
      case Pattern::Kind::kOp: break;
    }
    std::vector<std::string> names;
    for (const auto& op : p->ops) names.push_back(FullOpName(op.domain, op.name));
    return Cat(names.empty() ? "*" : Join(names, "|"), '(', Operands(p, ", "), ')');
  }
  std::string Conditions(const Pattern& p) {
    std::vector<std::string> texts;
    for (const auto& w : p->where) texts.push_back(w.text);
    return Join(texts, " and ");
  }
  std::string Operands(const Pattern& p, std::string_view separator) {
    std::vector<std::string> parts;
    for (const Pattern& o : p->operands) parts.push_back((*this)(o));
    if (p->more_inputs) parts.push_back("...");
    return Join(parts, separator);
  }
  std::map<const Pattern::Data*, int> uses_;
  std::map<const Pattern::Data*, char> letters_;
};

/// Numbers of the sub-patterns, each computed once: alternatives share what they have in common, so
/// that walking every path would take exponential time.
using Memo = std::map<const Pattern::Data*, int>;

/// Operators on the paths of the smallest alternatives; what is shared counts on each path.
int TreeSize(const Pattern& p, Memo& memo) {
  if (const auto it = memo.find(p.id()); it != memo.end()) return it->second;
  const bool one_of = p->kind == Pattern::Kind::kOneOf;
  constexpr int kMany = 1 << 20;
  int n = one_of && !p->operands.empty() ? kMany : 0;
  for (const Pattern& o : p->operands) {
    const int size = TreeSize(o, memo);
    n = one_of ? std::min(n, size) : std::min(n + size, kMany);
  }
  return memo[p.id()] = n + (p->kind == Pattern::Kind::kOp);
}

int CountOps(const Pattern& p, Memo& sizes, std::set<const Pattern::Data*>& seen) {
  if (!seen.insert(p.id()).second) return 0;
  if (p->kind == Pattern::Kind::kOneOf) {
    const auto smallest = std::min_element(p->operands.begin(), p->operands.end(),
                                           [&](const Pattern& a, const Pattern& b) {
                                             return TreeSize(a, sizes) < TreeSize(b, sizes);
                                           });
    return smallest == p->operands.end() ? 0 : CountOps(*smallest, sizes, seen);
  }
  int n = p->kind == Pattern::Kind::kOp;
  for (const Pattern& o : p->operands) n += CountOps(o, sizes, seen);
  return n;
}

int Height(const Pattern& p, Memo& memo) {
  if (const auto it = memo.find(p.id()); it != memo.end()) return it->second;
  int h = 0;
  for (const Pattern& o : p->operands) h = std::max(h, Height(o, memo));
  return memo[p.id()] = h + (p->kind == Pattern::Kind::kOp);
}

}  // namespace

Pattern Pattern::Shared() const {
  return Changed(*this, [](Data& d) { d.shared = true; });
}
Pattern Pattern::OrOmitted() const {
  return Changed(*this, [](Data& d) { d.or_omitted = true; });
}
Pattern Pattern::MoreInputs() const {
  return Changed(*this, [](Data& d) { d.more_inputs = true; });
}
Pattern Pattern::Ordered() const {
  return Changed(*this, [](Data& d) { d.ordered = true; });
}
Pattern Pattern::Output(size_t i) const {
  return Changed(*this, [i](Data& d) { d.output = i; });
}
Pattern Pattern::Where(std::string text, std::function<bool(const Value&)> holds) const {
  return Changed(*this, [&](Data& d) { d.where.push_back({std::move(text), std::move(holds)}); });
}
Pattern Pattern::With(std::string attr, AttrValue value) const {
  std::string text = Cat("made with ", attr, "=", ToText(value));
  return Where(std::move(text), [attr = std::move(attr), value = std::move(value)](const Value& v) {
    const Node& n = *v.producer();
    const auto it = n.attrs().find(attr);
    const AttrDef* def = n.def().FindAttr(attr);
    const AttrValue actual =
        it != n.attrs().end() ? it->second : (def ? def->default_value : AttrValue{});
    return AttrMap{{attr, actual}} == AttrMap{{attr, value}};
  });
}

Pattern Any() { return Pattern(); }
Pattern Constant() { return Pattern({.kind = Pattern::Kind::kConstant}); }
Pattern Scalar() {
  return Constant().Where("one number",
                          [](const Value& v) { return v.constant()->num_elements() == 1; });
}
Pattern Number(double value) {
  return Constant().Where(Cat("= ", static_cast<float>(value)),
                          [value](const Value& v) { return IsNumber(*v.constant(), value); });
}
Pattern Op(std::string_view names, std::vector<Pattern> operands) {
  std::vector<Pattern::OpName> ops;
  for (const std::string& name : Split(names == "*" ? "" : names, '|')) {
    if (name.empty()) continue;
    const size_t colons = name.find("::");
    if (colons == std::string::npos)
      ops.push_back({"", name});
    else
      ops.push_back({name.substr(0, colons), name.substr(colons + 2)});
  }
  return Pattern(
      {.kind = Pattern::Kind::kOp, .ops = std::move(ops), .operands = std::move(operands)});
}
std::vector<Pattern> OpResults(std::string_view names, const std::vector<Pattern>& operands,
                               size_t count) {
  Pattern::Data d = *Op(names, operands);
  if (count > 1) d.same_node = std::make_shared<const int>(0);
  std::vector<Pattern> results;
  for (d.output = 0; d.output < count; ++d.output) results.emplace_back(d);
  return results;
}
Pattern OneOf(std::vector<Pattern> alternatives) {
  return Pattern({.kind = Pattern::Kind::kOneOf, .operands = std::move(alternatives)});
}
Pattern Optional(std::string_view names, const Pattern& x) {
  return OneOf({Op(names, x).MoreInputs(), x});
}

Pattern UpTo(size_t most, const Pattern& x, const std::function<Pattern(const Pattern&)>& next) {
  Pattern p = x;
  for (size_t i = 0; i < most; ++i) p = OneOf({x, next(p)});
  return p;
}

std::string Describe(const Pattern& p) { return Describer(p)(p); }

std::vector<Pattern::OpName> RootOps(const Pattern::Data& p) {
  if (p.kind == Pattern::Kind::kOp) return p.ops;
  std::vector<Pattern::OpName> all;
  for (const Pattern& o : p.operands)
    for (Pattern::OpName& op : RootOps(*o)) {
      const bool known = std::any_of(all.begin(), all.end(), [&](const Pattern::OpName& a) {
        return a.domain == op.domain && a.name == op.name;
      });
      if (!known) all.push_back(std::move(op));
    }
  return all;
}

int Height(const Pattern& p) {
  Memo memo;
  return Height(p, memo);
}

int CountOps(const Pattern& p) {
  Memo sizes;
  std::set<const Pattern::Data*> seen;
  return CountOps(p, sizes, seen);
}

bool IsNumber(const Tensor& t, double wanted) {
  if (t.num_elements() == 0 || t.dtype() == DType::kString || t.dtype() == DType::kC64 ||
      t.dtype() == DType::kC128)
    return false;
  // A number that 16 bits can say is written exactly: 1.00005 is not 1.
  const bool exact = F16ToFloat(FloatToF16(static_cast<float>(wanted))) == wanted;
  const double tolerance = exact ? 0 : Rounding(t.dtype()) * std::abs(wanted);
  for (int64_t i = 0; i < t.num_elements(); ++i)
    if (t.At(i) != wanted && !(std::abs(t.At(i) - wanted) <= tolerance)) return false;
  return true;
}

}  // namespace infer
