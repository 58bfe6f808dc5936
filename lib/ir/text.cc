#include "lib/ir/text.h"

#include <cctype>
#include <charconv>
#include <cmath>

#include "lib/ir/editor.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int kMaxDepth = 32;  // nested subgraphs and types

bool IsNameChar(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/';
}

/// Recursive descent over the text; every method leaves the cursor behind what it read.
class Parser {
 public:
  Parser(std::string_view text, const OpRegistry& ops, const ParseOptions& options)
      : text_(text), ops_(ops), options_(options) {}

  Result<Graph> File() {
    INFER_TRY(Keyword("graph"));
    INFER_ASSIGN(std::string name, Name());
    INFER_ASSIGN(Graph g, GraphRest(std::move(name), true));
    Skip();
    if (at_ != text_.size()) return Error("text after the graph");
    return g;
  }

 private:
  Status Error(const std::string& what) const {
    size_t line = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n';
    return InvalidModel(Cat("line ", line, ": ", what));
  }

  void Skip() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_]))) {
        ++at_;
      } else if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  char Peek() {
    Skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Accept(std::string_view token) {
    Skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  Status Expect(std::string_view token) {
    if (Accept(token)) return {};
    const char c = Peek();
    return Error(Cat("expected '", token, "', found ", c ? Cat("'", c, "'") : "the end"));
  }
  /// A bare word that must be `word`.
  Status Keyword(std::string_view word) {
    const size_t start = (Skip(), at_);
    while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
    if (text_.substr(start, at_ - start) == word) return {};
    at_ = start;
    return Error(Cat("expected '", word, "'"));
  }
  bool AcceptKeyword(std::string_view word) {
    const size_t start = (Skip(), at_);
    if (Keyword(word).ok()) return true;
    at_ = start;
    return false;
  }

  /// name | "any text"
  Result<std::string> Name() {
    if (Peek() == '"') return String();
    const size_t start = at_;
    while (at_ < text_.size() && IsNameChar(text_[at_])) ++at_;
    if (at_ == start) return Error("expected a name");
    return std::string(text_.substr(start, at_ - start));
  }

  Result<std::string> String() {
    INFER_TRY(Expect("\""));
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\') {
        if (at_ >= text_.size()) break;
        c = text_[at_++];
        if (c == 'n') {
          c = '\n';
        } else if (c == 'x') {
          int value = 0;
          const char* begin = text_.data() + at_;
          const char* end = text_.data() + std::min(at_ + 2, text_.size());
          if (std::from_chars(begin, end, value, 16).ptr != begin + 2)
            return Error("bad \\x escape");
          at_ += 2;
          c = static_cast<char>(value);
        }
      }
      out += c;
    }
    if (at_ >= text_.size()) return Error("unterminated string");
    ++at_;
    return out;
  }

  /// The characters of a number: 12, -1.5e-3, inf, -inf, nan.
  Result<std::string> NumberText() {
    Skip();
    const size_t start = at_;
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.' ||
            ((text_[at_] == '-' || text_[at_] == '+') && (text_[at_ - 1] | 32) == 'e')))
      ++at_;
    if (at_ == start) return Error("expected a number");
    return std::string(text_.substr(start, at_ - start));
  }
  Result<int64_t> Int() {
    INFER_ASSIGN(std::string s, NumberText());
    if (auto v = ParseInt(s)) return *v;
    return Error(Cat("'", s, "' is not an integer"));
  }

  /// A dimension: 3, ?, N, or an expression of +, -, * over names and numbers; floor(...) and other
  /// opaque symbols stand in double quotes.
  Result<Dim> DimTerm() {
    if (Accept("?")) return Dim();
    if (Peek() == '"' || std::isalpha(static_cast<unsigned char>(Peek())) || Peek() == '_') {
      INFER_ASSIGN(std::string s, Name());
      return Dim::Symbol(std::move(s));
    }
    INFER_ASSIGN(int64_t v, Int());
    return Dim(v);
  }
  Result<Dim> DimProduct() {
    INFER_ASSIGN(Dim d, DimTerm());
    while (Accept("*")) {
      INFER_ASSIGN(Dim f, DimTerm());
      d = d * f;
    }
    return d;
  }
  Result<Dim> DimExpression() {
    const bool negative = Accept("-");
    INFER_ASSIGN(Dim d, DimProduct());
    if (negative) d = Dim(0) - d;
    for (;;) {
      if (Accept("+")) {
        INFER_ASSIGN(Dim t, DimProduct());
        d = d + t;
      } else if (Accept("-")) {
        INFER_ASSIGN(Dim t, DimProduct());
        d = d - t;
      } else {
        return d;
      }
    }
  }

  Result<ValueType> Type(int depth = 0) {
    if (depth > kMaxDepth) return Error("types nest too deep");
    if (Accept("?")) return ShapeOf(DType::kUndefined);
    INFER_ASSIGN(std::string name, Name());
    if (name == "seq" || name == "optional" || name == "map") {
      INFER_TRY(Expect("("));
      DType key = DType::kI64;
      if (name == "map") {
        INFER_ASSIGN(std::string k, Name());
        auto t = ParseDType(k);
        if (!t) return Error(Cat("no element type '", k, "'"));
        key = *t;
        INFER_TRY(Expect(","));
      }
      INFER_ASSIGN(ValueType element, Type(depth + 1));
      INFER_TRY(Expect(")"));
      if (name == "seq") return ValueType::Sequence(std::move(element));
      if (name == "optional") return ValueType::Optional(std::move(element));
      return ValueType::Map(key, std::move(element));
    }
    auto dtype = ParseDType(name);
    if (!dtype) return Error(Cat("no element type '", name, "'"));
    return ShapeOf(*dtype);
  }
  Result<ValueType> ShapeOf(DType dtype) {
    INFER_TRY(Expect("["));
    if (Accept("*")) {
      INFER_TRY(Expect("]"));
      return ValueType(TensorType{dtype, Shape()});
    }
    std::vector<Dim> dims;
    while (!Accept("]")) {
      if (!dims.empty()) INFER_TRY(Expect(","));
      INFER_ASSIGN(Dim d, DimExpression());
      dims.push_back(std::move(d));
    }
    return ValueType(TensorType{dtype, Shape(std::move(dims))});
  }

  /// After "const": TYPE {v, v, ...} | TYPE ~seed
  Result<Tensor> Constant() {
    INFER_ASSIGN(ValueType type, Type());
    if (!type.is_tensor() || !type.tensor().is_static())
      return Error("a constant has a static type");
    const DType dtype = type.tensor().dtype;
    Dims dims = type.tensor().shape.static_dims();
    const auto n = CheckedNumElements(dims);
    constexpr int64_t kMaxElements = int64_t{1} << 28;
    if (!n || *n > kMaxElements) return Error("the constant is too large");
    Tensor t(dtype, dims);
    if (Accept("~")) {
      INFER_ASSIGN(int64_t seed, Int());
      Random random(static_cast<uint64_t>(seed));
      if (dtype == DType::kString) return Error("no random strings");
      for (int64_t i = 0; i < *n; ++i) {
        const double v = random.Normal();
        t.Set(i, IsInteger(dtype) ? std::nearbyint(v * 8) : dtype == DType::kBool ? v > 0 : v);
      }
      return t;
    }
    INFER_TRY(Expect("{"));
    for (int64_t i = 0; i < *n; ++i) {
      if (i) INFER_TRY(Expect(","));
      INFER_TRY(Element(t, i));
    }
    INFER_TRY(Expect("}"));
    return t;
  }

  Status Element(Tensor& t, int64_t i) {
    const auto at = static_cast<size_t>(i);
    if (t.dtype() == DType::kString) {
      INFER_ASSIGN(t.mutable_strings()[at], String());
      return {};
    }
    INFER_ASSIGN(std::string s, NumberText());
    if (t.dtype() == DType::kC64 || t.dtype() == DType::kC128) {
      INFER_TRY(Expect(":"));
      INFER_ASSIGN(std::string im, NumberText());
      auto a = ParseDouble(s), b = ParseDouble(im);
      if (!a || !b) return Error("expected a complex number re:im");
      if (t.dtype() == DType::kC64)
        t.mutable_data<std::complex<float>>()[at] = {static_cast<float>(*a),
                                                     static_cast<float>(*b)};
      else
        t.mutable_data<std::complex<double>>()[at] = {*a, *b};
      return {};
    }
    if (s == "true" || s == "false") {
      t.SetInt(i, s == "true");
      return {};
    }
    if (t.dtype() == DType::kU64) {
      uint64_t v = 0;
      auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), v);
      if (ec != std::errc() || end != s.data() + s.size()) return Error("expected an integer");
      t.mutable_data<uint64_t>()[at] = v;
      return {};
    }
    if (IsInteger(t.dtype()))
      if (auto v = ParseInt(s)) {
        t.SetInt(i, *v);
        return {};
      }
    auto v = ParseDouble(s);
    if (!v) return Error(Cat("'", s, "' is not a number"));
    if (t.dtype() == DType::kF32) {  // rounded once, from the text
      float f = 0;
      const char* begin = s.data() + (s[0] == '+');
      if (std::from_chars(begin, s.data() + s.size(), f).ec == std::errc()) {
        t.mutable_data<float>()[at] = f;
        return {};
      }
    }
    t.Set(i, *v);
    return {};
  }

  /// An attribute's value; monostate where a body's @parameter has none.
  Result<AttrValue> Attribute(AttrKind kind) {
    if (Accept("@")) {
      INFER_ASSIGN(std::string name, Name());
      if (!options_.parameters) return Error("@ stands outside a body");
      auto it = options_.parameters->find(name);
      if (it == options_.parameters->end()) return Error(Cat("no parameter @", name));
      return it->second;
    }
    if (kind == AttrKind::kType) {
      INFER_ASSIGN(ValueType t, Type());
      return AttrValue(std::move(t));
    }
    if (Peek() == '"') {
      INFER_ASSIGN(std::string s, String());
      return AttrValue(std::move(s));
    }
    if (AcceptKeyword("const")) {
      INFER_ASSIGN(Tensor t, Constant());
      return AttrValue(std::move(t));
    }
    if (Accept("[")) return List(kind);
    INFER_ASSIGN(std::string s, NumberText());
    if (kind == AttrKind::kInt) {
      if (auto v = ParseInt(s)) return AttrValue(*v);
      return Error(Cat("'", s, "' is not an integer"));
    }
    if (auto v = ParseDouble(s)) return AttrValue(static_cast<float>(*v));
    return Error(Cat("'", s, "' is not a number"));
  }

  Result<AttrValue> List(AttrKind kind) {
    std::vector<int64_t> ints;
    std::vector<float> floats;
    std::vector<std::string> texts;
    for (bool first = true; !Accept("]"); first = false) {
      if (!first) INFER_TRY(Expect(","));
      if (kind == AttrKind::kStrings) {
        INFER_ASSIGN(std::string s, String());
        texts.push_back(std::move(s));
      } else if (kind == AttrKind::kInts) {
        INFER_ASSIGN(int64_t v, Int());
        ints.push_back(v);
      } else {
        INFER_ASSIGN(std::string s, NumberText());
        auto v = ParseDouble(s);
        if (!v) return Error(Cat("'", s, "' is not a number"));
        floats.push_back(static_cast<float>(*v));
      }
    }
    if (kind == AttrKind::kStrings) return AttrValue(std::move(texts));
    if (kind == AttrKind::kInts) return AttrValue(std::move(ints));
    return AttrValue(std::move(floats));
  }

  /// (x: T, ...) -> (y: T, ...) { statements }
  Result<Graph> GraphRest(std::string name, bool typed_inputs) {
    if (++depth_ > kMaxDepth) return Error("subgraphs nest too deep");
    Graph g(ops_, std::move(name));
    GraphEditor editor(g);
    INFER_TRY(Expect("("));
    while (!Accept(")")) {
      if (!g.inputs().empty()) INFER_TRY(Expect(","));
      INFER_ASSIGN(std::string input, Name());
      ValueType type;
      if (Accept(":")) {
        INFER_ASSIGN(type, Type());
      } else if (typed_inputs && !options_.parameters) {
        return Error(Cat("input '", input, "' has no type"));
      }
      if (g.FindValue(input)) return Error(Cat("'", input, "' is defined twice"));
      editor.AddInput(std::move(input), std::move(type));
    }
    INFER_TRY(Expect("->"));
    INFER_TRY(Expect("("));
    std::vector<std::pair<std::string, ValueType>> outputs;
    while (!Accept(")")) {
      if (!outputs.empty()) INFER_TRY(Expect(","));
      INFER_ASSIGN(std::string output, Name());
      ValueType type;
      if (Accept(":")) {
        INFER_ASSIGN(type, Type());
      }
      outputs.emplace_back(std::move(output), std::move(type));
    }
    INFER_TRY(Expect("{"));
    while (!Accept("}")) INFER_TRY(Statement(g, editor));
    for (auto& [output, type] : outputs) {
      Value* v = g.FindValue(output);
      if (!v) return Error(Cat("output '", output, "' is never defined"));
      auto met = Meet(v->type(), type);
      if (!met.ok()) return Error(Cat("output '", output, "': ", met.status().message()));
      editor.SetType(v, *std::move(met));
      editor.MarkOutput(v);
    }
    --depth_;
    return g;
  }

  Result<Value*> Operand(const Graph& g) {
    INFER_ASSIGN(std::string name, Name());
    if (name == "_") return static_cast<Value*>(nullptr);
    Value* v = g.FindValue(name);
    if (!v) return Error(Cat("'", name, "' is not defined"));
    return v;
  }

  /// a, b = Op(x, y) [captures] {attributes}   |   c = const ...
  Status Statement(Graph& g, GraphEditor& editor) {
    NodeOptions options;
    do {
      INFER_ASSIGN(std::string result, Name());
      if (result == "_") result.clear();
      if (!result.empty() && g.FindValue(result))
        return Error(Cat("'", result, "' is defined twice"));
      options.output_names.push_back(std::move(result));
    } while (Accept(","));
    INFER_TRY(Expect("="));
    if (AcceptKeyword("const")) {
      INFER_ASSIGN(Tensor t, Constant());
      editor.AddConstant(std::move(t), options.output_names[0]);
      return {};
    }
    INFER_ASSIGN(std::string op, Name());
    std::string domain;
    if (Accept("::")) {
      domain = std::move(op);
      INFER_ASSIGN(op, Name());
    }
    const OpDef* def = ops_.Find(domain, op);
    if (!def) return Error(Cat("no operator ", domain, domain.empty() ? "" : "::", op));
    std::vector<Value*> operands;
    INFER_TRY(Expect("("));
    while (!Accept(")")) {
      if (!operands.empty()) INFER_TRY(Expect(","));
      INFER_ASSIGN(Value * v, Operand(g));
      operands.push_back(v);
    }
    if (Accept("[")) {
      while (!Accept("]")) {
        if (options.num_captures > 0) INFER_TRY(Expect(","));
        INFER_ASSIGN(Value * v, Operand(g));
        if (!v) return Error("a capture cannot be omitted");
        operands.push_back(v);
        ++options.num_captures;
      }
    }
    AttrMap attrs;
    INFER_TRY(Attributes(*def, attrs, options));
    const size_t line_end = at_;
    auto node = editor.AddNode(*def, std::move(operands), std::move(attrs), std::move(options));
    at_ = line_end;
    return node.ok() ? Status() : Error(node.status().message());
  }

  Status Attributes(const OpDef& def, AttrMap& attrs, NodeOptions& options) {
    if (!Accept("{")) return {};
    for (bool first = true; !Accept("}"); first = false) {
      if (!first) INFER_TRY(Expect(","));
      INFER_ASSIGN(std::string name, Name());
      INFER_TRY(Expect("="));
      if (name == "name" && Peek() == '"' && !def.FindAttr("name")) {
        INFER_ASSIGN(options.name, String());
        continue;
      }
      const AttrDef* a = def.FindAttr(name);
      if (!a) return Error(Cat(def.name, " has no attribute '", name, "'"));
      if (a->kind == AttrKind::kGraph) {
        INFER_TRY(Keyword("graph"));
        INFER_ASSIGN(Graph sub, GraphRest(name, false));
        options.subgraphs.emplace_back(std::move(name), std::make_unique<Graph>(std::move(sub)));
        continue;
      }
      INFER_ASSIGN(AttrValue v, Attribute(a->kind));
      if (!std::holds_alternative<std::monostate>(v)) attrs[std::move(name)] = std::move(v);
    }
    return {};
  }

  std::string_view text_;
  const OpRegistry& ops_;
  const ParseOptions& options_;
  size_t at_ = 0;
  int depth_ = 0;
};

