/// Operators over rows: Softmax and LogSoftmax over any axis, LayerNormalization over trailing
/// ones, reductions over any axes that lie together.
#include <algorithm>
#include <cmath>

#include "lib/ops/common.h"
#include "lib/support/parallel.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/launch/launch.h"
#include "runtime/cpu/simd/loops.h"

namespace infer {
namespace {

/// Rows that one lane takes at least.
int64_t RowGrain(int64_t row) { return std::max<int64_t>(1, kElementGrain / 4 / row); }

Prepared NamedByIsa() {
  Prepared p;
  p.name = std::string("own:") + simd::TheLoops().isa;
  return p;
}

std::string RefuseRows(const StepCall& call) {
  if (call.step.outputs != std::vector<int>{call.plan.id(call.main().output(0))})
    return "a second result is wanted";
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  return RefuseUnlessF32(call);
}

/// Columns that are walked together where the reduced axis is not the last.
constexpr int64_t kColumns = 64;

/// Calls f(x, y, columns) for blocks of columns of [outer, n, inner]; both point to row 0.
template <typename F>
void ForColumns(const float* x, float* y, int64_t outer, int64_t n, int64_t inner, int64_t y_rows,
                F f) {
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  ParallelFor(
      outer * blocks, RowGrain(n * std::min(inner, kColumns)), [=](int64_t begin, int64_t end) {
        for (int64_t u = begin; u < end; ++u) {
          const int64_t o = u / blocks, c = u % blocks * kColumns;
          f(x + o * n * inner + c, y + o * y_rows * inner + c, std::min(kColumns, inner - c));
        }
      });
}

std::unique_ptr<Kernel> MakeSoftmax(const StepCall& call) {
  const int64_t axis = call.main().Attr<int64_t>("axis");
  const bool log = call.main().Is("LogSoftmax");
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[0].dims;
    if (dims.empty()) return Unsupported("a scalar");
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
    const int64_t n = dims[static_cast<size_t>(a)];
    const int64_t inner = NumElements(Dims(dims.begin() + a + 1, dims.end()));
    const int64_t rows = NumElements(dims) / n;
    const auto softmax = simd::TheLoops().softmax;
    const auto softmax_columns = simd::TheLoops().softmax_columns;
    Prepared p = NamedByIsa();
    if (inner != 1) {
      p.launch = LaunchOf([=](std::byte* const* args) {
        ForColumns(As<float>(static_cast<const std::byte*>(args[0])), As<float>(args[1]),
                   rows / inner, n, inner, n, [=](const float* x, float* y, int64_t columns) {
                     softmax_columns(x, y, n, inner, columns, log);
                   });
      });
      return p;
    }
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
    Prepared p = NamedByIsa();
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

enum class Reduction : uint8_t { kMean, kSum, kMax, kMin, kSumSquare, kL2 };
struct ReduceOp {
  std::string_view op;
  Reduction kind;
};
constexpr ReduceOp kReduce[] = {{"ReduceMean", Reduction::kMean},
                                {"ReduceSum", Reduction::kSum},
                                {"ReduceMax", Reduction::kMax},
                                {"ReduceMin", Reduction::kMin},
                                {"ReduceSumSquare", Reduction::kSumSquare},
                                {"ReduceL2", Reduction::kL2}};

/// NaN where one is.
float Least(const float* x, int64_t n) {
  const auto min = simd::TheLoops().binary[static_cast<int>(simd::Binary::kMin)];
  float best[kColumns];
  const int64_t first = std::min(n, kColumns);
  std::copy_n(x, first, best);
  int64_t i = first;
  for (; i + kColumns <= n; i += kColumns) min(best, x + i, best, kColumns);
  min(best, x + i, best, n - i);
  for (int64_t k = 1; k < first; ++k) min(best, best + k, best, 1);
  return best[0];
}

float Reduced(Reduction kind, const float* x, int64_t n) {
  const simd::Loops& loops = simd::TheLoops();
  switch (kind) {
    case Reduction::kMean: return static_cast<float>(loops.sum(x, n) / static_cast<double>(n));
    case Reduction::kSum: return static_cast<float>(loops.sum(x, n));
    case Reduction::kMax: return loops.max(x, n);
    case Reduction::kMin: return Least(x, n);
    case Reduction::kSumSquare: return static_cast<float>(loops.sum_squares(x, n));
    case Reduction::kL2: return static_cast<float>(std::sqrt(loops.sum_squares(x, n)));
  }
  return 0;
}

/// The same of `columns` lists of n numbers: those of a list lie `step` apart, the lists `apart`.
void ReduceColumns(Reduction kind, const float* x, float* y, int64_t n, int64_t step,
                   int64_t columns, int64_t apart) {
  if (kind == Reduction::kMax || kind == Reduction::kMin) {
    const auto which = kind == Reduction::kMax ? simd::Binary::kMax : simd::Binary::kMin;
    const auto better = simd::TheLoops().binary[static_cast<int>(which)];
    float row[kColumns];
    for (int64_t r = 0; r < n; ++r) {
      const float* from = x + r * step;
      if (apart != 1) {
        for (int64_t c = 0; c < columns; ++c) row[c] = from[c * apart];
        from = row;
      }
      if (r == 0)
        std::copy_n(from, columns, y);
      else
        better(y, from, y, columns);
    }
    return;
  }
  const bool squares = kind == Reduction::kSumSquare || kind == Reduction::kL2;
  double sum[kColumns] = {};
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const auto v = static_cast<double>(x[r * step + c * apart]);
      sum[c] += squares ? v * v : v;
    }
  for (int64_t c = 0; c < columns; ++c)
    y[c] = static_cast<float>(kind == Reduction::kMean ? sum[c] / static_cast<double>(n)
                              : kind == Reduction::kL2 ? std::sqrt(sum[c])
                                                       : sum[c]);
}

/// Of rows that are no longer many are reduced side by side: what a row takes at its end would be
/// most of its time.
constexpr int64_t kShortRow = 32;

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
    // [outer, n, inner]: n the product of the axes, where no other lies between them.
    int64_t n = 1, inner = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == 1) continue;
      if (std::binary_search(sorted.begin(), sorted.end(), static_cast<int>(i))) {
        if (inner != 1) return Unsupported("the axes do not lie together");
        n *= dims[i];
      } else if (n != 1) {
        inner *= dims[i];
      }
    }
    const int64_t rows = NumElements(dims) / n;
    const size_t y = in.size();
    Prepared p = NamedByIsa();
    p.unused.assign(in.size(), true);
    p.unused[0] = false;
    if (inner != 1) {
      p.launch = LaunchOf([=](std::byte* const* args) {
        ForColumns(As<float>(static_cast<const std::byte*>(args[0])), As<float>(args[y]),
                   rows / inner, n, inner, 1, [=](const float* x, float* to, int64_t columns) {
                     ReduceColumns(kind, x, to, n, inner, columns, 1);
                   });
      });
      return p;
    }
    p.launch = LaunchOf([=](std::byte* const* args) {
      ParallelFor(rows, RowGrain(n), [=](int64_t begin, int64_t end) {
        if (n <= kShortRow) {
          for (int64_t r = begin; r < end; r += kColumns)
            ReduceColumns(kind, As<float>(static_cast<const std::byte*>(args[0])) + r * n,
                          As<float>(args[y]) + r, n, 1, std::min(kColumns, end - r), n);
          return;
        }
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
