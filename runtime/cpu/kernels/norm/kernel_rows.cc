/// Operators over rows: Softmax and LogSoftmax over any axis, LayerNormalization over trailing
/// ones, reductions over any axes.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "lib/ops/common.h"
#include "lib/support/parallel.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/norm/reduce_plan.h"
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
        softmax(As<float>(static_cast<const std::byte*>(args[0])) + begin * n,
                As<float>(args[1]) + begin * n, n, end - begin, log);
      });
    });
    return p;
  });
}

/// Mean and 1 / deviation of row `r`; nullptr: nobody reads them.
void StatisticsOf(const float* x, int64_t n, float epsilon, int64_t r, float* mean,
                  float* inverse) {
  double m = 0, variance = 0;
  simd::TheLoops().moments(x, n, &m, &variance);
  if (mean) mean[r] = static_cast<float>(m);
  if (inverse)
    inverse[r] = static_cast<float>(1 / std::sqrt(variance + static_cast<double>(epsilon)));
}

std::unique_ptr<Kernel> MakeLayerNorm(const StepCall& call) {
  const Node& node = call.main();
  const int64_t axis = node.Attr<int64_t>("axis");
  const float epsilon = node.Attr<float>("epsilon");
  const int x = call.operand(node.input(0)), s = call.operand(node.input(1)),
            b = call.operand(node.input(2));
  // Where each result stands among those that somebody reads; -1: nobody does.
  std::array<int, 3> results = {-1, -1, -1};
  for (size_t i = 0; i < results.size(); ++i)
    if (const Value* v = node.output(i)) {
      const auto& read = call.step.outputs;
      const auto found = std::find(read.begin(), read.end(), call.plan.id(v));
      if (found != read.end()) results[i] = static_cast<int>(found - read.begin());
    }
  return KernelOf([=](std::span<const Operand> in, std::span<const Operand>) -> Result<Prepared> {
    const Dims& dims = in[static_cast<size_t>(x)].dims;
    INFER_ASSIGN(const int a, NormalizeAxis(axis, static_cast<int>(dims.size())));
    const int64_t n = NumElements(Dims(dims.begin() + a, dims.end()));
    for (int i : {s, b})
      if (i >= 0 && NumElements(in[static_cast<size_t>(i)].dims) != n)
        return Unsupported("scale or bias is broadcast");
    const int64_t rows = NumElements(dims) / n;
    const auto norm = simd::TheLoops().layer_norm;
    const auto place = [results, operands = static_cast<int>(in.size())](size_t i) {
      return results[i] < 0 ? -1 : operands + results[i];
    };
    const int y = place(0), mean = place(1), inverse = place(2);
    Prepared p = NamedByIsa();
    p.launch = LaunchOf([=](std::byte* const* args) {
      auto at = [args](int i) {
        return i < 0 ? nullptr : As<float>(static_cast<const std::byte*>(args[i]));
      };
      auto to = [args](int i) { return i < 0 ? nullptr : As<float>(args[i]); };
      ParallelFor(rows, RowGrain(n), [=](int64_t begin, int64_t end) {
        const float *from = at(x), *scale = at(s), *bias = at(b);
        float *result = to(y), *means = to(mean), *inverses = to(inverse);
        for (int64_t r = begin; result && r < end; ++r)
          norm(from + r * n, scale, bias, result + r * n, n, epsilon);
        for (int64_t r = begin; (means || inverses) && r < end; ++r)
          StatisticsOf(from + r * n, n, epsilon, r, means, inverses);
      });
    });
    return p;
  });
}

enum class Reduction : uint8_t {
  kMean,
  kSum,
  kProd,
  kMax,
  kMin,
  kL1,
  kSumSquare,
  kL2,
  kLogSum,
  kLogSumExp
};
struct ReduceOp {
  std::string_view op;
  Reduction kind;
};
constexpr ReduceOp kReduce[] = {{"ReduceMean", Reduction::kMean},
                                {"ReduceSum", Reduction::kSum},
                                {"ReduceProd", Reduction::kProd},
                                {"ReduceMax", Reduction::kMax},
                                {"ReduceMin", Reduction::kMin},
                                {"ReduceL1", Reduction::kL1},
                                {"ReduceSumSquare", Reduction::kSumSquare},
                                {"ReduceL2", Reduction::kL2},
                                {"ReduceLogSum", Reduction::kLogSum},
                                {"ReduceLogSumExp", Reduction::kLogSumExp}};

/// The sum of f(x[i] - minus), f of simd::Unary.
double SumOf(simd::Unary f, const float* x, int64_t n, float minus) {
  const simd::Loops& loops = simd::TheLoops();
  double sum = 0;
  float part[kColumns];
  for (int64_t i = 0; i < n; i += kColumns) {
    const int64_t count = std::min(kColumns, n - i);
    for (int64_t k = 0; k < count; ++k) part[k] = x[i + k] - minus;
    loops.unary[static_cast<int>(f)](part, part, count, 0, 0);
    sum += loops.sum(part, count);
  }
  return sum;
}

