#include "passes/user/rule_check.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {

std::pair<const StatementText*, std::string> PatternText::FindVariable(
    std::string_view variable) const {
  for (const StatementText& s : statements)
    for (const AttributeText& a : s.attributes)
      if (a.variable == variable) return {&s, a.name};
  const StatementText* only = nullptr;
  for (const StatementText& s : statements) {
    const bool has = !s.ops.empty() && std::all_of(s.ops.begin(), s.ops.end(), [&](const auto* op) {
      return op->FindAttr(variable) != nullptr;
    });
    if (has && only) return {nullptr, ""};
    if (has) only = &s;
  }
  return {only, only ? std::string(variable) : ""};
}

std::set<std::string> PatternText::Cone(std::string_view root) const {
  std::set<std::string> cone;
  std::vector<std::string> open = {std::string(root)};
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (name.empty() || !cone.insert(name).second) continue;
    if (const StatementText* s = FindMaker(name))
      open.insert(open.end(), s->operands.begin(), s->operands.end());
  }
  return cone;
}

bool PatternText::IsAncestor(std::string_view output, std::string_view of) const {
  return output != of && Cone(of).count(std::string(output)) > 0;
}

std::vector<size_t> PatternText::Roots() const {
  std::vector<size_t> roots;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (std::none_of(outputs.begin(), outputs.end(),
                     [&](const std::string& other) { return IsAncestor(outputs[i], other); }))
      roots.push_back(i);
  return roots;
}

namespace {

constexpr size_t kMaxStatements = 200;

Status CheckPattern(const PatternText& p, const TextCursor& file) {
  if (p.statements.size() > kMaxStatements)
    return file.ErrorAt(p.at, Cat("more than ", kMaxStatements, " statements"));
  std::set<std::string> used;
  for (size_t i = 0; i < p.outputs.size(); ++i) {
    const StatementText* s = p.FindMaker(p.outputs[i]);
    if (!s || s->constant)
      return file.ErrorAt(p.at, Cat("output '", p.outputs[i], "' is not made by an operator"));
    if (std::count(p.outputs.begin(), p.outputs.end(), p.outputs[i]) > 1)
      return file.ErrorAt(p.at, Cat("output '", p.outputs[i], "' stands there twice"));
    used.merge(p.Cone(p.outputs[i]));
  }
  for (const HoleText& h : p.holes)
    if (!used.count(h.name))
      return file.ErrorAt(h.at,
                          Cat("no output needs '", h.name, "': it could be bound to nothing"));
  for (const StatementText& s : p.statements)
    if (std::none_of(s.results.begin(), s.results.end(),
                     [&](const std::string& r) { return used.count(r) > 0; }))
      return file.ErrorAt(s.at, Cat("no output needs '", s.results[0], "'"));
  // Each further root is found over a value that it shares with those before it.
  std::set<std::string> bound;
  for (const size_t i : p.Roots()) {
    std::set<std::string> cone = p.Cone(p.outputs[i]);
    const bool shares = std::any_of(cone.begin(), cone.end(), [&](const std::string& name) {
      const StatementText* s = p.FindMaker(name);
      return bound.count(name) && !(s && s->constant);
    });
    if (!bound.empty() && !shares)
      return file.ErrorAt(
          p.at, Cat("output '", p.outputs[i], "' shares no value with the outputs before it"));
    bound.merge(cone);
  }
  return {};
}

/// The kind of the attribute that `$variable` stands for.
AttrKind KindOf(const std::pair<const StatementText*, std::string>& source) {
  return source.first->ops[0]->FindAttr(source.second)->kind;
}

Status CheckVariables(const PatternText& match, const PatternText& replacement,
                      const TextCursor& file) {
  for (const StatementText& s : replacement.statements)
    for (const AttributeText& a : s.attributes) {
      if (a.variable.empty()) continue;
      const auto source = match.FindVariable(a.variable);
      if (!source.first)
        return file.ErrorAt(a.at, Cat("$", a.variable, " is not bound: say {", a.name, "=$",
                                      a.variable, "} at one operator of the pattern"));
      if (KindOf(source) != s.ops[0]->FindAttr(a.name)->kind)
        return file.ErrorAt(a.at, Cat("$", a.variable, " is of another kind than '", a.name, "'"));
    }
  for (const StatementText& s : match.statements)
    for (const AttributeText& a : s.attributes)
      if (!a.variable.empty() &&
          KindOf(match.FindVariable(a.variable)) != s.ops[0]->FindAttr(a.name)->kind)
        return file.ErrorAt(a.at, Cat("$", a.variable, " is bound to two kinds of attributes"));
  return {};
}

}  // namespace

Status CheckRuleText(const RuleText& rule, const TextCursor& file) {
  const PatternText& r = rule.replacement;
  for (const HoleText& h : r.holes)
    if (h.kind != HoleText::Kind::kAny || h.optional || h.has_shape || !h.types.empty())
      return file.ErrorAt(h.at, Cat("what '", h.name, "' may be stands in 'match'"));
  for (const PatternText& m : rule.matches) {
    INFER_TRY(CheckPattern(m, file));
    if (rule.matches.size() > 1 && m.outputs.size() > 1)
      return file.ErrorAt(m.at, "alternatives have one output each");
    if (m.outputs.size() != r.outputs.size())
      return file.ErrorAt(r.at, Cat("the replacement has ", r.outputs.size(),
                                    " outputs, the pattern has ", m.outputs.size()));
    for (const HoleText& h : r.holes) {
      const HoleText* bound = m.FindHole(h.name);
      if (!bound) return file.ErrorAt(h.at, Cat("'", h.name, "' is no hole of the pattern"));
      const bool is_output = std::count(r.outputs.begin(), r.outputs.end(), h.name) > 0;
      if (bound->optional && is_output)
        return file.ErrorAt(h.at, Cat("'", h.name, "' may be omitted: it cannot be an output"));
    }
    INFER_TRY(CheckVariables(m, r, file));
  }
  return {};
}

}  // namespace infer
