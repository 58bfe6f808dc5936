#include <cmath>
#include <complex>
#include <unordered_set>

#include "lib/ir/text.h"
#include "lib/ir/text_literals.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

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

}  // namespace

std::string PrintName(const std::string& name) {
  bool plain = !name.empty() && name != "_";
  for (char c : name) plain = plain && IsNameChar(c);
  return plain ? name : Quoted(name);
}

namespace {

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

}  // namespace

std::string PrintConstant(const Tensor& t) { return PrintTensor(t, -1); }
std::string PrintAttribute(const AttrValue& v) { return PrintAttr(v, -1); }

namespace {

class Printer {
 public:
  explicit Printer(const PrintOptions& options) : options_(options) {}

  std::string File(const Graph& g) {
    PrintGraph(g, Cat("graph ", PrintName(g.name().empty() ? "g" : g.name())), "", true);
    return std::move(out_) + "\n";
  }

 private:
  void PrintGraph(const Graph& g, const std::string& head, const std::string& indent, bool types) {
    out_ += head;
    PrintSignature(g.inputs(), types);
    out_ += " -> ";
    PrintSignature(g.outputs(), types);
    out_ += " {\n";
    // Constants stand where they are first read; one that only is an output stands at the end.
    std::unordered_set<const Value*> printed;
    auto constant = [&](const Value* v) {
      if (!v || !v->is_constant() || !printed.insert(v).second) return;
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

  /// (x: T, y: T)
  template <typename Values>
  void PrintSignature(const Values& values, bool types) {
    out_ += "(";
    for (size_t i = 0; i < values.size(); ++i) {
      out_ += (i ? ", " : "") + PrintName(values[i]->name());
      if (types) out_ += ": " + PrintType(values[i]->type());
    }
    out_ += ")";
  }

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
    PrintAttributes(n, indent);
    if (options_.types && n.output(0)) out_ += "  # " + ToString(n.output(0)->type());
    out_ += "\n";
  }

  /// {a=1, name="n", body=graph(...) -> (...) {...}} | nothing
  void PrintAttributes(const Node& n, const std::string& indent) {
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
  }

  const PrintOptions& options_;
  std::string out_;
};

}  // namespace

std::string Print(const Graph& g, const PrintOptions& options) { return Printer(options).File(g); }

}  // namespace infer
