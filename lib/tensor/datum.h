#pragma once
/// Datum: the value of any ONNX value at run time: a tensor, a sequence, an optional or a map.
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/tensor/tensor.h"

namespace infer {

class Datum;
struct SequenceDatum {
  std::vector<Datum> elements;
};
/// An optional that may be empty.
struct OptionalDatum {
  std::shared_ptr<const Datum> value;  ///< nullptr: empty
};
/// Keys (a tensor of strings or integers, shape [n]) and values in the same order.
struct MapDatum {
  Tensor keys;
  std::shared_ptr<const Datum> values;
};

class Datum {
 public:
  Datum();  ///< an undefined tensor
  // Copied in thousands of places, so compiled once.
  Datum(const Datum&);
  Datum(Datum&&) noexcept;
  Datum& operator=(const Datum&);
  Datum& operator=(Datum&&) noexcept;
  ~Datum();
  Datum(Tensor t);         // NOLINT: implicit on purpose
  Datum(SequenceDatum s);  // NOLINT
  Datum(OptionalDatum o);  // NOLINT
  Datum(MapDatum m);       // NOLINT
  bool is_tensor() const { return v_.index() == 0; }
  bool is_sequence() const { return v_.index() == 1; }
  bool is_optional() const { return v_.index() == 2; }
  bool is_map() const { return v_.index() == 3; }
  const Tensor& tensor() const {
    INFER_CHECK(is_tensor());
    return std::get<0>(v_);
  }
  Tensor& tensor() {
    INFER_CHECK(is_tensor());
    return std::get<0>(v_);
  }
  const std::vector<Datum>& sequence() const {
    INFER_CHECK(is_sequence());
    return std::get<1>(v_)->elements;
  }
  const OptionalDatum& optional() const {
    INFER_CHECK(is_optional());
    return std::get<2>(v_);
  }
  const MapDatum& map() const {
    INFER_CHECK(is_map());
    return *std::get<3>(v_);
  }

 private:
  std::variant<Tensor, std::shared_ptr<const SequenceDatum>, OptionalDatum,
               std::shared_ptr<const MapDatum>>
      v_;
};

/// `d` as a tensor of this type whose elements may be written: the one that it holds where it is of
/// the type and nobody else holds it, else a new one.
Tensor& WritableAs(Datum& d, DType dtype, const Dims& dims);

}  // namespace infer
