/// Reductions over axes: ReduceSum, ReduceMean, ... One loop for all: a result element is a fold
/// over the input elements at fixed offsets from its base. Sums are in double (int64 for integers).
#include <limits>

#include "lib/ops/common.h"
#include "lib/ops/move/move.h"
#include "lib/ops/move/permute.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

enum class Fold { kSum, kMean, kProd, kMax, kMin, kL1, kL2, kSumSquare, kLogSum, kLogSumExp };

/// The axes as input 1 says, normalised; all of them when it is absent or empty and noop is off.
Result<std::vector<int>> ReducedAxes(const std::vector<int64_t>& given, bool noop, int rank) {
  if (!given.empty()) return NormalizeAxes(given, rank);
  std::vector<int> all;
  for (int i = 0; i < rank && !noop; ++i) all.push_back(i);
  return all;
}

/// Elements of a rank-1 tensor folded to one, as far as they are known.
template <Fold kFold>
void PropagateElements(OpCall& call) {
  const auto e = call.elements(0);
  if (!e || e->empty() || call.shape(0).rank() != 1) return;
  Dim d = e->front();
  for (size_t i = 1; i < e->size(); ++i) {
    if constexpr (kFold == Fold::kSum) {
      d = d + (*e)[i];
    } else if constexpr (kFold == Fold::kProd) {
      d = d * (*e)[i];
    } else if (d.is_static() && (*e)[i].is_static()) {
      d = kFold == Fold::kMax ? std::max(d.value(), (*e)[i].value())
                              : std::min(d.value(), (*e)[i].value());
    } else {
      return;
    }
  }
  call.SetElements(0, {d});
}

template <Fold kFold>
Status InferReduce(OpCall& call) {
  const Shape& x = call.shape(0);
  const bool keep = call.Int("keepdims") != 0, noop = call.Int("noop_with_empty_axes") != 0;
  call.SetOut(0, call.dtype(0), Shape());
  if (!x.has_rank()) return {};
  std::vector<int64_t> given;
  if (call.has_input(1)) {
    const auto e = call.elements(1);
    const bool known =
        e && std::all_of(e->begin(), e->end(), [](const Dim& d) { return d.is_static(); });
    if (!known) {
      if (keep) call.SetOut(0, call.dtype(0), Shape(std::vector<Dim>(x.dims().size())));
      return {};
    }
    for (const Dim& d : *e) given.push_back(d.value());
  }
  INFER_ASSIGN(const std::vector<int> axes, ReducedAxes(given, noop, x.rank()));
  std::vector<Dim> dims;
  for (int i = 0; i < x.rank(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!reduced)
      dims.push_back(x[i]);
    else if (keep)
      dims.emplace_back(1);
  }
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  if constexpr (kFold == Fold::kSum || kFold == Fold::kProd || kFold == Fold::kMax ||
                kFold == Fold::kMin)
    if (axes.size() == 1) PropagateElements<kFold>(call);
  return {};
}

/// What a fold starts from; for empty folds also its result.
template <typename Acc>
Acc Start(Fold fold) {
  constexpr bool kInf = std::numeric_limits<Acc>::has_infinity;
  switch (fold) {
    case Fold::kProd: return 1;
    case Fold::kMax:
      return kInf ? -std::numeric_limits<Acc>::infinity() : std::numeric_limits<Acc>::lowest();
    case Fold::kMin:
      return kInf ? std::numeric_limits<Acc>::infinity() : std::numeric_limits<Acc>::max();
    default: return 0;
  }
}

/// Sums and products; those of integers wrap.
template <typename Acc>
Acc Plus(Acc a, Acc b) {
  if constexpr (std::is_integral_v<Acc>)
    return static_cast<Acc>(static_cast<Wrapping<Acc>>(a) + static_cast<Wrapping<Acc>>(b));
  else
    return a + b;
}
template <typename Acc>
Acc Times(Acc a, Acc b) {
  if constexpr (std::is_integral_v<Acc>)
    return static_cast<Acc>(static_cast<Wrapping<Acc>>(a) * static_cast<Wrapping<Acc>>(b));
  else
    return a * b;
}

/// v as a result: of integers the nearest that there is, the lowest where v is no number.
template <typename Acc>
Acc Nearest(double v) {
  if constexpr (std::is_integral_v<Acc>) {
    if (!(v > static_cast<double>(std::numeric_limits<Acc>::min())))
      return std::numeric_limits<Acc>::min();
    if (v >= static_cast<double>(std::numeric_limits<Acc>::max()))
      return std::numeric_limits<Acc>::max();
  }
  return static_cast<Acc>(v);
}