std::string Quoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 32 || u >= 127) {
      constexpr std::string_view kHex = "0123456789abcdef";
      out += "\\x";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string PrintName(const std::string& name) {
  bool plain = !name.empty() && name != "_";
  for (char c : name) plain = plain && IsNameChar(c);
  return plain ? name : Quoted(name);
}

std::string PrintDim(const Dim& d) {
  std::string s = d.ToString();
  // Opaque symbols (floor(...)) only occur alone or in sums that Print keeps as one quoted symbol.
  return s.find('(') == std::string::npos ? s : Quoted(s);
}

std::string PrintType(const ValueType& t) {
  switch (t.kind()) {
    case ValueType::Kind::kTensor: {
      const TensorType& tensor = t.tensor();
      std::string out(tensor.dtype == DType::kUndefined ? "?" : Name(tensor.dtype));
      if (!tensor.shape.has_rank()) return out + "[*]";
      std::vector<std::string> dims;
      for (const Dim& d : tensor.shape.dims()) dims.push_back(PrintDim(d));
      return Cat(out, "[", Join(dims, ","), "]");
    }
    case ValueType::Kind::kSequence: return Cat("seq(", PrintType(t.element()), ")");
    case ValueType::Kind::kOptional: return Cat("optional(", PrintType(t.element()), ")");
    case ValueType::Kind::kMap: return Cat("map(", Name(t.key()), ",", PrintType(t.element()), ")");
  }
  return {};
}

std::string PrintElement(const Tensor& t, int64_t i) {
  const auto at = static_cast<size_t>(i);
  switch (t.dtype()) {
    case DType::kString: return Quoted(t.strings()[at]);
    case DType::kU64: return Cat(t.data<uint64_t>()[at]);
    case DType::kF64: return FormatDouble(t.data<double>()[at]);
    case DType::kC64: {
      const auto c = t.data<std::complex<float>>()[at];
      return Cat(c.real(), ":", c.imag());
    }
    case DType::kC128: {
      const auto c = t.data<std::complex<double>>()[at];
      return Cat(c.real(), ":", c.imag());
    }
    default: return IsFloat(t.dtype()) ? FormatFloat(static_cast<float>(t.At(i))) : Cat(t.IntAt(i));
  }
}

std::string PrintTensor(const Tensor& t, int64_t max_elements) {
  std::string out = Cat("const ", PrintType(t.type()), " ");
  if (max_elements >= 0 && t.num_elements() > max_elements) return Cat(out, "#", HashOf(t));
  out += "{";
  for (int64_t i = 0; i < t.num_elements(); ++i) out += (i ? ", " : "") + PrintElement(t, i);
  return out + "}";
}

template <typename T, typename F>
std::string PrintList(const std::vector<T>& v, F print) {
  std::vector<std::string> items;
  for (const T& x : v) items.push_back(print(x));
  return Cat("[", Join(items, ", "), "]");
}

/// Floats always show a point or exponent, so that they read back as floats to people too.
std::string PrintFloat(float v) {
  std::string s = FormatFloat(v);
  return s.find_first_of(".einf") == std::string::npos ? s + ".0" : s;
}

std::string PrintAttr(const AttrValue& v, int64_t max_elements) {
  return std::visit(
      [&]<typename T>(const T& x) -> std::string {
        if constexpr (std::is_same_v<T, std::monostate>)
          return "none";
        else if constexpr (std::is_same_v<T, int64_t>)
          return Cat(x);
        else if constexpr (std::is_same_v<T, float>)
          return PrintFloat(x);
        else if constexpr (std::is_same_v<T, std::string>)
          return Quoted(x);
        else if constexpr (std::is_same_v<T, Tensor>)
          return PrintTensor(x, max_elements);
        else if constexpr (std::is_same_v<T, ValueType>)
          return PrintType(x);
        else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
          return PrintList(x, [](int64_t i) { return Cat(i); });
        else if constexpr (std::is_same_v<T, std::vector<float>>)
          return PrintList(x, PrintFloat);
        else
          return PrintList(x, Quoted);
      },
      v);
}

class Printer {
 public:
  Printer(const PrintOptions& options) : options_(options) {}

  void PrintGraph(const Graph& g, const std::string& head, const std::string& indent,
                  bool input_types) {
    out_ += head + "(";
    for (size_t i = 0; i < g.inputs().size(); ++i) {
      out_ += (i ? ", " : "") + PrintName(g.inputs()[i]->name());
      if (input_types) out_ += ": " + PrintType(g.inputs()[i]->type());
    }
    out_ += ") -> (";
    for (size_t i = 0; i < g.outputs().size(); ++i) {
      out_ += (i ? ", " : "") + PrintName(g.outputs()[i]->name());
      if (input_types) out_ += ": " + PrintType(g.outputs()[i]->type());
    }
    out_ += ") {\n";
    // Constants stand where they are first read; one that only is an output stands at the end.
    std::unordered_map<const Value*, bool> printed;
    auto constant = [&](const Value* v) {
      if (!v || !v->is_constant() || !printed.try_emplace(v, true).second) return;
      out_ += Cat(indent, "  ", PrintName(v->name()), " = ",
                  PrintTensor(*v->constant(), options_.max_elements), "\n");
    };
    for (const auto& n : g.nodes()) {
      for (const Value* v : n->inputs()) constant(v);
      PrintNode(*n, indent + "  ");
    }
    for (const Value* v : g.outputs()) constant(v);
    out_ += indent + "}";
  }

  std::string Take() { return std::move(out_); }

 private:
  void PrintNode(const Node& n, const std::string& indent) {
    out_ += indent;
    for (size_t i = 0; i < n.outputs().size(); ++i)
      out_ += (i ? ", " : "") + (n.output(i) ? PrintName(n.output(i)->name()) : "_");
    out_ += " = ";
    if (!n.def().domain.empty()) out_ += Cat(n.def().domain, "::");
    out_ += Cat(n.op(), "(");
    const size_t operands = n.inputs().size() - n.num_captures();
    for (size_t i = 0; i < n.inputs().size(); ++i) {
      if (i == operands) out_ += ") [";
      out_ += i == 0 || i == operands ? "" : ", ";
      out_ += n.input(i) ? PrintName(n.input(i)->name()) : "_";
    }
    out_ += n.num_captures() ? "]" : ")";
    bool first = true;
    auto key = [&](const std::string& name) {
      out_ += Cat(first ? " {" : ", ", name, "=");
      first = false;
    };
    for (const auto& [name, value] : n.attrs()) {
      key(name);
      out_ += PrintAttr(value, options_.max_elements);
    }
    if (!n.name().empty() && !n.def().FindAttr("name")) {
      key("name");
      out_ += Quoted(n.name());
    }
    for (const auto& [name, sub] : n.subgraphs()) {
      key(name);
      PrintGraph(*sub, "graph", indent, false);
    }
    if (!first) out_ += "}";
    if (options_.types && n.output(0)) out_ += "  # " + ToString(n.output(0)->type());
    out_ += "\n";
  }

  const PrintOptions& options_;
  std::string out_;
};

}  // namespace

Result<Graph> ParseGraph(std::string_view text, const OpRegistry& ops,
                         const ParseOptions& options) {
  return Parser(text, ops, options).File();
}

std::string Print(const Graph& g, const PrintOptions& options) {
  Printer p(options);
  p.PrintGraph(g, Cat("graph ", PrintName(g.name().empty() ? "g" : g.name())), "", true);
  return p.Take() + "\n";
}

}  // namespace infer
