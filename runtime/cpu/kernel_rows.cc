/// Operators over rows: Softmax, LogSoftmax and LayerNormalization over trailing axes, reductions
/// over any axes that lie together.
#include <algorithm>
#include <cmath>

#include "lib/ops/common.h"
#include "lib/support/parallel.h"
#include "runtime/cpu/kernels.h"
#include "runtime/cpu/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

/// Rows that one lane takes at least.
int64_t RowGrain(int64_t row) { return std::max<int64_t>(1, kElementGrain / 4 / row); }

Prepared Named() {
  Prepared p;
  p.name = std::string("own:") + simd::TheLoops().isa;
  return p;
}

std::string RefuseRows(const StepCall& call) {
  if (call.main().output(1)) return "a second result is wanted";
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  return RefuseUnlessF32(call);
}

std::unique_ptr<Kernel> MakeSoftmax(const StepCall& call) {
  const int64_t axis = call.main().Attr<int64_t>("axis");
  const bool log = call.main().Is("LogSoftmax");
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[0].dims;
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
    const int64_t n = dims[static_cast<size_t>(a)];
    if (NumElements(Dims(dims.begin() + a + 1, dims.end())) != 1)
      return Unsupported("the axis is not the last");
    const int64_t rows = NumElements(dims) / n;
    const auto softmax = simd::TheLoops().softmax;
    Prepared p = Named();
    p.in_place = true;
    p.launch = LaunchOf([=](std::byte* const* args) {
      ParallelFor(rows, RowGrain(n), [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          softmax(As<float>(static_cast<const std::byte*>(args[0])) + r * n,
                  As<float>(args[1]) + r * n, n, log);
      });
    });
    return p;
  });
}

std::unique_ptr<Kernel> MakeLayerNorm(const StepCall& call) {
  const Node& node = call.main();
  const int64_t axis = node.Attr<int64_t>("axis");
  const float epsilon = node.Attr<float>("epsilon");
  const int x = call.operand(node.input(0)), s = call.operand(node.input(1)),
            b = call.operand(node.input(2));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[static_cast<size_t>(x)].dims;
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
    const int64_t n = NumElements(Dims(dims.begin() + a, dims.end()));
    for (int i : {s, b})
      if (i >= 0 && NumElements(in[static_cast<size_t>(i)].dims) != n)
        return Unsupported("scale or bias is broadcast");
    const int64_t rows = NumElements(dims) / n;
    const auto norm = simd::TheLoops().layer_norm;
    const size_t y = in.size();
    Prepared p = Named();
    p.launch = LaunchOf([=](std::byte* const* args) {
      auto at = [args](int i) {
        return i < 0 ? nullptr : As<float>(static_cast<const std::byte*>(args[i]));
      };
      ParallelFor(rows, RowGrain(n), [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          norm(at(x) + r * n, at(s), at(b), As<float>(args[y]) + r * n, n, epsilon);
      });
    });
    return p;
  });
}

enum class Reduction : uint8_t { kMean, kSum, kMax, kSumSquare, kL2 };
struct ReduceOp {
  std::string_view op;
  Reduction kind;
};
constexpr ReduceOp kReduce[] = {{"ReduceMean", Reduction::kMean},
                                {"ReduceSum", Reduction::kSum},
                                {"ReduceMax", Reduction::kMax},
                                {"ReduceSumSquare", Reduction::kSumSquare},
                                {"ReduceL2", Reduction::kL2}};

float Reduced(Reduction kind, const float* x, int64_t n) {
  const simd::Loops& loops = simd::TheLoops();
  switch (kind) {
    case Reduction::kMean: return static_cast<float>(loops.sum(x, n) / static_cast<double>(n));
    case Reduction::kSum: return static_cast<float>(loops.sum(x, n));
    case Reduction::kMax: return loops.max(x, n);
    case Reduction::kSumSquare: return static_cast<float>(loops.sum_squares(x, n));
    case Reduction::kL2: return static_cast<float>(std::sqrt(loops.sum_squares(x, n)));
  }
  return 0;
}

std::string RefuseReduce(const StepCall& call) {
  const Value* x = call.main().input(0);
  const Value* y = call.main().output(0);
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (!x->type().is_tensor() || x->dtype() != DType::kF32) return "not f32";
  if (!y->type().is_tensor() || y->dtype() != DType::kF32) return "not f32";
  return call.operand(x) == 0 ? "" : "the operand is not the first";
}

std::unique_ptr<Kernel> MakeReduce(const StepCall& call) {
  const Node& node = call.main();
  Reduction kind = Reduction::kMean;
  for (const ReduceOp& r : kReduce)
    if (node.Is(r.op)) kind = r.kind;
  const bool none_means_none = node.Attr<int64_t>("noop_with_empty_axes") != 0;
  const int axes_at = call.operand(node.input(1));
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[0].dims;
    std::vector<int64_t> axes;
    if (axes_at >= 0) {
      const Tensor* t = in[static_cast<size_t>(axes_at)].constant;
      if (!t) return Unsupported("the axes are not known");
      axes = t->ToInts();
    }
    if (axes.empty()) {
      if (none_means_none) return Unsupported("no axis");
      for (size_t i = 0; i < dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    }
    INFER_ASSIGN(std::vector<int> sorted, NormalizeAxes(axes, static_cast<int>(dims.size())));
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = sorted.empty() ? 0 : static_cast<size_t>(sorted[0]); i < dims.size(); ++i)
      if (dims[i] != 1 && !std::binary_search(sorted.begin(), sorted.end(), static_cast<int>(i)))
        return Unsupported("the axes are not the last ones");
    int64_t n = 1;
    for (int a : sorted) n *= dims[static_cast<size_t>(a)];
    const int64_t rows = NumElements(dims) / n;
    const size_t y = in.size();
    Prepared p = Named();
    p.unused.assign(in.size(), true);
    p.unused[0] = false;
    p.launch = LaunchOf([=](std::byte* const* args) {
      ParallelFor(rows, RowGrain(n), [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          As<float>(args[y])[r] =
              Reduced(kind, As<float>(static_cast<const std::byte*>(args[0])) + r * n, n);
      });
    });
    return p;
  });
}

}  // namespace

KernelList RowKernels() {
  KernelList list = {{"Softmax", "", "own", RefuseRows, MakeSoftmax},
                     {"LogSoftmax", "", "own", RefuseRows, MakeSoftmax},
                     {"LayerNormalization", "", "own", RefuseRows, MakeLayerNorm}};
  for (const ReduceOp& r : kReduce) list.push_back({r.op, "", "own", RefuseReduce, MakeReduce});
  return list;
}

}  // namespace infer
