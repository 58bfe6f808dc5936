/// Softmax, normalizations and reductions: one workgroup for a row.
#include <algorithm>

#include "lib/ops/common.h"
#include "lib/support/strings.h"
#include "runtime/vulkan/kernels/kernels.h"
#include "runtime/vulkan/kernels/walk.h"

namespace infer::vulkan {
namespace {

constexpr size_t kMostRowAxes = 4;

std::string RefuseRows(const StepCall& call, const DeviceFacts&) {
  if (call.step.outputs != std::vector<int>{call.plan.id(call.main().output(0))})
    return "a second result is wanted";
  return RefuseUnlessPlainF32(call);
}

/// What shaders/rows.comp is told beside its operation.
struct Rows {
  int64_t rows = 1, count = 1, inner = 1;
  int64_t row_div = 1, row_mod = 1, row_step = 0, each = 1;  // where scale and bias lie
  float epsilon = 0;
  int x = -1, scale = -1, bias = -1;
};
Result<Prepared> AddRows(const Facts& facts, std::span<const Operand> in,
                         std::span<const Operand> out, int op, const Rows& r) {
  Push push;
  push.U(r.rows).U(r.count).U(r.inner).U(r.row_div).U(r.row_mod).U(r.row_step).U(r.each);
  push.F(r.epsilon);
  LaunchBuilder b(facts, in, out);
  b.Iterations(3 * (r.count / 64 + 1) + kFewRounds);
  b.Dispatch("rows", {op, r.scale >= 0, r.bias >= 0},
             {b.Read(r.x), b.ReadOr(r.scale, r.x), b.ReadOr(r.bias, r.x), b.Write()}, push, r.rows);
  return b.Finish("rows");
}

std::unique_ptr<Kernel> MakeSoftmax(const StepCall& call, const Facts& facts) {
  const int64_t axis = call.main().Attr<int64_t>("axis");
  const bool log = call.main().Is("LogSoftmax");
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims& dims = in[0].dims;
        if (dims.empty()) return Unsupported("a scalar");
        INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
        Rows r{.count = dims[static_cast<size_t>(a)], .x = 0};
        r.inner = NumElements(Dims(dims.begin() + a + 1, dims.end()));
        r.rows = NumElements(dims) / r.count;
        return AddRows(facts, in, out, log ? 1 : 0, r);
      });
}

/// LayerNormalization and RMSNormalization over the axes from `axis` on.
std::unique_ptr<Kernel> MakeRowNorm(const StepCall& call, const Facts& facts) {
  const Node& node = call.main();
  const int64_t axis = node.Attr<int64_t>("axis");
  Rows r{.epsilon = node.Attr<float>("epsilon")};
  r.x = call.operand(node.input(0));
  r.scale = call.operand(node.input(1));
  r.bias = call.operand(node.input(2));
  const int op = node.Is("RMSNormalization") ? 3 : 2;
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        Rows rows = r;
        const Dims& dims = in[static_cast<size_t>(r.x)].dims;
        INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
        rows.count = NumElements(Dims(dims.begin() + a, dims.end()));
        rows.rows = NumElements(dims) / rows.count;
        for (int i : {r.scale, r.bias})
          if (i >= 0 && NumElements(in[static_cast<size_t>(i)].dims) != rows.count)
            return Unsupported("scale or bias is broadcast");
        return AddRows(facts, in, out, op, rows);
      });
}

/// Groups of channels; InstanceNormalization has one channel in each.
std::unique_ptr<Kernel> MakeGroupNorm(const StepCall& call, const Facts& facts) {
  const Node& node = call.main();
  const int64_t given = node.AttrOr<int64_t>("num_groups", 0);
  Rows r{.epsilon = node.Attr<float>("epsilon")};
  r.x = call.operand(node.input(0));
  r.scale = call.operand(node.input(1));
  r.bias = call.operand(node.input(2));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims& dims = in[static_cast<size_t>(r.x)].dims;
        if (dims.size() < 2) return Unsupported("it has no channels");
        const int64_t channels = dims[1], groups = given == 0 ? channels : given;
        const int64_t plane = NumElements(Dims(dims.begin() + 2, dims.end()));
        if (groups < 1 || channels % groups != 0) return Unsupported("extents");
        for (int i : {r.scale, r.bias})
          if (NumElements(in[static_cast<size_t>(i)].dims) != channels)
            return Unsupported("extents");
        Rows rows = r;
        rows.count = channels / groups * plane;
        rows.rows = dims[0] * groups;
        rows.row_mod = groups;
        rows.row_step = channels / groups;
        rows.each = plane;
        return AddRows(facts, in, out, 2, rows);
      });
}

std::string RefuseBatchNorm(const StepCall& call, const DeviceFacts& facts) {
  if (call.main().Attr<int64_t>("training_mode") != 0)
    return "it normalises by the statistics of the batch";
  return RefuseRows(call, facts);
}

