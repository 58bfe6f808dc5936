/// Comparisons, predicates and Where.
#include <string>

#include "lib/ops/decompositions.h"
#include "lib/ops/elements.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

template <typename F>
Status RunCompare(OpRun& run, F f) {
  const Tensor &a = run.in(0), &b = run.in(1);
  INFER_TRY(CheckSameTypes(run, 0, 2));
  INFER_ASSIGN(Dims dims, Broadcast(a.dims(), b.dims()));
  Tensor& out = run.Out(0, DType::kBool, std::move(dims));
  return DispatchNumber(run, a.dtype(),
                        [&]<typename T>(T) { MapBinary<T, T, bool>(a, b, out, f); });
}

Status RunEqual(OpRun& run) {
  const Tensor &a = run.in(0), &b = run.in(1);
  if (a.dtype() != b.dtype() || (a.dtype() != DType::kBool && a.dtype() != DType::kString))
    return RunCompare(run, [](auto x, auto y) { return x == y; });
  INFER_ASSIGN(Dims dims, Broadcast(a.dims(), b.dims()));
  Tensor& out = run.Out(0, DType::kBool, std::move(dims));
  if (a.dtype() == DType::kBool) {
    MapBinary<bool, bool, bool>(a, b, out, [](bool x, bool y) { return x == y; });
    return {};
  }
  const Dims operands[] = {a.dims(), b.dims()};
  const StridedLoop loop = StridedLoop::Broadcast(out.dims(), operands);
  const auto y = out.mutable_data<bool>();
  loop.Run([&](int64_t at, const int64_t* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      y[static_cast<size_t>(at + i)] =
          a.strings()[static_cast<size_t>(from[0] + i * loop.inner_stride(0))] ==
          b.strings()[static_cast<size_t>(from[1] + i * loop.inner_stride(1))];
  });
  return {};
}
Status RunGreater(OpRun& run) {
  return RunCompare(run, [](auto x, auto y) { return x > y; });
}
Status RunGreaterOrEqual(OpRun& run) {
  return RunCompare(run, [](auto x, auto y) { return x >= y; });
}
Status RunLess(OpRun& run) {
  return RunCompare(run, [](auto x, auto y) { return x < y; });
}
Status RunLessOrEqual(OpRun& run) {
  return RunCompare(run, [](auto x, auto y) { return x <= y; });
}

Status InferSameBool(OpCall& call) {
  call.SetOut(0, DType::kBool, call.shape(0));
  return {};
}

template <typename F>
Status RunPredicate(OpRun& run, F f) {
  const Tensor x = Widen(run.in(0));
  Tensor& y = run.Out(0, DType::kBool, x.dims());
  return DispatchF32F64(run, x.dtype(),
                        [&]<typename T>(T) { MapUnary(x.data<T>(), y.mutable_data<bool>(), f); });
}
Status RunIsNaN(OpRun& run) {
  return RunPredicate(run, [](auto v) { return std::isnan(v); });
}
Status RunIsInf(OpRun& run) {
  const bool negative = run.Int("detect_negative") != 0, positive = run.Int("detect_positive") != 0;
  return RunPredicate(run, [=](auto v) { return std::isinf(v) && (v < 0 ? negative : positive); });
}

Status InferWhere(OpCall& call) {
  INFER_ASSIGN(Shape shape, BroadcastInputs(call));
  const bool small = shape.has_rank() && shape.rank() <= 1;
  call.SetOut(0, call.dtype(1) != DType::kUndefined ? call.dtype(1) : call.dtype(2),
              std::move(shape));
  if (!small || IsFloat(call.dtype(1))) return {};
  const auto c = KnownElements(call, 0), x = KnownElements(call, 1), y = KnownElements(call, 2);
  if (!c || !x || !y) return {};
  const size_t n = std::max({c->size(), x->size(), y->size()});
  std::vector<Dim> out(n);
  for (const auto* e : {&*c, &*x, &*y})
    if (e->size() != n && e->size() != 1) return {};
  auto at = [](const std::vector<Dim>& e, size_t i) { return e[e.size() == 1 ? 0 : i]; };
  for (size_t i = 0; i < n; ++i) {
    const Dim cond = at(*c, i), yes = at(*x, i), no = at(*y, i);
    if (cond.is_static())
      out[i] = cond.value() != 0 ? yes : no;
    else if (yes.KnownEqual(no))
      out[i] = yes;
  }
  call.SetElements(0, std::move(out));
  return {};
}

template <typename T>
void Choose(const StridedLoop& loop, const bool* c, const T* x, const T* y, T* z) {
  const int64_t sc = loop.inner_stride(0), sx = loop.inner_stride(1), sy = loop.inner_stride(2);
  loop.Run([=](int64_t at, const int64_t* from, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      z[at + i] = c[from[0] + i * sc] ? x[from[1] + i * sx] : y[from[2] + i * sy];
  });
}

