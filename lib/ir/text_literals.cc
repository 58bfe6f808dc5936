#include "lib/ir/text_literals.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <complex>
#include <utility>
#include <vector>

#include "lib/support/random.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

constexpr int kMaxTypeDepth = 32;
constexpr int64_t kMaxRandomElements = int64_t{1} << 22;

/// 3, ?, N; floor(...) and other opaque symbols stand in double quotes.
Result<Dim> DimTerm(TextCursor& in) {
  if (in.Accept("?")) return Dim();
  const char c = in.Peek();
  if (c == '"' || c == '_' || std::isalpha(static_cast<unsigned char>(c))) {
    INFER_ASSIGN(std::string s, in.Name());
    if (s.empty()) return in.Error("a dimension has no name");
    return Dim::Symbol(std::move(s));
  }
  INFER_ASSIGN(int64_t v, in.Int());
  return Dim(v);
}

Result<Dim> DimProduct(TextCursor& in) {
  INFER_ASSIGN(Dim d, DimTerm(in));
  while (in.Accept("*")) {
    INFER_ASSIGN(Dim f, DimTerm(in));
    d = d * f;
  }
  return d;
}

/// A term, or an expression of +, - and * over terms.
Result<Dim> DimExpression(TextCursor& in) {
  const bool negative = in.Accept("-");
  INFER_ASSIGN(Dim d, DimProduct(in));
  if (negative) d = Dim(0) - d;
  for (;;) {
    if (in.Accept("+")) {
      INFER_ASSIGN(Dim t, DimProduct(in));
      d = d + t;
    } else if (in.Accept("-")) {
      INFER_ASSIGN(Dim t, DimProduct(in));
      d = d - t;
    } else {
      return d;
    }
  }
}

/// [d, d, ...] | [*]
Result<ValueType> ShapeOf(TextCursor& in, DType dtype) {
  INFER_TRY(in.Expect("["));
  if (in.Accept("*")) {
    INFER_TRY(in.Expect("]"));
    return ValueType(TensorType{dtype, Shape()});
  }
  std::vector<Dim> dims;
  while (!in.Accept("]")) {
    if (!dims.empty()) INFER_TRY(in.Expect(","));
    INFER_ASSIGN(Dim d, DimExpression(in));
    dims.push_back(std::move(d));
  }
  return ValueType(TensorType{dtype, Shape(std::move(dims))});
}

Result<DType> ElementType(TextCursor& in, const std::string& name) {
  if (auto t = ParseDType(name)) return *t;
  return in.Error(Cat("no element type '", name, "'"));
}

Result<ValueType> TypeAtDepth(TextCursor& in, int depth) {
  if (depth > kMaxTypeDepth) return in.Error("types nest too deep");
  if (in.Accept("?")) return ShapeOf(in, DType::kUndefined);
  INFER_ASSIGN(std::string name, in.Name());
  if (name != "seq" && name != "optional" && name != "map") {
    INFER_ASSIGN(const DType dtype, ElementType(in, name));
    return ShapeOf(in, dtype);
  }
  INFER_TRY(in.Expect("("));
  DType key = DType::kI64;
  if (name == "map") {
    INFER_ASSIGN(std::string k, in.Name());
    INFER_ASSIGN(key, ElementType(in, k));
    INFER_TRY(in.Expect(","));
  }
  INFER_ASSIGN(ValueType element, TypeAtDepth(in, depth + 1));
  INFER_TRY(in.Expect(")"));
  if (name == "seq") return ValueType::Sequence(std::move(element));
  if (name == "optional") return ValueType::Optional(std::move(element));
  return ValueType::Map(key, std::move(element));
}

/// re:im
template <typename T>
Status ReadComplex(TextCursor& in, std::complex<T>& out) {
  INFER_ASSIGN(std::string re, in.NumberText());
  INFER_TRY(in.Expect(":"));
  INFER_ASSIGN(std::string im, in.NumberText());
  auto a = ParseDouble(re), b = ParseDouble(im);
  if (!a || !b) return in.Error("expected a complex number re:im");
  out = {static_cast<T>(*a), static_cast<T>(*b)};
  return {};
}

Status ReadU64(TextCursor& in, const std::string& s, uint64_t& out) {
  auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), out);
  if (ec == std::errc() && end == s.data() + s.size()) return {};
  return in.Error("expected an integer");
}

/// Rounded once, from the text; not by way of a double.
bool ReadF32(const std::string& s, float& out) {
  const char* begin = s.data() + (s[0] == '+');
  return std::from_chars(begin, s.data() + s.size(), out).ec == std::errc();
}