std::unique_ptr<Kernel> MakeBatchNorm(const StepCall& call, const Facts& facts) {
  const Node& node = call.main();
  const float epsilon = node.Attr<float>("epsilon");
  std::vector<int> at;
  for (size_t i = 0; i < 5; ++i) at.push_back(call.operand(node.input(i)));
  return KernelOf(
      [=](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        const Dims& dims = in[static_cast<size_t>(at[0])].dims;
        const int64_t channels = dims.size() > 1 ? dims[1] : 1;
        const int64_t plane = dims.size() > 2 ? NumElements(Dims(dims.begin() + 2, dims.end())) : 1;
        for (size_t i = 1; i < 5; ++i)
          if (NumElements(in[static_cast<size_t>(at[i])].dims) != channels)
            return Unsupported("extents");
        const int64_t n = NumElements(out[0].dims);
        LaunchBuilder b(facts, in, out);
        b.DispatchElements(
            "channels", {},
            {b.Read(at[0]), b.Read(at[1]), b.Read(at[2]), b.Read(at[3]), b.Read(at[4]), b.Write()},
            Push().U(n).U(channels).U(plane).F(epsilon), n);
        return b.Finish("channels");
      });
}

// ---- Reductions ------------------------------------------------------------------------------

struct ReduceRow {
  std::string_view op;
  int code;
};
constexpr ReduceRow kReduce[] = {
    {"ReduceSum", 1},    {"ReduceMean", 2},       {"ReduceMax", 3},         {"ReduceMin", 4},
    {"ReduceProd", 5},   {"ReduceSumSquare", 6},  {"ReduceL1", 7},          {"ReduceL2", 8},
    {"ReduceLogSum", 9}, {"ReduceLogSumExp", 10}, {"GlobalAveragePool", 2}, {"GlobalMaxPool", 3}};

std::string RefuseReduce(const StepCall& call, const DeviceFacts&) {
  if (std::string r = RefuseEpilogue(call); !r.empty()) return r;
  if (!IsF32(call.main().input(0))) return "the operand is not f32";
  return call.operand(call.main().input(0)) == 0 ? "" : "the operand is not the first";
}

/// The axes that go, of a tensor of `rank`.
Result<std::vector<bool>> ReducedAxes(const Node& node, int axes_at, std::span<const Operand> in) {
  const size_t rank = in[0].dims.size();
  std::vector<bool> gone(rank, false);
  if (node.Is(Trait::kPooling)) {
    for (size_t d = 2; d < rank; ++d) gone[d] = true;
    return gone;
  }
  const Tensor* axes = axes_at >= 0 ? in[static_cast<size_t>(axes_at)].constant : nullptr;
  if (axes_at >= 0 && !axes) return Unsupported("axes that only a run knows");
  if (!axes || axes->num_elements() == 0) {
    gone.assign(rank, node.Attr<int64_t>("noop_with_empty_axes") == 0);
    return gone;
  }
  for (int64_t i = 0; i < axes->num_elements(); ++i) {
    INFER_ASSIGN(const int a, NormalizeAxis(axes->IntAt(i), static_cast<int>(rank)));
    gone[static_cast<size_t>(a)] = true;
  }
  return gone;
}

std::unique_ptr<Kernel> MakeReduce(const StepCall& call, const Facts& facts) {
  const Node& node = call.main();
  const int axes = node.Is(Trait::kPooling) ? -1 : call.operand(node.input(1));
  const int code = std::find_if(std::begin(kReduce), std::end(kReduce), [&](const ReduceRow& r) {
                     return node.Is(r.op);
                   })->code;
  return KernelOf([&node, facts, axes, code](std::span<const Operand> in,
                                             std::span<const Operand> out) -> Result<Prepared> {
    INFER_ASSIGN(const std::vector<bool> gone, ReducedAxes(node, axes, in));
    const Dims &dims = in[0].dims, strides = Strides(in[0].dims);
    Dims kept, kept_strides, over, over_strides;
    for (size_t d = 0; d < dims.size(); ++d) {
      (gone[d] ? over : kept).push_back(dims[d]);
      (gone[d] ? over_strides : kept_strides).push_back(strides[d]);
    }
    const Walk results = Joined(kept, {kept_strides}), reduced = Joined(over, {over_strides});
    if (results.dims.size() > kMostRowAxes || reduced.dims.size() > kMostRowAxes)
      return Unsupported("more than four axes stay, or go");
    Push push;
    const int64_t n = NumElements(out[0].dims);
    push.U(n).U(NumElements(reduced.dims));
    push.List(results.dims, kMostRowAxes, 1).List(results.strides[0], kMostRowAxes, 0);
    push.List(reduced.dims, kMostRowAxes, 1).List(reduced.strides[0], kMostRowAxes, 0);
    LaunchBuilder b(facts, in, out);
    b.Iterations(2 * (NumElements(reduced.dims) / 64 + 1) + kFewRounds);
    b.Dispatch("reduce", {code}, {b.Read(0), b.Write()}, push, n);
    return b.Finish("reduce");
  });
}

}  // namespace

KernelList RowKernels(const Facts& facts) {
  KernelList list = {
      Def(facts, "Softmax", "", "rows", RefuseRows, MakeSoftmax),
      Def(facts, "LogSoftmax", "", "rows", RefuseRows, MakeSoftmax),
      Def(facts, "LayerNormalization", "", "rows", RefuseRows, MakeRowNorm),
      Def(facts, "RMSNormalization", "", "rows", RefuseRows, MakeRowNorm),
      Def(facts, "InstanceNormalization", "", "rows", RefuseRows, MakeGroupNorm),
      Def(facts, "GroupNormalization", "", "rows", RefuseRows, MakeGroupNorm),
      Def(facts, "BatchNormalization", "", "channels", RefuseBatchNorm, MakeBatchNorm)};
  for (const ReduceRow& row : kReduce)
    list.push_back(Def(facts, row.op, "", "reduce", RefuseReduce, MakeReduce));
  return list;
}

}  // namespace infer::vulkan
