#include <memory>
#include <utility>
#include <vector>

#include "lib/ir/editor.h"
#include "lib/ir/op_name.h"
#include "lib/ir/text.h"
#include "lib/ir/text_literals.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int kMaxSubgraphDepth = 32;

/// Recursive descent over graphs and their statements.
class GraphParser {
 public:
  GraphParser(std::string_view text, const OpRegistry& ops, const ParseOptions& options)
      : in_(text, options.file, options.offset), ops_(ops), options_(options) {}

  Result<Graph> File() {
    INFER_TRY(in_.Keyword("graph"));
    INFER_ASSIGN(std::string name, in_.Name());
    INFER_ASSIGN(Graph g, GraphRest(std::move(name), true));
    if (!in_.AtEnd()) return in_.Error("text after the graph");
    return g;
  }

 private:
  /// (x: T, ...) -> (y: T, ...) { statements }
  Result<Graph> GraphRest(std::string name, bool typed_inputs) {
    if (++depth_ > kMaxSubgraphDepth) return in_.Error("subgraphs nest too deep");
    Graph g(ops_, std::move(name));
    GraphEditor editor(g);
    INFER_TRY(Inputs(g, editor, typed_inputs));
    INFER_TRY(in_.Expect("->"));
    INFER_ASSIGN(auto outputs, DeclaredOutputs());
    INFER_TRY(in_.Expect("{"));
    while (!in_.Accept("}")) INFER_TRY(Statement(g, editor));
    for (auto& [output, type] : outputs) {
      Value* v = g.FindValue(output);
      if (!v) return in_.Error(Cat("output '", output, "' is never defined"));
      auto met = Meet(v->type(), type);
      if (!met.ok()) return in_.Error(Cat("output '", output, "': ", met.status().message()));
      editor.SetType(v, *std::move(met));
      editor.MarkOutput(v);
    }
    --depth_;
    return g;
  }

  Status Inputs(Graph& g, GraphEditor& editor, bool typed) {
    INFER_TRY(in_.Expect("("));
    while (!in_.Accept(")")) {
      if (!g.inputs().empty()) INFER_TRY(in_.Expect(","));
      INFER_ASSIGN(std::string input, in_.Name());
      ValueType type;
      if (in_.Accept(":")) {
        INFER_ASSIGN(type, ParseType(in_));
      } else if (typed && !options_.parameters) {
        return in_.Error(Cat("input '", input, "' has no type"));
      }
      if (g.FindValue(input)) return in_.Error(Cat("'", input, "' is defined twice"));
      editor.AddInput(std::move(input), std::move(type));
    }
    return {};
  }

  Result<std::vector<std::pair<std::string, ValueType>>> DeclaredOutputs() {
    INFER_TRY(in_.Expect("("));
    std::vector<std::pair<std::string, ValueType>> outputs;
    while (!in_.Accept(")")) {
      if (!outputs.empty()) INFER_TRY(in_.Expect(","));
      auto& [name, type] = outputs.emplace_back();
      INFER_ASSIGN(name, in_.Name());
      if (in_.Accept(":")) {
        INFER_ASSIGN(type, ParseType(in_));
      }
    }
    return outputs;
  }

  /// a, b = Op(x, y) [captures] {attributes}   |   c = const ...
  Status Statement(Graph& g, GraphEditor& editor) {
    NodeOptions options;
    do {
      INFER_ASSIGN(std::string result, in_.Name());
      if (result == "_") result.clear();
      if (!result.empty() && g.FindValue(result))
        return in_.Error(Cat("'", result, "' is defined twice"));
      options.output_names.push_back(std::move(result));
    } while (in_.Accept(","));
    INFER_TRY(in_.Expect("="));
    if (in_.AcceptKeyword("const")) {
      INFER_ASSIGN(Tensor t, ParseConstant(in_));
      editor.AddConstant(std::move(t), options.output_names[0]);
      return {};
    }
    AttrMap attrs;
    INFER_ASSIGN(const OpDef* def, Operator(attrs));
    std::vector<Value*> operands;
    INFER_TRY(Operands(g, operands, options));
    INFER_TRY(Attributes(*def, attrs, options));
    auto node = editor.AddNode(*def, std::move(operands), std::move(attrs), std::move(options));
    return node.ok() ? Status() : in_.Error(node.status().message());
  }

