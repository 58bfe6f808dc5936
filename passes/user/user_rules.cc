#include "passes/user/user_rules.h"

#include <algorithm>
#include <map>

#include "lib/ir/op_name.h"
#include "lib/support/strings.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// One `match`, compiled: what each of its names is bound to.
struct Alternative {
  PatternText text;
  std::map<std::string, Pattern, std::less<>> values;
  std::vector<Pattern> roots;
};

std::string ExtentText(const HoleText& h) {
  std::vector<std::string> parts;
  if (h.more_dims) parts.emplace_back("...");
  for (const Dim& d : h.dims) parts.push_back(d.ToString());
  return Cat("of shape [", Join(parts, ","), "]");
}

/// The extent of `v` that stands for dims[i] of the hole. Pre: HasExtents(v, h).
const Dim& ExtentOf(const Value& v, const HoleText& h, size_t i) {
  return v.shape()[static_cast<int>(i) - static_cast<int>(h.dims.size())];
}
/// Rank and the extents that the hole says as numbers. What is not known does not fit.
bool HasExtents(const Value& v, const HoleText& h) {
  const int rank = RankOf(v), wanted = static_cast<int>(h.dims.size());
  if (h.more_dims ? rank < wanted : rank != wanted) return false;
  for (size_t i = 0; i < h.dims.size(); ++i)
    if (h.dims[i].is_static() && !ExtentOf(v, h, i).KnownEqual(h.dims[i])) return false;
  return true;
}

Pattern HolePattern(const HoleText& h) {
  Pattern p = h.kind == HoleText::Kind::kAny        ? Any()
              : h.kind == HoleText::Kind::kConstant ? Constant()
                                                    : Scalar();
  if (!h.types.empty()) {
    std::vector<std::string_view> names;
    for (int i = 1; i < kNumDTypes; ++i)
      if (h.types.Has(static_cast<DType>(i))) names.push_back(Name(static_cast<DType>(i)));
    p = p.Where(Join(names, " or "), [types = h.types](const Value& v) {
      return v.type().is_tensor() && types.Has(v.dtype());
    });
  }
  if (h.has_shape) p = p.Where(ExtentText(h), [h](const Value& v) { return HasExtents(v, h); });
  return h.optional ? p.OrOmitted() : p;
}

/// A constant of the pattern fits every constant with its values, whatever its type; one number
/// fits any shape that is full of it.
Pattern ConstantPattern(const Tensor& wanted) {
  const bool number = IsFloat(wanted.dtype()) || IsInteger(wanted.dtype());
  if (number && wanted.num_elements() == 1) return Number(wanted.At(0));
  return Constant().Where(Cat("= ", ToString(wanted)), [wanted, number](const Value& v) {
    const Tensor& t = *v.constant();
    if (!number) return BitEqual(t, wanted);
    if (t.dims() != wanted.dims() || !(IsFloat(t.dtype()) || IsInteger(t.dtype()))) return false;
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      Tensor element(t.dtype(), {});
      element.Set(0, t.At(i));
      if (!IsNumber(element, wanted.At(i))) return false;
    }
    return true;
  });
}

/// An operand that must be omitted.
Pattern Omitted() {
  return Any().OrOmitted().Where("omitted", [](const Value&) { return false; });
}

std::string NameOf(const OpDef& def) { return FullOpName(def.domain, def.name); }

Alternative CompilePattern(const PatternText& text) {
  Alternative a{.text = text};
  for (const HoleText& h : text.holes) a.values.emplace(h.name, HolePattern(h));
  const std::vector<size_t> roots = text.Roots();
  const auto is_root = [&](const std::string& name) {
    return std::any_of(roots.begin(), roots.end(),
                       [&](size_t i) { return text.outputs[i] == name; });
  };
  for (const StatementText& s : text.statements) {
    if (s.constant) continue;
    std::vector<std::string> names;
    for (const OpDef* op : s.ops) names.push_back(NameOf(*op));
    std::vector<Pattern> operands;
    for (const std::string& o : s.operands) {
      const StatementText* maker = text.FindMaker(o);
      // The graph need not hold a constant once: each use stands for itself.
      operands.push_back(o.empty()                  ? Omitted()
                         : maker && maker->constant ? ConstantPattern(*maker->constant)
                                                    : a.values.at(o));
    }
    std::vector<Pattern> results = OpResults(Join(names, "|"), operands, s.results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (s.results[i].empty()) continue;
      Pattern p = results[i];
      for (const AttributeText& attr : s.attributes)
        if (attr.variable.empty()) p = p.With(attr.name, attr.value);
      const bool is_output = std::count(text.outputs.begin(), text.outputs.end(), s.results[i]) > 0;
      // Inner results that are outputs may have further readers.
      if (is_output && !is_root(s.results[i])) p = p.Shared();
      a.values.emplace(s.results[i], p);
    }
  }
  for (const size_t i : roots) a.roots.push_back(a.values.at(text.outputs[i]));
  return a;
}

/// The attribute or its default; monostate where there is neither.
AttrValue AttributeOf(const Node& n, const std::string& name) {
  const auto it = n.attrs().find(name);
  if (it != n.attrs().end()) return it->second;
  const AttrDef* def = n.def().FindAttr(name);
  return def ? def->default_value : AttrValue{};
}

/// Builds the replacement of one match.
class Builder {
 public:
  Builder(const Alternative& a, const PatternText& r, const Match& m, PatchBuilder& b)
      : a_(a), r_(r), m_(m), b_(b) {}

