#include "tests/judge/shapes/facts.h"

#include <algorithm>
#include <cctype>

#include "lib/support/strings.h"

namespace infer::judge {
namespace {

template <typename Map, typename T>
void Insert(Map& map, std::set<std::string>& twice, const std::string& name, T value) {
  if (name.empty() || twice.contains(name)) return;
  if (map.emplace(name, std::move(value)).second) return;
  twice.insert(name);
  map.erase(name);
}

void Collect(const Graph& g, std::map<std::string, const Value*>& all,
             std::set<std::string>& twice) {
  for (const auto& n : g.nodes()) {
    for (const Value* v : n->outputs())
      if (v) Insert(all, twice, v->name(), v);
    for (const auto& [attr, sub] : n->subgraphs()) Collect(*sub, all, twice);
  }
}

void Collect(const onnx::GraphProto& g, std::map<std::string, onnx::TypeProto>& all,
             std::set<std::string>& twice) {
  for (const auto& x : g.output()) Insert(all, twice, x.name(), x.type());
  for (const auto& x : g.value_info()) Insert(all, twice, x.name(), x.type());
  for (const auto& n : g.node())
    for (const auto& a : n.attribute())
      if (a.has_g()) Collect(a.g(), all, twice);
}

using Symbols = std::set<std::string>;

bool SaysNothing(const onnx::TensorShapeProto::Dimension& d, const Symbols& symbols) {
  return !d.has_dim_value() && !symbols.contains(d.dim_param());
}

Verdict CompareDim(const Dim& ours, const onnx::TensorShapeProto::Dimension& theirs,
                   const Symbols& symbols) {
  if (SaysNothing(theirs, symbols)) return ours.is_unknown() ? Verdict::kSame : Verdict::kMore;
  if (ours.is_unknown()) return Verdict::kLess;
  if (theirs.has_dim_value()) {
    if (!ours.is_static()) return Verdict::kLess;
    return ours.value() == theirs.dim_value() ? Verdict::kSame : Verdict::kOther;
  }
  if (ours.is_static()) return Verdict::kMore;
  return ours.ToString() == theirs.dim_param() ? Verdict::kSame : Verdict::kOther;
}

Verdict CompareTensors(const TensorType& ours, const onnx::TypeProto::Tensor& theirs,
                       const Symbols& symbols) {
  Verdict worst = Verdict::kSame;
  if (theirs.elem_type() != 0 && static_cast<int>(ours.dtype) != theirs.elem_type())
    worst = ours.dtype == DType::kUndefined ? Verdict::kLess : Verdict::kOther;
  if (!theirs.has_shape())
    return std::max(worst, ours.shape.has_rank() ? Verdict::kMore : Verdict::kSame);
  if (!ours.shape.has_rank()) return std::max(worst, Verdict::kLess);
  if (ours.shape.rank() != theirs.shape().dim_size()) return Verdict::kOther;
  for (int i = 0; i < ours.shape.rank(); ++i)
    worst = std::max(worst, CompareDim(ours.shape[i], theirs.shape().dim(i), symbols));
  return worst;
}

/// A reader of Dim::ToString: sums of products of integers, symbols and floor((...)/n).
class Expression {
 public:
  Expression(std::string_view text, const std::map<std::string, int64_t>& at)
      : text_(text), at_(at) {}
  std::optional<int64_t> Value() {
    const int64_t v = Sum();
    return ok_ && pos_ == text_.size() ? std::optional(v) : std::nullopt;
  }

 private:
  bool Eat(std::string_view s) {
    const bool next = text_.substr(pos_).starts_with(s);
    if (next) pos_ += s.size();
    return next;
  }
  int64_t Sum() {
    int64_t total = Eat("-") ? -Product() : Product();
    for (;;) {
      if (Eat("+"))
        total += Product();
      else if (Eat("-"))
        total -= Product();
      else
        return total;
    }
  }
  int64_t Product() {
    int64_t product = Factor();
    while (Eat("*")) product *= Factor();
    return product;
  }
  int64_t Factor() {
    if (Eat("floor((")) {
      const int64_t inner = Sum();
      ok_ = ok_ && Eat(")/");
      const int64_t by = Factor();
      ok_ = ok_ && Eat(")") && by > 0;
      return ok_ ? (inner - ((inner % by) + by) % by) / by : 0;
    }
    const size_t begin = pos_;
    while (pos_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[pos_])) != 0 || text_[pos_] == '_'))
      ++pos_;
    const std::string word(text_.substr(begin, pos_ - begin));
    if (const auto number = ParseInt(word)) return *number;
    const auto it = at_.find(word);
    ok_ = ok_ && it != at_.end();
    return ok_ ? it->second : 0;
  }

  std::string_view text_;
  const std::map<std::string, int64_t>& at_;
  size_t pos_ = 0;
  bool ok_ = true;
};

}  // namespace

