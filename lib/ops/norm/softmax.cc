/// Softmax, LogSoftmax, Hardmax along one axis.
#include <limits>
#include <numeric>

#include "lib/ops/common.h"
#include "lib/ops/move/permute.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

enum class Kind { kSoftmax, kLogSoftmax, kHardmax };

Status InferSoftmax(OpCall& call) {
  if (call.shape(0).has_rank() && call.shape(0).rank() > 0)
    INFER_TRY(NormalizeAxis(call.Int("axis"), call.shape(0).rank()).status());
  return InferSame(call);
}

/// One line of n elements `step` apart. Exponentials of x - max: they cannot overflow.
template <typename T>
void SoftmaxLine(Kind kind, const T* x, T* y, int64_t n, int64_t step) {
  T top = x[0];
  int64_t where = 0;
  for (int64_t i = 1; i < n; ++i)
    if (x[i * step] > top) {
      top = x[i * step];
      where = i;
    }
  if (kind == Kind::kHardmax) {
    for (int64_t i = 0; i < n; ++i) y[i * step] = i == where ? T{1} : T{0};
    return;
  }
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i * step]) - top);
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i * step]) - top;
    y[i * step] = static_cast<T>(kind == Kind::kSoftmax ? std::exp(d) / sum : d - log_sum);
  }
}

template <Kind kKind>
Status RunSoftmax(OpRun& run) {
  const Tensor& x = run.in(0);
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  if (x.num_elements() == 0) return {};
  const int rank = std::max(x.rank(), 1);
  INFER_ASSIGN(const int axis, NormalizeAxis(run.Int("axis"), rank));
  const int64_t n = x.rank() == 0 ? 1 : x.dim(axis);
  int64_t inner = 1;
  for (int i = axis + 1; i < x.rank(); ++i) inner *= x.dim(i);
  const int64_t lines = x.num_elements() / n;
  return DispatchF32F64(run, x.dtype(), [&]<typename T>(T) {
    const T* in = x.data<T>().data();
    T* out = y.mutable_data<T>().data();
    ParallelFor(lines, std::max<int64_t>(1, kElementGrain / (8 * n)), [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) {
        const int64_t at = i / inner * n * inner + i % inner;
        SoftmaxLine(kKind, in + at, out + at, n, inner);
      }
    });
  });
}

/// All axes behind `axis` have extent 1.
bool IsLastThatVaries(const Shape& s, int axis) {
  for (int i = axis + 1; i < s.rank(); ++i)
    if (!s[i].is_static() || s[i].value() != 1) return false;
  return true;
}

/// Before opset 13 the operand was flattened to two dimensions at `axis` (default 1), and the rows
/// of that matrix were what is normalised. The same thing where nothing varies behind `axis`.
Status LiftSoftmax(NodeSpec node, int opset, LiftContext& out) {
  if (opset >= 13) {
    out.Emit(std::move(node));
    return {};
  }
  const int64_t axis = IntAttrOr(node, "axis", 1);
  const ValueType* type = out.Type(node.inputs[0]);
  const bool ranked = type && type->is_tensor() && type->tensor().shape.has_rank();
  const int rank = ranked ? type->tensor().shape.rank() : 0;
  DropAttr(node, "axis");  // the last one
  if (axis == -1 || (ranked && (axis == rank - 1 || rank == 0))) {
    out.Emit(std::move(node));
    return {};
  }
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (ranked && at >= 0 && at < rank &&
      IsLastThatVaries(type->tensor().shape, static_cast<int>(at))) {
    node.attrs["axis"] = at;
    out.Emit(std::move(node));
    return {};
  }
  const std::string shape = out.Fresh("softmax_shape"), flat = out.Fresh("softmax_flat"),
                    result = out.Fresh("softmax_rows");
  out.Emit(MakeSpec("Shape", node, {node.inputs[0]}, {shape}));
  out.Emit(MakeSpec("Flatten", node, {node.inputs[0]}, {flat}, {{"axis", axis}}));
  const std::string y = node.outputs[0];
  node.inputs[0] = flat;
  node.outputs[0] = result;
  NodeSpec back = MakeSpec("Reshape", node, {result, shape}, {y});
  out.Emit(std::move(node));
  out.Emit(std::move(back));
  return {};
}

/// Before opset 13 only the last axis is like one of today, and another goes there and back.
Result<NodeSpec> LowerSoftmax(NodeSpec node, int opset, LiftContext& out) {
  if (opset >= 13) return node;
  const int64_t axis = IntAttrOr(node, "axis", -1);
  const ValueType* type = out.Type(node.inputs[0]);
  if (!type || !type->is_tensor() || !type->tensor().shape.has_rank())
    return Unsupported(Cat(node.op, " '", node.name, "' of an unknown rank needs opset 13"));
  const int rank = type->tensor().shape.rank();
  if (rank == 0) return Unsupported(Cat(node.op, " '", node.name, "' of a scalar needs opset 13"));
  INFER_ASSIGN(const int at, NormalizeAxis(axis, rank));
  node.attrs["axis"] = int64_t{at};
  if (IsLastThatVaries(type->tensor().shape, at)) return node;
  node.attrs["axis"] = int64_t{rank - 1};
  std::vector<int64_t> swap(static_cast<size_t>(rank));
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[static_cast<size_t>(at)], swap.back());
  const std::string in = out.Fresh("softmax_in"), rows = out.Fresh("softmax_rows");
  NodeSpec back = MakeSpec("Transpose", node, {rows}, {node.outputs[0]}, {{"perm", swap}});
  out.Emit(MakeSpec("Transpose", node, {node.inputs[0]}, {in}, {{"perm", swap}}));
  node.inputs[0] = in;
  node.outputs[0] = rows;
  out.Emit(std::move(node));
  return back;
}

template <Kind kKind>
OpDef SoftmaxOp(std::string_view name, std::string_view doc, std::string_view example) {
  return {.name = name,
          .doc = doc,
          .traits = Trait::kNormalization | Trait::kSoftmax,
          .axes = AllButAxis,
          .permute = PermuteAxis,
          .since = 13,
          .versions = {1, 11, 13},
          .inputs = {{"input", "T"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"axis", AttrKind::kInt, int64_t{-1}}},
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferSoftmax,
          .reference = Wide<RunSoftmax<kKind>>,
          .cost = CostPerInput < kKind == Kind::kHardmax ? 0 : 5 >
          , .lift = LiftSoftmax, .lower = LowerSoftmax, .example = example};
}

}  // namespace

std::span<const OpDef> SoftmaxOps() {
  static const OpDef ops[] = {
      Also(Trait::kNonNegative,
           SoftmaxOp<Kind::kSoftmax>("Softmax", "e^x / sum e^x along an axis.",
                                     "graph g(x: f32[2,3,4]) -> (y) { y = Softmax(x) {axis=1} }")),
      SoftmaxOp<Kind::kLogSoftmax>("LogSoftmax", "x - ln sum e^x along an axis.",
                                   "graph g(x: f32[2,3]) -> (y) { y = LogSoftmax(x) }"),
      Also(Trait::kNonNegative,
           SoftmaxOp<Kind::kHardmax>("Hardmax", "1 at the first maximum along an axis, else 0.",
                                     "graph g(x: f32[2,3]) -> (y) { y = Hardmax(x) }")),
  };
  return ops;
}

}  // namespace infer