  /// Op | domain::Op | @name, a body's parameter that says "Op" or "Op {attributes}"
  Result<const OpDef*> Operator(AttrMap& attrs) {
    if (!in_.Accept("@")) return NamedOperator();
    INFER_ASSIGN(const AttrValue value, Parameter());
    const auto* text = std::get_if<std::string>(&value);
    if (!text) return in_.Error("the parameter that names an operator is no string");
    static const ParseOptions kNoParameters;
    GraphParser parser(*text, ops_, kNoParameters);
    INFER_ASSIGN(const OpDef* def, parser.NamedOperator());
    NodeOptions options;
    INFER_TRY(parser.Attributes(*def, attrs, options));
    if (!parser.in_.AtEnd() || !options.subgraphs.empty())
      return in_.Error(Cat("'", *text, "' is no operator with attributes"));
    return def;
  }

  Result<const OpDef*> NamedOperator() {
    INFER_ASSIGN(std::string op, in_.Name());
    std::string domain;
    if (in_.Accept("::")) {
      domain = std::move(op);
      INFER_ASSIGN(op, in_.Name());
    }
    if (const OpDef* def = ops_.Find(domain, op)) return def;
    return in_.Error(Cat("no operator ", FullOpName(domain, op)));
  }

  /// (x, _, y) [captures]
  Status Operands(const Graph& g, std::vector<Value*>& operands, NodeOptions& options) {
    INFER_TRY(in_.Expect("("));
    while (!in_.Accept(")")) {
      if (!operands.empty()) INFER_TRY(in_.Expect(","));
      INFER_ASSIGN(Value * v, Operand(g));
      operands.push_back(v);
    }
    if (!in_.Accept("[")) return {};
    while (!in_.Accept("]")) {
      if (options.num_captures > 0) INFER_TRY(in_.Expect(","));
      INFER_ASSIGN(Value * v, Operand(g));
      if (!v) return in_.Error("a capture cannot be omitted");
      operands.push_back(v);
      ++options.num_captures;
    }
    return {};
  }

  Result<Value*> Operand(const Graph& g) {
    INFER_ASSIGN(std::string name, in_.Name());
    if (name == "_") return static_cast<Value*>(nullptr);
    Value* v = g.FindValue(name);
    if (!v) return in_.Error(Cat("'", name, "' is not defined"));
    return v;
  }

  /// {a=1, name="n", body=graph(...) -> (...) {...}} | nothing
  Status Attributes(const OpDef& def, AttrMap& attrs, NodeOptions& options) {
    if (!in_.Accept("{")) return {};
    for (bool first = true; !in_.Accept("}"); first = false) {
      if (!first) INFER_TRY(in_.Expect(","));
      INFER_ASSIGN(std::string name, in_.Name());
      INFER_TRY(in_.Expect("="));
      if (name == "name" && in_.Peek() == '"' && !def.FindAttr("name")) {
        INFER_ASSIGN(options.name, in_.String());
        continue;
      }
      const AttrDef* a = def.FindAttr(name);
      if (!a) return in_.Error(Cat(def.name, " has no attribute '", name, "'"));
      if (a->kind == AttrKind::kGraph) {
        INFER_TRY(in_.Keyword("graph"));
        INFER_ASSIGN(Graph sub, GraphRest(name, false));
        options.subgraphs.emplace_back(std::move(name), std::make_unique<Graph>(std::move(sub)));
        continue;
      }
      INFER_ASSIGN(AttrValue v, Attribute(a->kind));
      if (!std::holds_alternative<std::monostate>(v)) attrs[std::move(name)] = std::move(v);
    }
    return {};
  }

  /// An attribute's value; monostate where a body's @parameter has none.
  Result<AttrValue> Attribute(AttrKind kind) {
    return in_.Accept("@") ? Parameter() : ParseAttribute(in_, kind);
  }

  Result<AttrValue> Parameter() {
    INFER_ASSIGN(std::string name, in_.Name());
    if (!options_.parameters) return in_.Error("@ stands outside a body");
    auto it = options_.parameters->find(name);
    if (it == options_.parameters->end()) return in_.Error(Cat("no parameter @", name));
    return it->second;
  }

  TextCursor in_;
  const OpRegistry& ops_;
  const ParseOptions& options_;
  int depth_ = 0;
};

}  // namespace

Result<Graph> ParseGraph(std::string_view text, const OpRegistry& ops,
                         const ParseOptions& options) {
  return GraphParser(text, ops, options).File();
}

}  // namespace infer
