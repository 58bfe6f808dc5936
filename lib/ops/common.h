#pragma once
/// What operator families share: inference of element-wise operators, strided and broadcasting
/// loops, element maps, f16/bf16 through f32, axes, costs, and helpers of lift and lower.
#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/ops/op_def.h"
#include "lib/support/function_ref.h"
#include "lib/support/parallel.h"
#include "lib/support/strings.h"

namespace infer {

/// Elements that one lane takes at least in an element-wise loop.
inline constexpr int64_t kElementGrain = 16384;

// ---- Inference -------------------------------------------------------------------------------

/// Output 0 has the type of input 0 (other outputs are not set).
Status InferSame(OpCall& call);
/// Output 0: the common broadcast shape of all present inputs, element type of input 0.
Status InferBroadcast(OpCall& call);
/// As InferBroadcast, but the result is bool.
Status InferPredicate(OpCall& call);
/// The common broadcast shape of all present inputs.
Result<Shape> BroadcastInputs(const OpCall& call);
/// InvalidModel unless the rank of input i is unknown or in [least, most].
Status CheckRank(const OpCall& call, size_t i, int least, int most = 1 << 20);
/// A copy of `shape` with extent `axis` replaced. Pre: known rank, 0 <= axis < rank.
Shape WithDim(const Shape& shape, int axis, Dim d);
/// Each axis mapped to [0, rank). InvalidModel when one is out of range or stands twice.
Result<std::vector<int>> NormalizeAxes(std::span<const int64_t> axes, int rank);

// ---- Cost ------------------------------------------------------------------------------------

/// Number of elements where the shape is static, else 0.
int64_t StaticElements(const Shape& shape);
/// kFlops per element of output 0, and the default traffic.
template <int kFlops>
Cost CostPerOutput(const OpCall& call) {
  Cost c = TrafficOf(call);
  c.flops = kFlops * StaticElements(call.out(0).shape);
  return c;
}
/// kFlops per element of input 0, and the default traffic.
template <int kFlops>
Cost CostPerInput(const OpCall& call) {
  Cost c = TrafficOf(call);
  c.flops = kFlops * StaticElements(call.shape(0));
  return c;
}

// ---- Loops -----------------------------------------------------------------------------------

/// A row-major walk over an output of extents `dims` that reads any number of operands by strides
/// (in elements; 0 repeats). Adjacent dimensions that every operand walks alike are merged, so rows
/// are as long as they can be.
class StridedLoop {
 public:
  /// `strides[k]` belongs to operand k and has dims.size() entries; `starts[k]` is the offset of
  /// its first element (all 0 when empty).
  StridedLoop(const Dims& dims, const std::vector<Dims>& strides, std::vector<int64_t> starts = {});
  /// Operands of extents `operands[k]` broadcast to `dims`. Pre: they do. The inner stride of each
  /// is then 0 or 1.
  static StridedLoop Broadcast(const Dims& dims, std::span<const Dims> operands);
  static StridedLoop Broadcast(const Dims& dims, const Dims& a, const Dims& b);  ///< of two

  int64_t size() const { return size_; }  ///< number of output elements
  int64_t inner_stride(size_t operand) const { return strides_[operand].back(); }

  /// Calls row(out, offsets, n) for each run of n output elements out, out+1, ... within the flat
  /// range [begin, end); offsets[k] is where operand k's run begins, and inner_stride(k) its step.
  using Row = FunctionRef<void(int64_t, const int64_t*, int64_t)>;
  void ForEachRow(int64_t begin, int64_t end, Row row) const;
  /// ForEachRow over everything, on several lanes.
  void Run(Row row) const;

