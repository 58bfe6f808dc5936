#include "passes/user/rule_text.h"

#include <algorithm>
#include <cctype>

#include "lib/ir/op_name.h"
#include "lib/ir/text.h"
#include "lib/ir/text_literals.h"
#include "lib/support/strings.h"
#include "passes/user/rule_check.h"

namespace infer {

const HoleText* PatternText::FindHole(std::string_view name) const {
  for (const HoleText& h : holes)
    if (h.name == name) return &h;
  return nullptr;
}
const StatementText* PatternText::FindMaker(std::string_view name) const {
  for (const StatementText& s : statements)
    if (std::find(s.results.begin(), s.results.end(), name) != s.results.end()) return &s;
  return nullptr;
}

namespace {

class RuleParser {
 public:
  RuleParser(std::string_view text, const std::string& file, const OpRegistry& ops)
      : in_(text, file), file_(file), ops_(ops) {}

  Result<std::vector<RuleText>> File() {
    std::vector<RuleText> rules;
    while (!in_.AtEnd()) {
      INFER_ASSIGN(RuleText rule, Rule());
      for (const RuleText& r : rules)
        if (r.name == rule.name)
          return in_.ErrorAt(rule.at, Cat("there are two rules '", rule.name, "'"));
      INFER_TRY(CheckRuleText(rule, in_));
      rules.push_back(std::move(rule));
    }
    return rules;
  }

 private:
  /// rule NAME "doc" { match GRAPH ... replace GRAPH fires GRAPH ... silent GRAPH because "..." }
  Result<RuleText> Rule() {
    RuleText rule{.at = in_.offset()};
    INFER_TRY(in_.Keyword("rule"));
    INFER_ASSIGN(rule.name, KebabName());
    if (in_.Peek() == '"') {
      INFER_ASSIGN(rule.doc, in_.String());
    }
    INFER_TRY(in_.Expect("{"));
    bool has_replacement = false;
    while (!in_.Accept("}")) {
      const size_t at = in_.offset();
      if (in_.AcceptKeyword("match")) {
        INFER_ASSIGN(rule.matches.emplace_back(), Pattern(true));
      } else if (in_.AcceptKeyword("replace")) {
        if (has_replacement) return in_.ErrorAt(at, "there is a second replacement");
        INFER_ASSIGN(rule.replacement, Pattern(false));
        has_replacement = true;
      } else if (in_.AcceptKeyword("fires")) {
        INFER_ASSIGN(rule.fires.emplace_back(), Example());
      } else if (in_.AcceptKeyword("silent")) {
        auto& [graph, reason] = rule.silent.emplace_back();
        INFER_ASSIGN(graph, Example());
        INFER_TRY(in_.Keyword("because"));
        INFER_ASSIGN(reason, in_.String());
      } else {
        return in_.Error("expected 'match', 'replace', 'fires', 'silent' or '}'");
      }
    }
    rule.source = std::string(in_.text().substr(rule.at, in_.consumed() - rule.at));
    if (rule.matches.empty()) return in_.ErrorAt(rule.at, "the rule has no 'match'");
    if (!has_replacement) return in_.ErrorAt(rule.at, "the rule has no 'replace'");
    return rule;
  }

  /// Letters, digits and '-'; a Name of the text form has no '-'.
  Result<std::string> KebabName() {
    const size_t at = in_.offset();
    INFER_ASSIGN(std::string name, in_.Name());
    while (in_.Accept("-")) {
      INFER_ASSIGN(const std::string more, in_.Name());
      name += "-" + more;
    }
    for (char c : name)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_')
        return in_.ErrorAt(at, Cat("'", name, "' is no name of a rule: letters, digits, - and _"));
    return name;
  }

  /// graph NAME(holes) -> (outputs) { statements }
  Result<PatternText> Pattern(bool is_match) {
    PatternText p;
    p.at = in_.offset();
    INFER_TRY(in_.Keyword("graph"));
    INFER_TRY(in_.Name().status());
    INFER_TRY(in_.Expect("("));
    while (!in_.Accept(")")) {
      if (!p.holes.empty()) INFER_TRY(in_.Expect(","));
      INFER_ASSIGN(HoleText hole, Hole());
      INFER_TRY(CheckFresh(p, hole.name, hole.at));
      p.holes.push_back(std::move(hole));
    }
    INFER_TRY(in_.Expect("->"));
    INFER_TRY(in_.Expect("("));
    const size_t outputs_at = in_.offset();
    while (!in_.Accept(")")) {
      if (!p.outputs.empty()) INFER_TRY(in_.Expect(","));
      INFER_ASSIGN(p.outputs.emplace_back(), in_.Name());
    }
    INFER_TRY(in_.Expect("{"));
    while (!in_.Accept("}")) {
      INFER_ASSIGN(StatementText s, Statement(p, is_match));
      p.statements.push_back(std::move(s));
    }
    if (p.outputs.empty()) return in_.ErrorAt(outputs_at, "there is no output");
    for (const std::string& o : p.outputs)
      if (!p.FindHole(o) && !p.FindMaker(o))
        return in_.ErrorAt(outputs_at, Cat("output '", o, "' is never defined"));
    return p;
  }