const char* Name(Verdict v) {
  switch (v) {
    case Verdict::kSame: return "same";
    case Verdict::kMore: return "more exact";
    case Verdict::kLess: return "less";
    case Verdict::kOther: break;
  }
  return "contradicts";
}

std::map<std::string, const Value*> ValuesOf(const Graph& g) {
  std::map<std::string, const Value*> all;
  std::set<std::string> twice;
  Collect(g, all, twice);
  return all;
}

std::map<std::string, onnx::TypeProto> TypesOf(const onnx::GraphProto& g) {
  std::map<std::string, onnx::TypeProto> all;
  std::set<std::string> twice;
  Collect(g, all, twice);
  return all;
}

Verdict Compare(const ValueType& ours, const onnx::TypeProto& theirs, const Symbols& symbols) {
  if (theirs.value_case() == onnx::TypeProto::VALUE_NOT_SET) return Verdict::kMore;
  if (ours == ValueType()) {
    const auto& t = theirs.tensor_type();
    const bool nothing = theirs.has_tensor_type() && t.elem_type() == 0 && !t.has_shape();
    return nothing ? Verdict::kSame : Verdict::kLess;
  }
  switch (theirs.value_case()) {
    case onnx::TypeProto::kTensorType:
      return ours.is_tensor() ? CompareTensors(ours.tensor(), theirs.tensor_type(), symbols)
                              : Verdict::kOther;
    case onnx::TypeProto::kSequenceType:
      return ours.kind() == ValueType::Kind::kSequence
                 ? Compare(ours.element(), theirs.sequence_type().elem_type(), symbols)
                 : Verdict::kOther;
    case onnx::TypeProto::kOptionalType:
      return ours.kind() == ValueType::Kind::kOptional
                 ? Compare(ours.element(), theirs.optional_type().elem_type(), symbols)
                 : Verdict::kOther;
    case onnx::TypeProto::kMapType:
      return ours.kind() == ValueType::Kind::kMap &&
                     static_cast<int>(ours.key()) == theirs.map_type().key_type()
                 ? Compare(ours.element(), theirs.map_type().value_type(), symbols)
                 : Verdict::kOther;
    default: return Verdict::kMore;  // sparse and opaque: ours refuses the model before
  }
}

Verdict Compare(const std::optional<std::vector<Dim>>& ours, const onnx::TensorShapeProto& theirs,
                const Symbols& symbols) {
  const std::vector<Dim> none(static_cast<size_t>(theirs.dim_size()));
  const std::vector<Dim>& known = ours ? *ours : none;
  if (known.size() != none.size()) return Verdict::kOther;
  Verdict worst = Verdict::kSame;
  for (int i = 0; i < theirs.dim_size(); ++i)
    worst = std::max(worst, CompareDim(known[static_cast<size_t>(i)], theirs.dim(i), symbols));
  return worst;
}

std::string ToString(const onnx::TensorShapeProto& shape) {
  std::vector<std::string> dims;
  for (const auto& d : shape.dim())
    dims.push_back(d.has_dim_value()       ? Cat(d.dim_value())
                   : d.dim_param().empty() ? "?"
                                           : d.dim_param());
  return Cat("[", Join(dims, ","), "]");
}

std::string ToString(const onnx::TypeProto& type) {
  if (type.has_sequence_type()) return Cat("seq(", ToString(type.sequence_type().elem_type()), ")");
  if (type.has_optional_type())
    return Cat("optional(", ToString(type.optional_type().elem_type()), ")");
  if (type.has_map_type()) return Cat("map(", ToString(type.map_type().value_type()), ")");
  if (!type.has_tensor_type()) return "nothing";
  const auto& t = type.tensor_type();
  return Cat(infer::Name(static_cast<DType>(t.elem_type())),
             t.has_shape() ? ToString(t.shape()) : "[*]");
}

bool Contradicts(const onnx::TypeProto& theirs, const Dims& made,
                 const std::map<std::string, int64_t>& symbols) {
  if (theirs.has_sequence_type())
    return Contradicts(theirs.sequence_type().elem_type(), made, symbols);
  if (!theirs.has_tensor_type() || !theirs.tensor_type().has_shape()) return false;
  const auto& dims = theirs.tensor_type().shape().dim();
  if (dims.size() != static_cast<int>(made.size())) return true;
  for (int i = 0; i < dims.size(); ++i) {
    const auto symbol = symbols.find(dims[i].dim_param());
    const int64_t is = made[static_cast<size_t>(i)];
    if (dims[i].has_dim_value() ? dims[i].dim_value() != is
                                : symbol != symbols.end() && symbol->second != is)
      return true;
  }
  return false;
}

std::optional<int64_t> EvaluateDim(const Dim& d, const std::map<std::string, int64_t>& at) {
  if (d.is_unknown()) return std::nullopt;
  if (d.is_static()) return d.value();
  const std::string text = d.ToString();
  return Expression(text, at).Value();
}

}  // namespace infer::judge