/// v - top, top the largest: of integers exact until it is a f64.
template <typename Acc>
double BelowTop(Acc v, Acc top) {
  if constexpr (std::is_integral_v<Acc>)
    return -static_cast<double>(static_cast<Wrapping<Acc>>(top) - static_cast<Wrapping<Acc>>(v));
  else
    return static_cast<double>(v - top);
}

/// Folds x[at(0)], x[at(1)], ..., x[at(n - 1)].
template <typename T, typename Acc, typename At>
Acc FoldElements(Fold fold, const T* x, int64_t n, At at) {
  Acc a = Start<Acc>(fold);
  const auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) f(static_cast<Acc>(x[at(i)]));
  };
  switch (fold) {
    case Fold::kSum:
    case Fold::kMean:
    case Fold::kLogSum: each([&](Acc v) { a = Plus(a, v); }); break;
    case Fold::kProd: each([&](Acc v) { a = Times(a, v); }); break;
    case Fold::kMax: each([&](Acc v) { a = v > a || v != v ? v : a; }); break;  // NaN stays
    case Fold::kMin: each([&](Acc v) { a = v < a || v != v ? v : a; }); break;
    case Fold::kL1: each([&](Acc v) { a = Plus(a, v < 0 ? Times(v, Acc(-1)) : v); }); break;
    case Fold::kL2:
    case Fold::kSumSquare: each([&](Acc v) { a = Plus(a, Times(v, v)); }); break;
    case Fold::kLogSumExp: {
      // max + ln(sum e^(x - max)): no overflow.
      const Acc top = FoldElements<T, Acc>(Fold::kMax, x, n, at);
      double sum = 0;
      const bool finite = std::isfinite(static_cast<double>(top));
      each([&](Acc v) { sum += finite ? std::exp(BelowTop(v, top)) : 0; });
      return finite ? Nearest<Acc>(static_cast<double>(top) + std::log(sum)) : top;
    }
  }
  if (fold == Fold::kMean) a = n == 0 && std::is_integral_v<Acc> ? 0 : a / static_cast<Acc>(n);
  if (fold == Fold::kL2) a = Nearest<Acc>(std::sqrt(static_cast<double>(a)));
  // Integers have no number for the logarithm of 0 or less: the lowest stands for it.
  if (fold == Fold::kLogSum) a = Nearest<Acc>(std::log(static_cast<double>(a)));
  return a;
}

/// The layout of a reduction: where each result begins and which offsets it folds.
struct ReducePlan {
  Dims out_dims;                 // as the result has them
  Dims kept_dims, kept_strides;  // of the dimensions that stay
  std::vector<int64_t> offsets;  // of the folded elements; none where there are no elements
  bool contiguous = true;        // offsets are 0, 1, 2, ...
};

ReducePlan PlanReduce(const Dims& dims, const std::vector<int>& axes, bool keep) {
  ReducePlan p;
  const Dims strides = Strides(dims);
  const bool is_empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  if (!is_empty) p.offsets = {0};  // else other extents may be huge
  for (size_t i = 0; i < dims.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int>(i)) == axes.end()) {
      p.out_dims.push_back(dims[i]);
      p.kept_dims.push_back(dims[i]);
      p.kept_strides.push_back(strides[i]);
      continue;
    }
    if (keep) p.out_dims.push_back(1);
    if (is_empty) continue;
    std::vector<int64_t> next;
    next.reserve(p.offsets.size() * static_cast<size_t>(dims[i]));
    for (int64_t o : p.offsets)
      for (int64_t k = 0; k < dims[i]; ++k) next.push_back(o + k * strides[i]);
    p.offsets = std::move(next);
  }
  for (size_t i = 0; i < p.offsets.size(); ++i)
    p.contiguous = p.contiguous && p.offsets[i] == static_cast<int64_t>(i);
  return p;
}

