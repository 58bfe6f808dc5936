/// Logic on bool and on the bits of integers.
#include "lib/ops/elements.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

template <auto kFn>
Status RunLogic(OpRun& run) {
  const Tensor &a = run.in(0), &b = run.in(1);
  if (a.dtype() != DType::kBool || b.dtype() != DType::kBool)
    return InvalidModel(Cat(run.call().def().name, ": operands must be bool"));
  INFER_ASSIGN(Dims dims, Broadcast(a.dims(), b.dims()));
  MapBinary<bool, bool, bool>(a, b, run.Out(0, DType::kBool, std::move(dims)), kFn);
  return {};
}

/// Integers only; floats never come here (the schema forbids them).
template <auto kFn>
Status RunBits(OpRun& run) {
  const Tensor &a = run.in(0), &b = run.in(1);
  INFER_TRY(CheckSameTypes(run, 0, 2));
  INFER_ASSIGN(Dims dims, Broadcast(a.dims(), b.dims()));
  Tensor& out = run.Out(0, a.dtype(), std::move(dims));
  return DispatchNumber(run, a.dtype(), [&]<typename T>(T) {
    if constexpr (std::is_integral_v<T>)
      MapBinary<T, T, T>(a, b, out, [](T x, T y) { return static_cast<T>(kFn(x, y)); });
  });
}

Status InferBitShift(OpCall& call) {
  const std::string& direction = call.Str("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    return InvalidModel(Cat("BitShift: direction is '", direction, "', not LEFT or RIGHT"));
  return InferBroadcast(call);
}

/// A shift by the width or more leaves 0. Only unsigned types.
Status RunBitShift(OpRun& run) {
  const Tensor &a = run.in(0), &b = run.in(1);
  INFER_TRY(CheckSameTypes(run, 0, 2));
  INFER_ASSIGN(Dims dims, Broadcast(a.dims(), b.dims()));
  const bool left = run.Str("direction") == "LEFT";
  Tensor& out = run.Out(0, a.dtype(), std::move(dims));
  return DispatchNumber(run, a.dtype(), [&]<typename T>(T) {
    if constexpr (std::is_unsigned_v<T>)
      MapBinary<T, T, T>(a, b, out, [left](T x, T by) -> T {
        if (by >= sizeof(T) * 8) return 0;
        const auto wide = static_cast<uint64_t>(x);
        return static_cast<T>(left ? wide << by : wide >> by);
      });
  });
}

Status InferNot(OpCall& call) {
  INFER_TRY(InferSame(call));
  if (auto e = KnownElements(call, 0)) {
    for (Dim& d : *e) d = d.is_static() ? Dim(int64_t{d.value() == 0}) : Dim();
    call.SetElements(0, *std::move(e));
  }
  return {};
}

Status RunNot(OpRun& run) {
  if (run.in(0).dtype() != DType::kBool) return InvalidModel("Not: the operand must be bool");
  MapUnary(run.in(0).data<bool>(), run.Out(0, DType::kBool, run.in(0).dims()).mutable_data<bool>(),
           [](bool v) { return !v; });
  return {};
}

Status RunBitwiseNot(OpRun& run) {
  const Tensor& x = run.in(0);
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  return DispatchNumber(run, x.dtype(), [&]<typename T>(T) {
    if constexpr (std::is_integral_v<T>)
      MapUnary(x.data<T>(), y.mutable_data<T>(), [](T v) { return static_cast<T>(~v); });
  });
}

OpDef Logic(std::string_view name, std::string_view doc, OpDef::InferFn infer,
            OpDef::ReferenceFn reference, std::string_view example) {
  return {.name = name,
          .doc = doc,
          .traits = Trait::kElementwise,
          .since = 7,
          .versions = {1, 7},
          .inputs = {{"A", "T"}, {"B", "T"}},
          .outputs = {{"C", "T1"}},
          .constraints = {{"T", TypeSet(DType::kBool)}, {"T1", TypeSet(DType::kBool)}},
          .commutative = true,
          .tolerance = 0,
          .infer = infer,
          .reference = reference,
          .lift = LiftAxisBroadcast,
          .example = example};
}

OpDef Bitwise(std::string_view name, std::string_view doc, OpDef::ReferenceFn reference,
              std::string_view example) {
  return {.name = name,
          .doc = doc,
          .traits = Trait::kElementwise,
          .since = 18,
          .versions = {18},
          .inputs = {{"A", "T"}, {"B", "T"}},
          .outputs = {{"C", "T"}},
          .constraints = {{"T", kInts}},
          .commutative = true,
          .tolerance = 0,
          .infer = InferBroadcast,
          .reference = reference,
          .example = example};
}

}  // namespace