  Result<Value*> Run() {
    INFER_TRY(CheckSymbols());
    INFER_TRY(CheckVariables());
    for (const HoleText& h : r_.holes) values_[h.name] = m_[a_.values.at(h.name)];
    for (const StatementText& s : r_.statements) INFER_TRY(Add(s));
    const size_t root = a_.text.Roots()[0];
    for (size_t i = 0; i < r_.outputs.size(); ++i)
      if (i != root) b_.Replace(m_[a_.values.at(a_.text.outputs[i])], values_.at(r_.outputs[i]));
    return values_.at(r_.outputs[root]);
  }

 private:
  /// One symbol is one extent.
  Status CheckSymbols() const {
    std::map<std::string, std::pair<Dim, std::string>> extents;
    for (const HoleText& h : a_.text.holes) {
      const Value* v = m_[a_.values.at(h.name)];
      if (!v) continue;
      for (size_t i = 0; i < h.dims.size(); ++i) {
        if (!h.dims[i].is_symbolic()) continue;
        const Dim& found = ExtentOf(*v, h, i);
        const auto [it, is_new] =
            extents.try_emplace(h.dims[i].symbol(), std::pair(found, v->name()));
        if (!is_new && !it->second.first.KnownEqual(found))
          return InvalidModel(Cat("needs one extent ", h.dims[i].symbol(), ": it is ",
                                  it->second.first.ToString(), " in '", it->second.second, "' and ",
                                  found.ToString(), " in '", v->name(), "'"));
      }
    }
    return {};
  }

  const Node& NodeOf(const StatementText& s) const {
    const auto named = std::find_if(s.results.begin(), s.results.end(),
                                    [](const std::string& r) { return !r.empty(); });
    return m_.node(a_.values.at(*named));
  }

  /// One variable is one value, wherever it stands.
  Status CheckVariables() const {
    std::map<std::string, AttrValue> bound;
    for (const StatementText& s : a_.text.statements)
      for (const AttributeText& attr : s.attributes) {
        if (attr.variable.empty()) continue;
        AttrValue value = AttributeOf(NodeOf(s), attr.name);
        const auto [it, is_new] = bound.try_emplace(attr.variable, value);
        if (!is_new && AttrMap{{"", it->second}} != AttrMap{{"", value}})
          return InvalidModel(Cat("needs one value of $", attr.variable));
      }
    return {};
  }

  Status Add(const StatementText& s) {
    if (s.constant) {
      values_[s.results[0]] = b_.Const(*s.constant);
      return {};
    }
    AttrMap attrs;
    for (const AttributeText& attr : s.attributes) {
      AttrValue value = attr.value;
      if (!attr.variable.empty()) {
        const auto [maker, name] = a_.text.FindVariable(attr.variable);
        value = AttributeOf(NodeOf(*maker), name);
      }
      if (!std::holds_alternative<std::monostate>(value)) attrs[attr.name] = std::move(value);
    }
    std::vector<Value*> operands;
    for (const std::string& o : s.operands) operands.push_back(o.empty() ? nullptr : values_.at(o));
    NodeOptions options;
    options.num_outputs = s.results.size();
    INFER_ASSIGN(const Node* made, b_.Add(NameOf(*s.ops[0]), std::move(operands), std::move(attrs),
                                          std::move(options)));
    for (size_t i = 0; i < s.results.size(); ++i)
      if (!s.results[i].empty()) values_[s.results[i]] = made->output(i);
    return {};
  }

  const Alternative& a_;
  const PatternText& r_;
  const Match& m_;
  PatchBuilder& b_;
  std::map<std::string, Value*> values_;
};

Rule Compile(const RuleText& text) {
  auto alternatives = std::make_shared<std::vector<Alternative>>();
  for (const PatternText& p : text.matches) alternatives->push_back(CompilePattern(p));
  Rule rule;
  rule.name = text.name;
  if (alternatives->size() == 1) {
    const std::vector<Pattern>& roots = alternatives->front().roots;
    rule.match = roots[0];
    rule.also.assign(roots.begin() + 1, roots.end());
  } else {
    std::vector<Pattern> roots;
    for (const Alternative& a : *alternatives) roots.push_back(a.roots[0]);
    rule.match = OneOf(std::move(roots));
  }
  std::vector<std::string> made;
  for (const StatementText& s : text.replacement.statements)
    if (!s.ops.empty()) made.push_back(NameOf(*s.ops[0]));
  rule.doc = !text.doc.empty()
                 ? text.doc
                 : Cat(Describe(rule.match), " => ", made.empty() ? "nothing" : Join(made, ", "));
  rule.build = [alternatives, replacement = text.replacement, match = rule.match](
                   const Match& m, PatchBuilder& b) -> Result<Value*> {
    const size_t i = alternatives->size() > 1 ? m.choice(match) : 0;
    return Builder((*alternatives)[i], replacement, m, b).Run();
  };
  rule.fires_on = text.fires;
  for (const auto& [graph, reason] : text.silent) rule.silent_on.push_back({graph, reason});
  return rule;
}

}  // namespace

Result<std::vector<UserRule>> ParseUserRules(std::string_view text, const std::string& file,
                                             const OpRegistry& ops) {
  INFER_ASSIGN(std::vector<RuleText> texts, ParseRuleTexts(text, file, ops));
  std::vector<UserRule> rules;
  for (RuleText& t : texts) {
    Rule rule = Compile(t);
    rules.push_back({std::move(rule), std::move(t)});
  }
  return rules;
}

}  // namespace infer
