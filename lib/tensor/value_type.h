#pragma once
/// TensorType and ValueType: what is known about a value before it exists.
#include <memory>
#include <string>

#include "lib/tensor/dtype.h"
#include "lib/tensor/shape.h"

namespace infer {

struct TensorType {
  DType dtype = DType::kUndefined;  ///< kUndefined: not known yet
  Shape shape;
  bool operator==(const TensorType&) const = default;
  bool Refines(const TensorType& o) const {
    return (o.dtype == DType::kUndefined || dtype == o.dtype) && shape.Refines(o.shape);
  }
  bool is_static() const { return dtype != DType::kUndefined && shape.is_static(); }
};

/// The type of any ONNX value. A tensor by default.
class ValueType {
 public:
  enum class Kind : uint8_t { kTensor, kSequence, kOptional, kMap };
  ValueType();              ///< a tensor of unknown type
  ValueType(TensorType t);  // NOLINT: implicit on purpose
  // Copied in thousands of places, so compiled once.
  ValueType(const ValueType&);
  ValueType(ValueType&&) noexcept;
  ValueType& operator=(const ValueType&);
  ValueType& operator=(ValueType&&) noexcept;
  ~ValueType();
  static ValueType Sequence(ValueType element);
  static ValueType Optional(ValueType element);
  static ValueType Map(DType key, ValueType element);
  Kind kind() const { return kind_; }
  bool is_tensor() const { return kind_ == Kind::kTensor; }
  const TensorType& tensor() const {  ///< Pre: is_tensor()
    INFER_CHECK(is_tensor());
    return tensor_;
  }
  /// Of a tensor; of any other kind the element type is undefined and the rank unknown.
  DType dtype() const { return is_tensor() ? tensor_.dtype : DType::kUndefined; }
  const Shape& shape() const { return tensor_.shape; }
  const ValueType& element() const {  ///< Pre: !is_tensor()
    INFER_CHECK(!is_tensor());
    return *element_;
  }
  DType key() const { return tensor_.dtype; }  ///< Pre: kMap
  bool operator==(const ValueType& o) const;
  bool Refines(const ValueType& o) const;

 private:
  Kind kind_ = Kind::kTensor;
  TensorType tensor_;
  std::shared_ptr<const ValueType> element_;
};

/// "f32[2,N]", "f32[*]", "seq(i64[])", "optional(f32[2])", "map(str,f32[])".
std::string ToString(const TensorType& t);
std::string ToString(const ValueType& t);
Result<ValueType> Meet(const ValueType& a, const ValueType& b);
ValueType JoinFacts(const ValueType& a, const ValueType& b);

}  // namespace infer
