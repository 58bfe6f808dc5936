#include "tests/differential/random_values.h"

#include <complex>

namespace infer {
namespace {

constexpr int64_t kMostElements = 1 << 20;

}  // namespace

Tensor RandomTensor(DType dtype, const Dims& dims, Random& random) {
  Tensor t(dtype, dims);
  const uint32_t style = random.Below(8);
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    const double v = style == 0   ? random.Below(9) * 0.5 - 2  // ties and equal ones
                     : style == 1 ? 100 * random.Normal()
                                  : random.Normal();
    if (dtype == DType::kString)
      t.mutable_strings()[at] =
          std::string(1 + random.Below(2), static_cast<char>('a' + random.Below(3)));
    else if (dtype == DType::kC64)
      t.mutable_data<std::complex<float>>()[at] = {static_cast<float>(v), 1};
    else if (dtype == DType::kC128)
      t.mutable_data<std::complex<double>>()[at] = {v, 2};
    else if (dtype == DType::kF8E8M0)
      t.Set(i, random.Below(3) + 1);
    else if (IsFloat(dtype))
      t.Set(i, v);
    else
      t.SetInt(i, dtype == DType::kBool ? random.Below(2) : random.Below(style == 0 ? 2 : 3));
  }
  return t;
}

ValueType RunType(const ValueType& t, std::map<std::string, int64_t>& symbols, Random& random) {
  if (!t.is_tensor()) return t;
  const TensorType& tensor = t.tensor();
  Dims dims;
  if (!tensor.shape.has_rank()) dims.assign(random.Below(4), 2);
  for (int i = 0; tensor.shape.has_rank() && i < tensor.shape.rank(); ++i) {
    const Dim& d = tensor.shape[i];
    if (d.is_static()) {
      dims.push_back(d.value());
      continue;
    }
    const std::string symbol = d.symbol().empty() ? d.ToString() : d.symbol();
    dims.push_back(symbols.try_emplace(symbol, 1 + random.Below(4)).first->second);
  }
  return ValueType(TensorType{tensor.dtype, Shape(dims)});
}

std::optional<Datum> RandomDatum(const ValueType& type, Random& random) {
  std::map<std::string, int64_t> symbols;
  const auto many = [&](DType dtype) { return RandomTensor(dtype, {2}, random); };
  switch (type.kind()) {
    case ValueType::Kind::kTensor: {
      if (type.tensor().dtype == DType::kUndefined) return std::nullopt;
      const ValueType run = RunType(type, symbols, random);
      const auto count = CheckedNumElements(run.tensor().shape.static_dims());
      if (!count || *count > kMostElements) return std::nullopt;
      return Datum(RandomTensor(run.tensor().dtype, run.tensor().shape.static_dims(), random));
    }
    case ValueType::Kind::kSequence: {
      SequenceDatum s;
      for (uint32_t n = random.Below(4); n > 0; --n) {
        const auto element = RandomDatum(type.element(), random);
        if (!element) return std::nullopt;
        s.elements.push_back(*element);
      }
      return Datum(std::move(s));
    }
    case ValueType::Kind::kOptional: {
      const auto element = RandomDatum(type.element(), random);
      if (!element) return std::nullopt;
      return Datum(
          OptionalDatum{random.Below(3) ? std::make_shared<const Datum>(*element) : nullptr});
    }
    case ValueType::Kind::kMap: {
      if (!type.element().is_tensor()) return std::nullopt;
      const DType dtype = type.element().tensor().dtype;
      Tensor keys = many(type.key());
      if (type.key() == DType::kString)
        keys.mutable_strings() = {"a", "b"};
      else
        keys.SetInt(0, 7);
      return Datum(MapDatum{keys, std::make_shared<const Datum>(many(dtype))});
    }
  }
  return std::nullopt;
}

}  // namespace infer