std::span<const OpDef> LogicalOps() {
  static const OpDef ops[] = {
      Logic("And", "C = A and B.", InferPredicateOf<AndDims>,
            RunLogic<[](bool a, bool b) { return a && b; }>,
            "graph g(x: bool[2,3], y: bool[3]) -> (z) { z = And(x, y) }"),
      Logic("Or", "C = A or B.", InferPredicateOf<OrDims>,
            RunLogic<[](bool a, bool b) { return a || b; }>,
            "graph g(x: bool[2,3], y: bool[3]) -> (z) { z = Or(x, y) }"),
      Logic("Xor", "C = either A or B.", InferPredicate,
            RunLogic<[](bool a, bool b) { return a != b; }>,
            "graph g(x: bool[2,3], y: bool[3]) -> (z) { z = Xor(x, y) }"),
      {.name = "Not",
       .doc = "y = not x.",
       .traits = Trait::kUnary,
       .inputs = {{"X", "T"}},
       .outputs = {{"Y", "T"}},
       .constraints = {{"T", TypeSet(DType::kBool)}},
       .tolerance = 0,
       .infer = InferNot,
       .reference = RunNot,
       .example = "graph g(x: bool[2,3]) -> (y) { y = Not(x) }"},
      {.name = "BitShift",
       .doc = "Z = X shifted by Y bits in the given direction.",
       .traits = Trait::kElementwise,
       .since = 11,
       .versions = {11},
       .inputs = {{"X", "T"}, {"Y", "T"}},
       .outputs = {{"Z", "T"}},
       .attrs = {{"direction", AttrKind::kString, {}, true}},
       .constraints = {{"T", kUnsignedInts}},
       .tolerance = 0,
       .infer = InferBitShift,
       .reference = RunBitShift,
       .example = R"(graph g(x: u32[3], y: u32[3]) -> (z) {
         z = BitShift(x, y) {direction="LEFT"} })"},
      Bitwise("BitwiseAnd", "C = A & B.", RunBits<[](auto a, auto b) { return a & b; }>,
              "graph g(x: i32[2,3], y: i32[3]) -> (z) { z = BitwiseAnd(x, y) }"),
      Bitwise("BitwiseOr", "C = A | B.", RunBits<[](auto a, auto b) { return a | b; }>,
              "graph g(x: i32[2,3], y: i32[3]) -> (z) { z = BitwiseOr(x, y) }"),
      Bitwise("BitwiseXor", "C = A ^ B.", RunBits<[](auto a, auto b) { return a ^ b; }>,
              "graph g(x: i32[2,3], y: i32[3]) -> (z) { z = BitwiseXor(x, y) }"),
      {.name = "BitwiseNot",
       .doc = "y = ~x.",
       .traits = Trait::kUnary,
       .since = 18,
       .versions = {18},
       .inputs = {{"X", "T"}},
       .outputs = {{"Y", "T"}},
       .constraints = {{"T", kInts}},
       .tolerance = 0,
       .infer = InferSame,
       .reference = RunBitwiseNot,
       .example = "graph g(x: i32[2,3]) -> (y) { y = BitwiseNot(x) }"},
  };
  return ops;
}

}  // namespace infer