/// max + ln(sum e^(x - max)): no overflow.
float LogSumExp(const float* x, int64_t n) {
  const float top = simd::TheLoops().max(x, n);
  if (!std::isfinite(top)) return top;
  return static_cast<float>(double{top} + std::log(SumOf(simd::Unary::kExp, x, n, top)));
}

double ResultOf(Reduction kind, double sum, int64_t n) {
  if (kind == Reduction::kMean) return sum / static_cast<double>(n);
  if (kind == Reduction::kL2) return std::sqrt(sum);
  return kind == Reduction::kLogSum ? std::log(sum) : sum;
}

void ReduceRows(Reduction kind, const float* x, float* y, int64_t n, int64_t rows) {
  const simd::Loops& loops = simd::TheLoops();
  const auto each = [&](auto of) {
    for (int64_t r = 0; r < rows; ++r) y[r] = static_cast<float>(of(x + r * n));
  };
  switch (kind) {
    case Reduction::kProd:
      return each([&](const float* row) {
        return std::accumulate(row, row + n, 1.0, std::multiplies<double>());
      });
    case Reduction::kMax: return each([&, f = loops.max](const float* row) { return f(row, n); });
    case Reduction::kMin: return each([&, f = loops.min](const float* row) { return f(row, n); });
    case Reduction::kL1:
      return each([&](const float* row) { return SumOf(simd::Unary::kAbs, row, n, 0); });
    case Reduction::kLogSumExp: return each([&](const float* row) { return LogSumExp(row, n); });
    default: break;
  }
  const bool squares = kind == Reduction::kSumSquare || kind == Reduction::kL2;
  each([&, sum = squares ? loops.sum_squares : loops.sum](const float* row) {
    return ResultOf(kind, sum(row, n), n);
  });
}

/// e^x needs the largest first. Columns as in ReduceColumns.
void LogSumExpColumns(const float* x, float* y, int64_t n, int64_t step, int64_t columns) {
  const simd::Loops& loops = simd::TheLoops();
  const auto exp = loops.unary[static_cast<int>(simd::Unary::kExp)];
  double sum[kColumns] = {};
  float row[kColumns];
  loops.column_max(x, y, n, step, columns);
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < columns; ++c) row[c] = x[r * step + c] - y[c];
    exp(row, row, columns, 0, 0);
    for (int64_t c = 0; c < columns; ++c) sum[c] += static_cast<double>(row[c]);
  }
  for (int64_t c = 0; c < columns; ++c)
    if (std::isfinite(y[c])) y[c] = static_cast<float>(double{y[c]} + std::log(sum[c]));
}

/// The same of `columns` lists of n numbers, which lie side by side; those of a list lie `step`
/// apart.
void ReduceColumns(Reduction kind, const float* x, float* y, int64_t n, int64_t step,
                   int64_t columns) {
  const simd::Loops& loops = simd::TheLoops();
  double sum[kColumns] = {};
  const auto fold = [&](auto next) {
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c < columns; ++c)
        sum[c] = next(sum[c], static_cast<double>(x[r * step + c]));
  };
  switch (kind) {
    case Reduction::kMax: return loops.column_max(x, y, n, step, columns);
    case Reduction::kMin: return loops.column_min(x, y, n, step, columns);
    case Reduction::kLogSumExp: return LogSumExpColumns(x, y, n, step, columns);
    case Reduction::kProd:
      std::fill_n(sum, columns, 1.0);
      fold([](double s, double v) { return s * v; });
      break;
    case Reduction::kL1: fold([](double s, double v) { return s + std::abs(v); }); break;
    case Reduction::kSumSquare:
    case Reduction::kL2: loops.column_squares(x, sum, n, step, columns); break;
    default: loops.column_sums(x, sum, n, step, columns);
  }
  for (int64_t c = 0; c < columns; ++c) y[c] = static_cast<float>(ResultOf(kind, sum[c], n));
}

/// Of rows that are no longer many are reduced side by side: what a row takes at its end would be
/// most of its time.
constexpr int64_t kShortRow = 32;
int64_t ShortRow(Reduction kind) {
  const bool has_loop =
      kind != Reduction::kProd && kind != Reduction::kL1 && kind != Reduction::kLogSumExp;
  return has_loop ? 15 : kShortRow;
}

/// Of rows of at most kShortRow numbers.
void ReduceShortRows(Reduction kind, const float* x, float* y, int64_t n, int64_t rows) {
  float turned[kShortRow * kColumns];
  for (int64_t r = 0; r < rows; r += kColumns) {
    const int64_t count = std::min(kColumns, rows - r);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t k = 0; k < n; ++k) turned[k * kColumns + i] = x[(r + i) * n + k];
    ReduceColumns(kind, turned, y + r, n, kColumns, count);
  }
}