template <typename T, typename Acc>
void RunPlan(Fold fold, const ReducePlan& p, const Tensor& x, Tensor& y) {
  const T* in = x.data<T>().data();
  T* out = y.mutable_data<T>().data();
  const auto n = static_cast<int64_t>(p.offsets.size());
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(n, 1));
  ParallelFor(y.num_elements(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      int64_t base = 0, rest = o;
      for (size_t d = p.kept_dims.size(); d-- > 0;) {
        base += rest % p.kept_dims[d] * p.kept_strides[d];
        rest /= p.kept_dims[d];
      }
      const T* row = in + base;
      const auto direct = [](int64_t i) { return i; };
      const auto indirect = [&](int64_t i) { return p.offsets[static_cast<size_t>(i)]; };
      out[o] = static_cast<T>(p.contiguous ? FoldElements<T, Acc>(fold, row, n, direct)
                                           : FoldElements<T, Acc>(fold, row, n, indirect));
    }
  });
}

/// The maximum (or minimum) of nothing: the least (or largest) integer of the type.
Tensor ExtremumOfNothing(DType t, const Dims& dims, bool maximum) {
  Tensor y = Tensor::Zeros(t, dims);
  int64_t value = maximum ? 0 : 1;  // of bool
  if (t == DType::kU64 && !maximum)
    value = -1;  // all its bits
  else if (IsInteger(t))
    value = maximum ? IntegerMin(t) : IntegerMax(t);
  for (int64_t i = 0; i < y.num_elements(); ++i) y.SetInt(i, value);
  return y;
}

Status RunReduce(OpRun& run, Fold fold) {
  const Tensor& given = run.in(0);
  const bool keep = run.Int("keepdims") != 0, noop = run.Int("noop_with_empty_axes") != 0;
  const Tensor* axes_input = run.in_or_null(1);
  INFER_ASSIGN(
      const std::vector<int> axes,
      ReducedAxes(axes_input ? axes_input->ToInts() : std::vector<int64_t>(), noop, given.rank()));
  const ReducePlan plan = PlanReduce(given.dims(), axes, keep);
  const DType t = given.dtype();
  if (t == DType::kF32 || t == DType::kF64) {
    Tensor& y = run.Out(0, t, plan.out_dims);
    t == DType::kF32 ? RunPlan<float, double>(fold, plan, given, y)
                     : RunPlan<double, double>(fold, plan, given, y);
    return {};
  }
  if (plan.offsets.empty() && (fold == Fold::kMax || fold == Fold::kMin)) {
    run.Set(0, ExtremumOfNothing(t, plan.out_dims, fold == Fold::kMax));
    return {};
  }
  // Integers and bool go through int64, which holds every one of them but large u64.
  Tensor y(DType::kI64, plan.out_dims);
  RunPlan<int64_t, int64_t>(fold, plan, given.Cast(DType::kI64), y);
  run.Set(0, y.Cast(t));
  return {};
}

template <Fold kFold>
Status Reference(OpRun& run) {
  return RunReduce(run, kFold);
}

/// Opset < 18 (ReduceSum: < 13) had the axes as an attribute.
template <int kInputSince>
Status LiftReduce(NodeSpec node, int opset, LiftContext& out) {
  if (opset < kInputSince) AttrToInput(node, "axes", 1, out);
  out.Emit(std::move(node));
  return {};
}

template <int kInputSince>
Result<NodeSpec> LowerReduce(NodeSpec node, int opset, LiftContext& out) {
  if (opset >= kInputSince) return node;
  if (IntAttrOr(node, "noop_with_empty_axes", 0) != 0)
    return Unsupported(
        Cat(node.op, " '", node.name, "': noop_with_empty_axes needs opset ", kInputSince));
  DropAttr(node, "noop_with_empty_axes");
  if (node.inputs.size() > 1 && !node.inputs[1].empty())
    INFER_TRY(InputToAttr(node, "axes", 1, out));
  node.inputs.resize(1);
  return node;
}

constexpr TypeSet kReduceTypes =
    kFloatsBF16 | TypeSet(DType::kU32, DType::kU64, DType::kI32, DType::kI64);
constexpr TypeSet kExtremumTypes = kReduceTypes | TypeSet(DType::kU8, DType::kI8, DType::kBool);

/// Those that are kept.
void ReduceAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  if (!s.has_rank()) return;
  const auto given = call.has_input(1) ? KnownInts(call, 1) : std::vector<int64_t>();
  if (!given) return;
  const auto reduced = ReducedAxes(*given, call.Int("noop_with_empty_axes") != 0, s.rank());
  if (!reduced.ok()) return;
  int out = 0;
  for (int a = 0; a < s.rank(); ++a) {
    const bool gone = std::find(reduced->begin(), reduced->end(), a) != reduced->end();
    if (!gone) LinkSame(call, 0, a, 0, out, links);
    out += !gone || call.Int("keepdims") != 0;
  }
}

