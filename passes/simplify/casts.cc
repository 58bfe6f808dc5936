/// Conversions: those that a later one makes unnecessary.
#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {
namespace {

/// Binary digits that hold every value up to the largest: of an integer without its sign, of a
/// float its significand. 0: not a type that the rules reason about.
int DigitsOf(DType t) {
  switch (t) {
    case DType::kBool: return 1;
    case DType::kBF16: return 8;
    case DType::kF16: return 11;
    case DType::kF32: return 24;
    case DType::kF64: return 53;
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64: return BitWidth(t) - 1;
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64: return BitWidth(t);
    default: return 0;
  }
}

/// Every value of `from` is one of `through`.
bool HoldsAll(DType through, DType from) {
  if (through == from) return true;
  const int have = DigitsOf(through), need = DigitsOf(from);
  if (have == 0 || need == 0 || through == DType::kBool) return false;
  if (IsFloat(from)) {
    // bf16 has f32's exponents and f16 has not.
    return IsFloat(through) && have > need && !(from == DType::kBF16 && through == DType::kF16);
  }
  if (IsFloat(through)) return have >= need && !(through == DType::kF16 && need > 11);
  const bool negative = IsSignedInteger(from);
  return have >= need && (!negative || IsSignedInteger(through));
}

}  // namespace

Rule RemoveNoOpCast() {
  Pattern x = Any();
  Pattern root = Op("Cast", x).Where("a cast to the type that is there", [](const Value& v) {
    const Value& from = *v.producer()->input(0);
    return from.type().is_tensor() && v.type().is_tensor() && from.dtype() == v.dtype();
  });
  return {
      .name = "remove-noop-cast",
      .doc = "Cast(x) to its own type => x",
      .match = root,
      .build = ReplaceBy(x),
      .fires_on = {"graph g(x: f32[2]) -> (y) { y = Cast(x) {to=1} }"},
      .silent_on = {{"graph g(x: f32[2]) -> (y) { y = Cast(x) {to=10} }",
                     "a cast to the type that is there"}},
  };
}

Rule MergeCasts() {
  Pattern x = Any(), inner = Op("Cast", x).Shared(), outer = Op("Cast", inner);
  return {
      .name = "merge-casts",
      .doc = "Cast(Cast(x)) => Cast(x), when the first one loses nothing",
      .match = outer,
      .when = {{"a first cast that keeps every value",
                [=](const Match& m) { return HoldsAll(m[inner]->dtype(), m[x]->dtype()); }}},
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        if (m[x]->dtype() == m[outer]->dtype()) return m[x];
        return b("Cast", {m[x]}, m.node(outer).attrs());
      },
      .fires_on = {"graph g(x: f16[2]) -> (y) { t = Cast(x) {to=1}  y = Cast(t) {to=10} }",
                   "graph g(x: i32[N]) -> (y, t) { t = Cast(x) {to=7}  y = Cast(t) {to=1} }",
                   "graph g(x: bool[N]) -> (y) { t = Cast(x) {to=1}  y = Cast(t) {to=7} }"},
      .silent_on = {{"graph g(x: f32[2]) -> (y) { t = Cast(x) {to=10}  y = Cast(t) {to=1} }",
                     "a first cast that keeps every value"},
                    {"graph g(x: i32[2]) -> (y) { t = Cast(x) {to=1}  y = Cast(t) {to=7} }",
                     "a first cast that keeps every value"},
                    {"graph g(x: i8[2]) -> (y) { t = Cast(x) {to=2}  y = Cast(t) {to=7} }",
                     "a first cast that keeps every value"}},
  };
}

Rule SkipCastBeforeShape() {
  Pattern x = Any(), root = Op("Shape|Size", Op("Cast|Identity", x).Shared());
  return {
      .name = "skip-cast-before-shape",
      .doc = "Shape(Cast(x)) => Shape(x)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        return b(m.node(root).op(), {m[x]}, m.node(root).attrs());
      },
      .fires_on = {"graph g(x: f32[N,2]) -> (y) { t = Cast(x) {to=10}  y = Shape(t) }"},
      .silent_on = {{"graph g(x: f32[N,2]) -> (y) { t = Transpose(x)  y = Shape(t) }",
                     "'t' is a Transpose, not a Cast"}},
  };
}

}  // namespace infer
