#include "lib/tensor/value_type.h"

#include "lib/support/strings.h"

namespace infer {

ValueType::ValueType() = default;
ValueType::ValueType(const ValueType&) = default;
ValueType::ValueType(ValueType&&) noexcept = default;
ValueType& ValueType::operator=(const ValueType&) = default;
ValueType& ValueType::operator=(ValueType&&) noexcept = default;
ValueType::~ValueType() = default;
ValueType::ValueType(TensorType t) : tensor_(std::move(t)) {}

ValueType ValueType::Sequence(ValueType element) {
  ValueType t;
  t.kind_ = Kind::kSequence;
  t.element_ = std::make_shared<const ValueType>(std::move(element));
  return t;
}

ValueType ValueType::Optional(ValueType element) {
  ValueType t = Sequence(std::move(element));
  t.kind_ = Kind::kOptional;
  return t;
}

ValueType ValueType::Map(DType key, ValueType element) {
  ValueType t = Sequence(std::move(element));
  t.kind_ = Kind::kMap;
  t.tensor_.dtype = key;
  return t;
}

bool ValueType::operator==(const ValueType& o) const {
  return kind_ == o.kind_ && tensor_ == o.tensor_ && (is_tensor() || *element_ == *o.element_);
}

bool ValueType::Refines(const ValueType& o) const {
  if (o == ValueType()) return true;
  if (kind_ != o.kind_ || !tensor_.Refines(o.tensor_)) return false;
  return is_tensor() || element_->Refines(*o.element_);
}

std::string ToString(const TensorType& t) {
  return Cat(t.dtype == DType::kUndefined ? "?" : Name(t.dtype), t.shape.ToString());
}

std::string ToString(const ValueType& t) {
  switch (t.kind()) {
    case ValueType::Kind::kTensor: return ToString(t.tensor());
    case ValueType::Kind::kSequence: return Cat("seq(", ToString(t.element()), ")");
    case ValueType::Kind::kOptional: return Cat("optional(", ToString(t.element()), ")");
    case ValueType::Kind::kMap: return Cat("map(", Name(t.key()), ",", ToString(t.element()), ")");
  }
  return {};
}

Result<ValueType> Meet(const ValueType& a, const ValueType& b) {
  if (a == ValueType()) return b;
  if (b == ValueType()) return a;
  const auto clash = [&] {
    return InvalidModel(Cat("types ", ToString(a), " and ", ToString(b), " contradict"));
  };
  if (a.kind() != b.kind()) return clash();
  if (!a.is_tensor()) {
    if (a.key() != b.key()) return clash();
    auto element = Meet(a.element(), b.element());
    if (!element.ok()) return clash();
    switch (a.kind()) {
      case ValueType::Kind::kSequence: return ValueType::Sequence(*std::move(element));
      case ValueType::Kind::kOptional: return ValueType::Optional(*std::move(element));
      default: return ValueType::Map(a.key(), *std::move(element));
    }
  }
  const TensorType &ta = a.tensor(), &tb = b.tensor();
  if (ta.dtype != tb.dtype && ta.dtype != DType::kUndefined && tb.dtype != DType::kUndefined)
    return clash();
  auto shape = Meet(ta.shape, tb.shape);
  if (!shape.ok()) return clash();
  return ValueType(
      TensorType{ta.dtype == DType::kUndefined ? tb.dtype : ta.dtype, *std::move(shape)});
}

ValueType JoinFacts(const ValueType& a, const ValueType& b) {
  if (a.kind() != b.kind()) return {};
  switch (a.kind()) {
    case ValueType::Kind::kTensor: {
      const TensorType &ta = a.tensor(), &tb = b.tensor();
      return TensorType{ta.dtype == tb.dtype ? ta.dtype : DType::kUndefined,
                        JoinFacts(ta.shape, tb.shape)};
    }
    case ValueType::Kind::kSequence:
      return ValueType::Sequence(JoinFacts(a.element(), b.element()));
    case ValueType::Kind::kOptional:
      return ValueType::Optional(JoinFacts(a.element(), b.element()));
    case ValueType::Kind::kMap: return ValueType::Map(a.key(), JoinFacts(a.element(), b.element()));
  }
  return {};
}

}  // namespace infer