 private:
  Dims dims_;                  // merged, at least one
  std::vector<Dims> strides_;  // per operand, as dims_
  std::vector<int64_t> starts_;
  int64_t size_;
};

/// y[i] = f(x[i]).
template <typename In, typename Out, typename F>
void MapUnary(std::span<const In> x, std::span<Out> y, F f) {
  ParallelFor(static_cast<int64_t>(y.size()), kElementGrain, [&](int64_t begin, int64_t end) {
    const In* in = x.data();
    Out* out = y.data();
    for (int64_t i = begin; i < end; ++i) out[i] = f(in[i]);
  });
}

/// out = f(a, b) with broadcasting. Pre: out has the broadcast extents of a and b.
template <typename A, typename B, typename Out, typename F>
void MapBinary(const Tensor& a, const Tensor& b, Tensor& out, F f) {
  const StridedLoop loop = StridedLoop::Broadcast(out.dims(), a.dims(), b.dims());
  const A* pa = a.data<A>().data();
  const B* pb = b.data<B>().data();
  Out* po = out.mutable_data<Out>().data();
  const bool a_steps = loop.inner_stride(0) != 0, b_steps = loop.inner_stride(1) != 0;
  loop.Run([=](int64_t at, const int64_t* offsets, int64_t n) {
    const A* x = pa + offsets[0];
    const B* y = pb + offsets[1];
    Out* z = po + at;
    if (a_steps && b_steps) {
      for (int64_t i = 0; i < n; ++i) z[i] = f(x[i], y[i]);
    } else if (a_steps) {
      for (int64_t i = 0; i < n; ++i) z[i] = f(x[i], *y);
    } else if (b_steps) {
      for (int64_t i = 0; i < n; ++i) z[i] = f(*x, y[i]);
    } else {
      std::fill_n(z, n, static_cast<Out>(f(*x, *y)));
    }
  });
}

// ---- Narrow floats ---------------------------------------------------------------------------

/// f16, bf16 and smaller floats become f32; every other tensor is returned as it is.
Tensor Widen(const Tensor& t);
/// An f32 tensor rounded to `to`; returned as it is when `to` is f32.
Tensor Narrow(const Tensor& t, DType to);
/// Runs `kernel` with every f16/bf16 operand widened to f32, and rounds its f32 outputs to the
/// types that the call says. The kernel must take types from run.in(i), not from the call.
Status RunWide(OpRun& run, OpDef::ReferenceFn kernel);
/// `.reference = Wide<RunConv>`: RunConv sees f32 and f64, never f16 or bf16.
template <OpDef::ReferenceFn kKernel>
Status Wide(OpRun& run) {
  return RunWide(run, kKernel);
}
/// Calls f(float{}) or f(double{}). Unsupported for any other type.
template <typename F>
Status DispatchF32F64(const OpRun& run, DType t, F&& f) {
  if (t == DType::kF32)
    f(float{});
  else if (t == DType::kF64)
    f(double{});
  else
    return Unsupported(Cat(run.call().def().name, ": no reference kernel for ", Name(t)));
  return {};
}

/// Calls f with float, double or the C++ integer type of `t` (the types a kernel sees after Wide).
/// Unsupported for any other type.
template <typename F>
Status DispatchNumber(const OpRun& run, DType t, F&& f) {
  bool called = false;
  DispatchReal(t, [&]<typename T>(T v) {
    if constexpr (!std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16> &&
                  !std::is_same_v<T, bool>) {
      f(v);
      called = true;
    }
  });
  if (called) return {};
  return Unsupported(Cat(run.call().def().name, ": no reference kernel for ", Name(t)));
}
/// InvalidModel unless all present inputs [first, last) have the type of input `first`.
Status CheckSameTypes(const OpRun& run, size_t first, size_t last);
/// Signed and unsigned arithmetic that wraps (as two's complement does) instead of overflowing.
template <typename T>
using Wrapping = std::common_type_t<unsigned, std::make_unsigned_t<T>>;

// ---- Lift and lower --------------------------------------------------------------------------

/// An i64 attribute of a node as a file has it; `absent` where it is not (or not an int).
int64_t IntAttrOr(const NodeSpec& node, std::string_view name, int64_t absent);
/// `absent` where the attribute is not there.
std::vector<int64_t> IntsAttrOr(const NodeSpec& node, std::string_view name,
                                const std::vector<int64_t>& absent);
float FloatAttrOr(const NodeSpec& node, std::string_view name, float absent);
/// Removes an attribute if it is there.
void DropAttr(NodeSpec& node, std::string_view name);
/// A node of ai.onnx with a fresh name derived from `origin`'s.
NodeSpec MakeSpec(std::string_view op, const NodeSpec& origin, std::vector<std::string> inputs,
                  std::vector<std::string> outputs, AttrMap attrs = {});
/// A scalar constant with the element type of value `like`, which need not be known: then the
/// constant is an f32 and a CastLike follows it.
std::string ScalarLike(double value, const std::string& like, const NodeSpec& origin,
                       LiftContext& out);
/// Emits the node without `consumed_inputs` (opset 1-5, an in-place hint without meaning).
Status LiftConsumedInputs(NodeSpec node, int opset, LiftContext& out);
/// As above for two operands of opset <= 6: attributes broadcast and axis (B's extents stand at
/// A's dimensions axis...) become an Unsqueeze of B.
Status LiftAxisBroadcast(NodeSpec node, int opset, LiftContext& out);
/// Moves an INTS attribute that became an input to input `at` as an i64 constant. Nothing when the
/// attribute is absent.
void AttrToInput(NodeSpec& node, std::string_view attr, size_t at, LiftContext& out);
/// The opposite, for export: input `at` must be constant. Unsupported names the node when not.
Status InputToAttr(NodeSpec& node, std::string_view attr, size_t at, LiftContext& out);

}  // namespace infer