  /// x   x: const f32|f16[2,N,?]   k: scalar   b?: f32[...,N]
  Result<HoleText> Hole() {
    HoleText hole;
    hole.at = in_.offset();
    INFER_ASSIGN(hole.name, in_.Name());
    hole.optional = in_.Accept("?");
    if (!in_.Accept(":")) return hole;
    if (in_.AcceptKeyword("const"))
      hole.kind = HoleText::Kind::kConstant;
    else if (in_.AcceptKeyword("scalar"))
      hole.kind = HoleText::Kind::kScalar;
    const char next = in_.Peek();
    if (next == ',' || next == ')') return hole;
    if (!in_.Accept("?") && next != '[') INFER_TRY(Types(hole));
    if (in_.Peek() == '[') INFER_TRY(Extents(hole));
    return hole;
  }

  Status Types(HoleText& hole) {
    do {
      const size_t at = in_.offset();
      INFER_ASSIGN(const std::string name, in_.Name());
      const auto type = ParseDType(name);
      if (!type && name == "float")
        hole.types = hole.types | kFloatsBF16;
      else if (!type)
        return in_.ErrorAt(at, Cat("no element type '", name, "'"));
      else
        hole.types = hole.types | TypeSet(*type);
    } while (in_.Accept("|"));
    return {};
  }

  Status Extents(HoleText& hole) {
    INFER_TRY(in_.Expect("["));
    if (in_.Accept("*")) return in_.Expect("]");
    hole.has_shape = true;
    for (bool first = true; !in_.Accept("]"); first = false) {
      if (!first) INFER_TRY(in_.Expect(","));
      if (first && in_.Accept("...")) {
        hole.more_dims = true;
      } else if (in_.Accept("?")) {
        hole.dims.emplace_back();
      } else if (std::isdigit(static_cast<unsigned char>(in_.Peek()))) {
        INFER_ASSIGN(const int64_t extent, in_.Int());
        hole.dims.emplace_back(extent);
      } else {
        INFER_ASSIGN(std::string symbol, in_.Name());
        if (symbol.empty()) return in_.Error("a dimension has no name");
        hole.dims.push_back(Dim::Symbol(std::move(symbol)));
      }
    }
    return {};
  }

  Status CheckFresh(const PatternText& p, const std::string& name, size_t at) const {
    if (name.empty() || name == "_") return in_.ErrorAt(at, "a name is missing");
    if (p.FindHole(name) || p.FindMaker(name))
      return in_.ErrorAt(at, Cat("'", name, "' is defined twice"));
    return {};
  }

  Result<StatementText> Statement(const PatternText& p, bool is_match) {
    StatementText s;
    s.at = in_.offset();
    do {
      const size_t at = in_.offset();
      std::string result;
      INFER_ASSIGN(result, in_.Name());
      if (result == "_")
        result.clear();
      else
        INFER_TRY(CheckFresh(p, result, at));
      if (!result.empty() &&
          std::find(s.results.begin(), s.results.end(), result) != s.results.end())
        return in_.ErrorAt(at, Cat("'", result, "' is defined twice"));
      s.results.push_back(std::move(result));
    } while (in_.Accept(","));
    INFER_TRY(in_.Expect("="));
    if (in_.AcceptKeyword("const")) {
      if (s.results.size() != 1) return in_.ErrorAt(s.at, "a constant is one value");
      INFER_ASSIGN(s.constant, ParseConstant(in_));
      return s;
    }
    do {
      INFER_ASSIGN(s.ops.emplace_back(), Operator());
    } while (is_match && in_.Accept("|"));
    INFER_TRY(Operands(p, s));
    INFER_TRY(Attributes(s, is_match));
    INFER_TRY(CheckArity(s, is_match));
    return s;
  }

  Result<const OpDef*> Operator() {
    const size_t at = in_.offset();
    INFER_ASSIGN(std::string op, in_.Name());
    std::string domain;
    if (in_.Accept("::")) {
      domain = std::move(op);
      INFER_ASSIGN(op, in_.Name());
    }
    const OpDef* def = ops_.Find(domain, op);
    if (!def || def->retired())
      return in_.ErrorAt(at, Cat("no operator ", FullOpName(domain, op),
                                 def ? " (any more: it becomes others on import)" : ""));
    return def;
  }