Status ReadElement(TextCursor& in, Tensor& t, int64_t i) {
  const auto at = static_cast<size_t>(i);
  switch (t.dtype()) {
    case DType::kString: {
      INFER_ASSIGN(t.mutable_strings()[at], in.String());
      return {};
    }
    case DType::kC64: return ReadComplex(in, t.mutable_data<std::complex<float>>()[at]);
    case DType::kC128: return ReadComplex(in, t.mutable_data<std::complex<double>>()[at]);
    default: break;
  }
  INFER_ASSIGN(std::string s, in.NumberText());
  if (s == "true" || s == "false") {
    t.SetInt(i, s == "true");
    return {};
  }
  if (t.dtype() == DType::kU64) return ReadU64(in, s, t.mutable_data<uint64_t>()[at]);
  if (IsInteger(t.dtype()))
    if (auto v = ParseInt(s)) {
      t.SetInt(i, *v);
      return {};
    }
  auto v = ParseDouble(s);
  if (!v) return in.Error(Cat("'", s, "' is not a number"));
  if (t.dtype() == DType::kF32 && ReadF32(s, t.mutable_data<float>()[at])) return {};
  t.Set(i, *v);
  return {};
}

Status FillRandom(TextCursor& in, Tensor& t) {
  INFER_ASSIGN(int64_t seed, in.Int());
  if (t.dtype() == DType::kString || t.dtype() == DType::kC64 || t.dtype() == DType::kC128)
    return in.Error(Cat("no random values of type ", Name(t.dtype())));
  Random random(static_cast<uint64_t>(seed));
  const bool integer = IsInteger(t.dtype()), boolean = t.dtype() == DType::kBool;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double v = random.Normal();
    t.Set(i, integer ? std::nearbyint(v * 8) : boolean ? v > 0 : v);
  }
  return {};
}

Result<float> Float(TextCursor& in) {
  INFER_ASSIGN(std::string s, in.NumberText());
  if (auto v = ParseDouble(s)) return static_cast<float>(*v);
  return in.Error(Cat("'", s, "' is not a number"));
}

/// What stands behind "[".
Result<AttrValue> List(TextCursor& in, AttrKind kind) {
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> texts;
  for (bool first = true; !in.Accept("]"); first = false) {
    if (!first) INFER_TRY(in.Expect(","));
    if (kind == AttrKind::kStrings) {
      INFER_ASSIGN(texts.emplace_back(), in.String());
    } else if (kind == AttrKind::kInts) {
      INFER_ASSIGN(ints.emplace_back(), in.Int());
    } else {
      INFER_ASSIGN(floats.emplace_back(), Float(in));
    }
  }
  if (kind == AttrKind::kStrings) return AttrValue(std::move(texts));
  if (kind == AttrKind::kInts) return AttrValue(std::move(ints));
  return AttrValue(std::move(floats));
}

}  // namespace

Result<ValueType> ParseType(TextCursor& in) { return TypeAtDepth(in, 0); }

Result<Tensor> ParseConstant(TextCursor& in) {
  INFER_ASSIGN(ValueType type, ParseType(in));
  if (!type.is_tensor() || !type.tensor().is_static())
    return in.Error("a constant has a static type");
  Dims dims = type.tensor().shape.static_dims();
  const auto n = CheckedNumElements(dims);
  const bool random = in.Accept("~");
  // Elements that are written take a character each, at least.
  if (!n || *n > (random ? kMaxRandomElements : static_cast<int64_t>(in.remaining())))
    return in.Error("the constant is too large");
  Tensor t(type.tensor().dtype, std::move(dims));
  if (random) {
    INFER_TRY(FillRandom(in, t));
    return t;
  }
  INFER_TRY(in.Expect("{"));
  for (int64_t i = 0; i < *n; ++i) {
    if (i) INFER_TRY(in.Expect(","));
    INFER_TRY(ReadElement(in, t, i));
  }
  INFER_TRY(in.Expect("}"));
  return t;
}

Result<AttrValue> ParseAttribute(TextCursor& in, AttrKind kind) {
  if (kind == AttrKind::kType) {
    INFER_ASSIGN(ValueType t, ParseType(in));
    return AttrValue(std::move(t));
  }
  if (in.Peek() == '"') {
    INFER_ASSIGN(std::string s, in.String());
    return AttrValue(std::move(s));
  }
  if (in.AcceptKeyword("const")) {
    INFER_ASSIGN(Tensor t, ParseConstant(in));
    return AttrValue(std::move(t));
  }
  if (in.Accept("[")) return List(in, kind);
  if (kind == AttrKind::kInt) {
    INFER_ASSIGN(const int64_t v, in.Int());
    return AttrValue(v);
  }
  INFER_ASSIGN(const float v, Float(in));
  return AttrValue(v);
}

}  // namespace infer