Status RunWhere(OpRun& run) {
  const Tensor &c = run.in(0), &x = run.in(1), &y = run.in(2);
  INFER_TRY(CheckSameTypes(run, 1, 3));
  if (c.dtype() != DType::kBool) return InvalidModel("Where: the condition is not bool");
  INFER_ASSIGN(Dims dims, Broadcast(x.dims(), y.dims()));
  INFER_ASSIGN(dims, Broadcast(dims, c.dims()));
  Tensor& out = run.Out(0, x.dtype(), std::move(dims));
  const Dims operands[] = {c.dims(), x.dims(), y.dims()};
  const StridedLoop loop = StridedLoop::Broadcast(out.dims(), operands);
  const bool* pc = c.data<bool>().data();
  auto choose = [&]<typename T>(T) {
    Choose(loop, pc, reinterpret_cast<const T*>(x.raw()), reinterpret_cast<const T*>(y.raw()),
           reinterpret_cast<T*>(out.mutable_raw()));
  };
  switch (BitWidth(x.dtype())) {
    case 8: choose(uint8_t{}); break;
    case 16: choose(uint16_t{}); break;
    case 32: choose(uint32_t{}); break;
    case 64: choose(uint64_t{}); break;
    case 128: choose(std::complex<double>{}); break;
    default:
      if (x.dtype() != DType::kString)
        return Unsupported(Cat("Where: no reference kernel for ", Name(x.dtype())));
      Choose(loop, pc, x.strings().data(), y.strings().data(), out.mutable_strings().data());
  }
  return {};
}

OpDef Comparison(std::string_view name, std::string_view doc, std::vector<int> versions,
                 TypeSet types, OpDef::InferFn infer, OpDef::ReferenceFn reference,
                 std::string_view example) {
  const bool legacy = versions.front() == 1;
  return {.name = name,
          .doc = doc,
          .traits = Trait::kElementwise,
          .since = legacy ? 7 : versions.front(),
          .versions = std::move(versions),
          .inputs = {{"A", "T"}, {"B", "T"}},
          .outputs = {{"C", "T1"}},
          .constraints = {{"T", types}, {"T1", TypeSet(DType::kBool)}},
          .commutative = name == "Equal",
          .tolerance = 0,
          .infer = infer,
          .reference = reference,
          .lift = legacy ? LiftAxisBroadcast : nullptr,
          .decompose = name.ends_with("OrEqual") ? DecomposeOrEqual : nullptr,
          .example = example};
}

}  // namespace

std::span<const OpDef> CompareOps() {
  constexpr TypeSet kOthers{DType::kBool, DType::kString};
  static const OpDef ops[] = {
      Comparison("Equal", "C = A == B.", {1, 7, 11, 13, 19}, kNumeric | kOthers,
                 InferPredicateOf<EqualDims>, Wide<RunEqual>,
                 "graph g(x: i64[2,3], y: i64[3]) -> (z) { z = Equal(x, y) }"),
      Comparison("Greater", "C = A > B.", {1, 7, 9, 13}, kNumeric, InferPredicateOf<GreaterDims>,
                 Wide<RunGreater>, "graph g(x: f32[2,3], y: f32[3]) -> (z) { z = Greater(x, y) }"),
      Comparison("GreaterOrEqual", "C = A >= B.", {12, 16}, kNumeric,
                 InferPredicateOf<GreaterOrEqualDims>, Wide<RunGreaterOrEqual>,
                 "graph g(x: f32[2,3], y: f32[3]) -> (z) { z = GreaterOrEqual(x, y) }"),
      Comparison("Less", "C = A < B.", {1, 7, 9, 13}, kNumeric, InferPredicateOf<LessDims>,
                 Wide<RunLess>, "graph g(x: f32[2,3], y: f32[3]) -> (z) { z = Less(x, y) }"),
      Comparison("LessOrEqual", "C = A <= B.", {12, 16}, kNumeric,
                 InferPredicateOf<LessOrEqualDims>, Wide<RunLessOrEqual>,
                 "graph g(x: f32[2,3], y: f32[3]) -> (z) { z = LessOrEqual(x, y) }"),
      {.name = "IsNaN",
       .doc = "y = x is not a number.",
       .traits = Trait::kUnary,
       .since = 9,
       .versions = {9, 13, 20},
       .inputs = {{"X", "T1"}},
       .outputs = {{"Y", "T2"}},
       .constraints = {{"T1", kFloatsBF16 | kFloat8}, {"T2", TypeSet(DType::kBool)}},
       .tolerance = 0,
       .infer = InferSameBool,
       .reference = RunIsNaN,
       .example = "graph g(x: f32[2,3]) -> (y) { y = IsNaN(x) }"},
      {.name = "IsInf",
       .doc = "y = x is an infinity of a wanted sign.",
       .traits = Trait::kUnary,
       .since = 10,
       .versions = {10, 20},
       .inputs = {{"X", "T1"}},
       .outputs = {{"Y", "T2"}},
       .attrs = {{"detect_negative", AttrKind::kInt, int64_t{1}},
                 {"detect_positive", AttrKind::kInt, int64_t{1}}},
       .constraints = {{"T1", kFloatsBF16 | kFloat8}, {"T2", TypeSet(DType::kBool)}},
       .tolerance = 0,
       .infer = InferSameBool,
       .reference = RunIsInf,
       .example = "graph g(x: f32[2,3]) -> (y) { y = IsInf(x) {detect_negative=0} }"},
      {.name = "Where",
       .doc = "X where the condition holds, else Y, with broadcasting.",
       .traits = Trait::kElementwise | Trait::kAdditive,
       .since = 9,
       .versions = {9, 16},
       .inputs = {{"condition", "B"}, {"X", "T"}, {"Y", "T"}},
       .outputs = {{"output", "T"}},
       .constraints = {{"B", TypeSet(DType::kBool)}, {"T", kClassicTypes | TypeSet(DType::kBF16)}},
       .tolerance = 0,
       .infer = InferWhere,
       .reference = RunWhere,
       .example = "graph g(c: bool[2,1], x: f32[2,3], y: f32[3]) -> (z) { z = Where(c, x, y) }"},
  };
  return ops;
}

}  // namespace infer