  Status Operands(const PatternText& p, StatementText& s) {
    INFER_TRY(in_.Expect("("));
    while (!in_.Accept(")")) {
      if (!s.operands.empty()) INFER_TRY(in_.Expect(","));
      const size_t at = in_.offset();
      std::string name;
      INFER_ASSIGN(name, in_.Name());
      if (name == "_")
        name.clear();
      else if (!p.FindHole(name) && !p.FindMaker(name))
        return in_.ErrorAt(at, Cat("'", name, "' is not defined"));
      s.operands.push_back(std::move(name));
    }
    if (in_.Peek() == '[') return in_.Error("a rule has no captures");
    return {};
  }

  Status Attributes(StatementText& s, bool is_match) {
    if (!in_.Accept("{")) return {};
    while (!in_.Accept("}")) {
      if (!s.attributes.empty()) INFER_TRY(in_.Expect(","));
      AttributeText a{.name = {}, .at = in_.offset()};
      INFER_ASSIGN(a.name, in_.Name());
      const AttrDef* def = nullptr;
      for (const OpDef* op : s.ops) {
        const AttrDef* found = op->FindAttr(a.name);
        if (!found) return in_.ErrorAt(a.at, Cat(op->name, " has no attribute '", a.name, "'"));
        if (def && def->kind != found->kind)
          return in_.ErrorAt(a.at, Cat("'", a.name, "' is not one kind in all operators"));
        def = found;
      }
      if (def->kind == AttrKind::kGraph) return in_.ErrorAt(a.at, "a rule has no subgraphs");
      INFER_TRY(in_.Expect("="));
      if (in_.Accept("$")) {
        INFER_ASSIGN(a.variable, in_.Name());
      } else {
        INFER_ASSIGN(a.value, ParseAttribute(in_, def->kind));
      }
      s.attributes.push_back(std::move(a));
    }
    if (is_match) return {};
    for (const AttrDef& def : s.ops[0]->attrs) {
      const bool given = std::any_of(s.attributes.begin(), s.attributes.end(),
                                     [&](const AttributeText& a) { return a.name == def.name; });
      if (def.required && !given)
        return in_.ErrorAt(s.at, Cat(s.ops[0]->name, " needs the attribute '", def.name, "'"));
    }
    return {};
  }

  Status CheckArity(const StatementText& s, bool is_match) const {
    for (const OpDef* op : s.ops) {
      const bool too_few = !is_match && s.operands.size() < op->min_inputs();
      if (too_few || s.operands.size() > op->max_inputs())
        return in_.ErrorAt(s.at, Cat(op->name, " cannot take ", s.operands.size(), " operands"));
      if (s.results.size() > op->max_outputs() ||
          (!is_match && s.results.size() < op->min_outputs()))
        return in_.ErrorAt(s.at, Cat(op->name, " cannot make ", s.results.size(), " results"));
    }
    return {};
  }

  /// "graph ..." in quotes, or the graph as it is.
  Result<std::string> Example() {
    if (in_.Peek() == '"') {
      const size_t at = in_.offset();
      INFER_ASSIGN(std::string text, in_.String());
      const auto g = ParseGraph(text, ops_);
      if (!g.ok()) return in_.ErrorAt(at, Cat("in this example: ", g.status().message()));
      return text;
    }
    const size_t start = in_.offset();
    INFER_TRY(in_.Keyword("graph"));
    int depth = 0;
    for (bool begun = false; !begun || depth > 0;) {
      if (in_.AtEnd()) return in_.ErrorAt(start, "the example does not end");
      if (in_.Peek() == '"') {
        INFER_TRY(in_.String().status());
      } else if (in_.Accept("{")) {
        ++depth;
        begun = true;
      } else if (in_.Accept("}")) {
        --depth;
      } else {
        in_.Accept(std::string(1, in_.Peek()));
      }
    }
    const size_t end = in_.consumed();
    INFER_TRY(
        ParseGraph(in_.text().substr(0, end), ops_, {.file = file_, .offset = start}).status());
    return std::string(in_.text().substr(start, end - start));
  }

  TextCursor in_;
  const std::string& file_;
  const OpRegistry& ops_;
};

}  // namespace

Result<std::vector<RuleText>> ParseRuleTexts(std::string_view text, const std::string& file,
                                             const OpRegistry& ops) {
  return RuleParser(text, file, ops).File();
}

}  // namespace infer