PermuteResult PermuteReduce(const OpCall& call, const Perm& perm, PermutedCall to) {
  return PermuteListedAxes(call, perm, std::move(to), call.Int("keepdims") != 0);
}

template <Fold kFold, int kInputSince = 18>
// NOLINTNEXTLINE(performance-unnecessary-value-param): the move below goes unseen in a template
OpDef ReduceOp(std::string_view name, std::string_view doc, std::vector<int> versions,
               std::string_view example, TypeSet types = kReduceTypes) {
  constexpr int kFlops = kFold == Fold::kMax || kFold == Fold::kMin ? 0 : 1;
  return {.name = name,
          .doc = doc,
          .traits = Trait::kReduction,
          .axes = ReduceAxes,
          .permute = PermuteReduce,
          .since = kInputSince,
          .versions = std::move(versions),
          .inputs = {{"data", "T"}, {"axes", "i64", Arity::kOptional, kInputSince}},
          .outputs = {{"reduced", "T"}},
          .attrs = {{"keepdims", AttrKind::kInt, int64_t{1}},
                    {"noop_with_empty_axes", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T", types}},
          .infer = InferReduce<kFold>,
          .reference = Wide<Reference<kFold>>,
          .cost = CostPerInput<kFlops>,
          .lift = LiftReduce<kInputSince>,
          .lower = LowerReduce<kInputSince>,
          .example = example};
}

}  // namespace

std::span<const OpDef> ReduceOps() {
  static const OpDef ops[] = {
      Also(Trait::kAdditive,
           ReduceOp<Fold::kSum, 13>("ReduceSum", "Sum over axes.", {1, 11, 13},
                                    "graph g(x: f32[2,3,4]) -> (y) { a = const i64[2] {0, -1}  "
                                    "y = ReduceSum(x, a) }")),
      Also(Trait::kAdditive,
           ReduceOp<Fold::kMean>("ReduceMean", "Mean over axes.", {1, 11, 13, 18},
                                 "graph g(x: f32[2,3,4]) -> (y) { a = const i64[1] {-1}  "
                                 "y = ReduceMean(x, a) {keepdims=0} }")),
      ReduceOp<Fold::kProd>("ReduceProd", "Product over axes.", {1, 11, 13, 18},
                            "graph g(x: f32[2,3]) -> (y) { y = ReduceProd(x) }"),
      ReduceOp<Fold::kMax>("ReduceMax", "Maximum over axes.", {1, 11, 12, 13, 18, 20},
                           "graph g(x: f32[2,3]) -> (y) { a = const i64[1] {0}  "
                           "y = ReduceMax(x, a) }",
                           kExtremumTypes),
      ReduceOp<Fold::kMin>("ReduceMin", "Minimum over axes.", {1, 11, 12, 13, 18, 20},
                           "graph g(x: f32[2,3]) -> (y) { a = const i64[1] {1}  "
                           "y = ReduceMin(x, a) }",
                           kExtremumTypes),
      ReduceOp<Fold::kL1>("ReduceL1", "Sum of absolute values over axes.", {1, 11, 13, 18},
                          "graph g(x: f32[2,3]) -> (y) { y = ReduceL1(x) {keepdims=0} }"),
      ReduceOp<Fold::kL2>("ReduceL2", "Square root of the sum of squares over axes.",
                          {1, 11, 13, 18},
                          "graph g(x: f32[2,3]) -> (y) { a = const i64[1] {1}  "
                          "y = ReduceL2(x, a) }"),
      ReduceOp<Fold::kSumSquare>("ReduceSumSquare", "Sum of squares over axes.", {1, 11, 13, 18},
                                 "graph g(x: f32[2,3]) -> (y) { a = const i64[1] {1}  "
                                 "y = ReduceSumSquare(x, a) }"),
      ReduceOp<Fold::kLogSum>("ReduceLogSum", "Logarithm of the sum over axes.", {1, 11, 13, 18},
                              "graph g(x: f32[2,3]) -> (y) { s = Abs(x)  a = const i64[1] {1}  "
                              "y = ReduceLogSum(s, a) }"),
      ReduceOp<Fold::kLogSumExp>("ReduceLogSumExp", "Logarithm of the sum of exponentials.",
                                 {1, 11, 13, 18, 28},
                                 "graph g(x: f32[2,3]) -> (y) { a = const i64[1] {1}  "
                                 "y = ReduceLogSumExp(x, a) }"),
  };
  return ops;
}

}  // namespace infer
