#include "passes/fuse/formulas.h"

#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Bits of the types in which one holds all values of the next; bf16 and f16 hold not each other's.
bool HoldsAll(DType wide, DType narrow) {
  if (wide == narrow) return true;
  if (wide == DType::kF64) return narrow == DType::kF32 || HoldsAll(DType::kF32, narrow);
  return wide == DType::kF32 && (narrow == DType::kF16 || narrow == DType::kBF16);
}

}  // namespace

bool Widens(const Value& cast) {
  const Value& from = *cast.producer()->input(0);
  return cast.type().is_tensor() && from.type().is_tensor() && IsFloat(cast.dtype()) &&
         HoldsAll(cast.dtype(), from.dtype());
}
bool Narrows(const Value& cast) {
  const Value& from = *cast.producer()->input(0);
  return cast.type().is_tensor() && from.type().is_tensor() && IsFloat(from.dtype()) &&
         HoldsAll(from.dtype(), cast.dtype());
}

Pattern Operand() {
  return Any().Where("of known rank", [](const Value& v) { return RankOf(v) >= 0; });
}
Pattern Scaled(const Pattern& p, double c) {
  return OneOf({Op("Mul", p, Number(c)), Op("Div", p, Number(1 / c))});
}
Pattern Product(const Pattern& x, const Pattern& a, double c) {
  return OneOf(
      {Op("Mul", Scaled(x, c), a), Scaled(Op("Mul", x, a), c), Op("Mul", x, Scaled(a, c))});
}
Pattern Square(const Pattern& x) { return OneOf({Op("Pow", x, Number(2)), Op("Mul", x, x)}); }
Pattern InverseSqrt(const Pattern& x) {
  Pattern root = OneOf({Op("Sqrt", x), Op("Pow", x, Number(0.5))});
  return OneOf({Op("Reciprocal", root), Op("Div", Number(1), root), Op("Pow", x, Number(-0.5))});
}
Pattern OverSqrt(const Pattern& n, const Pattern& x) {
  Pattern root = OneOf({Op("Sqrt", x), Op("Pow", x, Number(0.5))});
  return OneOf({Op("Div", n, MaybeNarrower(root)), Op("Mul", n, MaybeNarrower(InverseSqrt(x)))});
}
Pattern MeanOf(const Pattern& v, const Pattern& axes) {
  return Op("ReduceMean", v, axes).With("keepdims", int64_t{1});
}
Pattern RowMeanOf(const Pattern& v, const Pattern& axes) {
  Pattern pooled = Op("GlobalAveragePool", v).Where("of three axes", [](const Value& mean) {
    return RankOf(mean) == 3;
  });
  return OneOf({MeanOf(v, axes), pooled});
}
Pattern MaybeWider(const Pattern& x) {
  return OneOf({x, Op("Cast", x).Where("a Cast to a wider float type", Widens)});
}
Pattern MaybeNarrower(const Pattern& x) {
  return OneOf({x, Op("Cast", x).Where("a Cast to a narrower float type", Narrows)});
}

}  // namespace infer