/// The same of columns that lie side by side, whose rows begin at offsets[0 .. n).
void ReduceRowsAt(Reduction kind, const float* x, float* y, int64_t n, const int64_t* offsets,
                  int64_t columns) {
  if (kind == Reduction::kMax || kind == Reduction::kMin) {
    const auto which = kind == Reduction::kMax ? simd::Binary::kMax : simd::Binary::kMin;
    const auto better = simd::TheLoops().binary[static_cast<int>(which)];
    std::copy_n(x + offsets[0], columns, y);
    for (int64_t r = 1; r < n; ++r) better(y, x + offsets[r], y, columns);
    return;
  }
  double sum[kColumns];
  std::fill_n(sum, columns, kind == Reduction::kProd ? 1.0 : 0.0);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      const auto v = static_cast<double>(x[offsets[r] + c]);
      switch (kind) {
        case Reduction::kProd: sum[c] *= v; break;
        case Reduction::kL1: sum[c] += std::abs(v); break;
        case Reduction::kSumSquare:
        case Reduction::kL2: sum[c] += v * v; break;
        default: sum[c] += v;
      }
    }
  for (int64_t c = 0; c < columns; ++c) y[c] = static_cast<float>(ResultOf(kind, sum[c], n));
}

std::string RefuseReduce(const StepCall& call) {
  const Value* x = call.main().input(0);
  const Value* y = call.main().output(0);
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  if (!x->type().is_tensor() || x->dtype() != DType::kF32) return "not f32";
  if (!y->type().is_tensor() || y->dtype() != DType::kF32) return "not f32";
  return call.operand(x) == 0 ? "" : "the operand is not the first";
}

/// The part of a row's elements in the sum, or product, of a result; or their extremum.
double PartOf(Reduction kind, const float* x, int64_t n) {
  const simd::Loops& loops = simd::TheLoops();
  switch (kind) {
    case Reduction::kMax: return double{loops.max(x, n)};
    case Reduction::kMin: return double{loops.min(x, n)};
    case Reduction::kProd: return std::accumulate(x, x + n, 1.0, std::multiplies<double>());
    case Reduction::kL1: return SumOf(simd::Unary::kAbs, x, n, 0);
    case Reduction::kSumSquare:
    case Reduction::kL2: return loops.sum_squares(x, n);
    default: return loops.sum(x, n);
  }
}

/// NaN where one is.
double JoinParts(Reduction kind, double a, double b) {
  switch (kind) {
    case Reduction::kMax: return b > a || b != b ? b : a;
    case Reduction::kMin: return b < a || b != b ? b : a;
    case Reduction::kProd: return a * b;
    default: return a + b;
  }
}

/// Axes with others between them: block by block of results (reduce_plan.h).
Result<Prepared> PrepareApart(Reduction kind, std::span<const Operand> in,
                              const std::vector<int>& axes) {
  if (kind == Reduction::kLogSumExp) return Unsupported("the axes do not lie together");
  INFER_ASSIGN(ReducePlan plan, ReducePlan::Of(in[0].dims, axes));
  const size_t y = in.size();
  Prepared p = NamedByIsa();
  p.unused.assign(in.size(), true);
  p.unused[0] = false;
  const int64_t parts = (plan.columns + kColumns - 1) / kColumns;
  p.launch = LaunchOf([=, plan = std::move(plan)](std::byte* const* args) {
    const auto* const x = As<float>(static_cast<const std::byte*>(args[0]));
    float* const to = As<float>(args[y]);
    ForRange(plan.blocks * parts, RowGrain(plan.n * std::min(plan.columns, kColumns)),
             [&](int64_t begin, int64_t end) {
               for (int64_t u = begin; u < end; ++u) {
                 const int64_t first = u % parts * kColumns,
                               count = std::min(kColumns, plan.columns - first);
                 const float* const from = x + plan.Start(u / parts) + first;
                 float* const result = to + u / parts * plan.columns + first;
                 if (plan.row == 1) {
                   ReduceRowsAt(kind, from, result, plan.n, plan.offsets.data(), count);
                   continue;
                 }
                 double sum = PartOf(kind, from, plan.row);
                 for (size_t r = 1; r < plan.offsets.size(); ++r)
                   sum = JoinParts(kind, sum, PartOf(kind, from + plan.offsets[r], plan.row));
                 result[0] = static_cast<float>(ResultOf(kind, sum, plan.n));
               }
             });
  });
  return p;
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
    INFER_ASSIGN(const std::vector<int> sorted, ReducedAxes(in, axes_at, none_means_none));
    // [outer, n, inner]: n the product of the axes, where no other lies between them.
    int64_t n = 1, inner = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == 1) continue;
      if (std::binary_search(sorted.begin(), sorted.end(), static_cast<int>(i))) {
        if (inner != 1) return PrepareApart(kind, in, sorted);
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
                     ReduceColumns(kind, x, to, n, inner, columns);
                   });
      });
      return p;
    }
    p.launch = LaunchOf([=](std::byte* const* args) {
      ParallelFor(rows, RowGrain(n), [=](int64_t begin, int64_t end) {
        const auto reduce = n <= ShortRow(kind) ? ReduceShortRows : ReduceRows;
        reduce(kind, As<float>(static_cast<const std::byte*>(args[0])) + begin * n,
               As<float>(args[y]) + begin, n, end - begin);
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
