#pragma once
/// What the functions of decompositions.h write their graphs with.
#include "lib/ops/op_def.h"
#include "lib/support/strings.h"

namespace infer {

/// The text of a graph, put together line by line. Operand i is `x<i>`.
class BodyText {
 public:
  explicit BodyText(const OpCall& call) : call_(call) {}

  void Line(std::string_view text) { lines_ += Cat("  ", text, "\n"); }
  void Scalar(std::string_view name, DType t, double value) {
    Line(Cat(name, " = const ", Name(t), "[] {", FormatDouble(value), "}"));
  }
  void Int(std::string_view name, int64_t value) {
    Line(Cat(name, " = const i64[] {", value, "}"));
  }
  void Ints(std::string_view name, const std::vector<int64_t>& values) {
    Line(Cat(name, " = const i64[", values.size(), "] {", Join(values, ", "), "}"));
  }
  /// `to` = `from` as element type t.
  void Cast(std::string_view to, std::string_view from, DType t) {
    Line(Cat(to, " = Cast(", from, ") {to=", static_cast<int>(t), "}"));
  }
  /// The name of `from`, of type `is`, as element type t: `to`, or `from` where it is so already.
  std::string CastTo(std::string_view to, std::string_view from, DType is, DType t) {
    if (is == t) return std::string(from);
    Cast(to, from, t);
    return std::string(to);
  }

  std::string Graph(std::string_view outputs) const {
    std::vector<std::string> inputs;
    for (size_t i = 0; i < call_.num_inputs(); ++i)
      if (call_.has_input(i)) inputs.push_back(Cat("x", i));
    return Cat("graph body(", Join(inputs, ", "), ") -> (", outputs, ") {\n", lines_, "}\n");
  }

 protected:
  const OpCall& call() const { return call_; }
  const std::string& lines() const { return lines_; }

 private:
  const OpCall& call_;
  std::string lines_;
};

/// An attribute's value in text form; of an int, float, string or list of ints.
inline std::string TextOf(const AttrValue& value) {
  if (const auto* i = std::get_if<int64_t>(&value)) return Cat(*i);
  if (const auto* f = std::get_if<float>(&value)) return FormatDouble(static_cast<double>(*f));
  if (const auto* s = std::get_if<std::string>(&value)) return Cat("\"", *s, "\"");
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value))
    return Cat("[", Join(*v, ", "), "]");
  return "";
}

/// " {name=value, ...}": those attributes of `call` that are written down and do not begin with
/// `but` ("": all of them).
inline std::string AttributesText(const OpCall& call, std::string_view but) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : call.attrs())
    if (but.empty() || !name.starts_with(but)) parts.push_back(Cat(name, "=", TextOf(value)));
  return parts.empty() ? "" : Cat(" {", Join(parts, ", "), "}");
}

/// Unsupported where it is not known.
inline Result<DType> KnownType(const OpCall& call, size_t i) {
  if (call.dtype(i) != DType::kUndefined) return call.dtype(i);
  return Unsupported(Cat("the element type of '", call.def().inputs[i].name, "' is not known"));
}

/// Unsupported where it is not known.
inline Result<int> KnownRank(const OpCall& call, size_t i) {
  if (call.shape(i).has_rank()) return call.shape(i).rank();
  return Unsupported(Cat("the rank of '", call.def().inputs[i].name, "' is not known"));
}

/// Extent d of operand i. Unsupported where it is not known.
inline Result<int64_t> KnownExtent(const OpCall& call, size_t i, int d) {
  INFER_ASSIGN(const int rank, KnownRank(call, i));
  if (d < rank && call.shape(i)[d].is_static()) return call.shape(i)[d].value();
  return Unsupported(Cat("extent ", d, " of '", call.def().inputs[i].name, "' is not known"));
}

}  // namespace infer
