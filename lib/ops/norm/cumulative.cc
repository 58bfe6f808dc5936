/// CumSum and CumProd.
#include "lib/ops/common.h"
#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// What runs along the axis, and where it starts.
struct Sum {
  static constexpr int kStart = 0;
  template <typename A>
  static A Apply(A a, A b) {
    return a + b;
  }
};
struct Prod {
  static constexpr int kStart = 1;
  template <typename A>
  static A Apply(A a, A b) {
    return a * b;
  }
};

/// Where a running sum goes along an axis of n elements, `inner` apart.
struct Lines {
  int64_t n, inner;
  bool exclusive, reverse;
};

/// `count` lines side by side, from the one at `base` on; store(place, sum).
template <typename Op, typename A, typename T, typename F>
void RunLines(const Lines& l, const T* in, int64_t base, int64_t count, std::span<A> sums,
              F&& store) {
  std::fill_n(sums.begin(), count, static_cast<A>(Op::kStart));
  for (int64_t i = 0; i < l.n; ++i) {
    const int64_t row = base + (l.reverse ? l.n - 1 - i : i) * l.inner;
    for (int64_t k = 0; k < count; ++k) {
      A& sum = sums[static_cast<size_t>(k)];
      const A next = Op::Apply(sum, static_cast<A>(in[row + k]));
      store(row + k, l.exclusive ? sum : next);
      sum = next;
    }
  }
}

/// y_i = x_0 op ... op x_i (exclusive: x_{i-1}), from the other end when reversed. Integers wrap.
template <typename Op>
Status RunCumulative(OpRun& run) {
  constexpr int64_t kSideBySide = 128;
  const Tensor& x = run.in(0);
  if (run.in(1).num_elements() != 1) return InvalidModel("axis is not a scalar");
  INFER_ASSIGN(const int axis, NormalizeAxis(run.in(1).IntAt(0), x.rank()));
  const Lines lines{x.dim(axis), Product(x.dims(), axis + 1, x.rank()), run.Int("exclusive") != 0,
                    run.Int("reverse") != 0};
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  if (y.num_elements() == 0) return {};
  const int64_t blocks = (lines.inner + kSideBySide - 1) / kSideBySide;
  const int64_t parts = x.num_elements() / lines.n / lines.inner * blocks;
  const bool ok = DispatchReal(x.dtype(), [&]<typename T>(T) {
    if constexpr (!std::is_same_v<T, bool>) {
      using A = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
      const T* in = x.data<T>().data();
      T* const out = y.mutable_data<T>().data();
      const auto store = [&](int64_t at, A sum) {
        if constexpr (std::is_arithmetic_v<T>)
          out[at] = static_cast<T>(sum);
        else
          y.Set(at, sum);
      };
      const int64_t grain = std::max<int64_t>(1, kElementGrain / (lines.n * kSideBySide));
      ParallelFor(parts, grain, [&](int64_t begin, int64_t end) {
        std::vector<A> sums(static_cast<size_t>(kSideBySide));
        for (int64_t part = begin; part < end; ++part) {
          const int64_t first = part % blocks * kSideBySide;
          RunLines<Op, A>(lines, in, part / blocks * lines.n * lines.inner + first,
                          std::min(kSideBySide, lines.inner - first), std::span<A>(sums), store);
        }
      });
    }
  });
  return ok ? Status() : Unsupported(Cat("no sum of ", Name(x.dtype())));
}

void CumulativeAxes(const OpCall& call, AxisLinks& links) {
  const auto given = KnownInt(call, 1);
  if (!given || !call.shape(0).has_rank()) return;
  const auto axis = NormalizeAxis(*given, call.shape(0).rank());
  if (axis.ok()) LinkAllBut(call, {*axis}, links);
}

}  // namespace

std::span<const OpDef> CumulativeOps() {
  static constexpr TypeSet kSummable =
      kFloatsBF16 | TypeSet(DType::kI32, DType::kI64, DType::kU32, DType::kU64);
  static const auto cumulative = [](std::string_view name, std::string_view doc, int since,
                                    std::vector<int> versions, OpDef::ReferenceFn run,
                                    std::string_view example) {
    return OpDef{
        .name = name,
        .doc = doc,
        .traits = Trait::kScan,
        .axes = CumulativeAxes,
        .since = since,
        .versions = std::move(versions),
        .inputs = {{"x", "T"}, {"axis", "T2"}},
        .outputs = {{"y", "T"}},
        .attrs = {{"exclusive", AttrKind::kInt, int64_t{0}},
                  {"reverse", AttrKind::kInt, int64_t{0}}},
        .constraints = {{"T", kSummable}, {"T2", kIndexTypes}},
        .infer = InferSame,
        .reference = run,
        .cost = CostPerInput<1>,
        .example = example,
    };
  };
  static const OpDef ops[] = {
      Also(Trait::kAdditive,
           cumulative("CumSum", "Running sums along an axis.", 11, {11, 14}, RunCumulative<Sum>,
                      "graph g(x: f32[2,4]) -> (y) { a = const i32[] {1} y = CumSum(x, a) }")),
      cumulative("CumProd", "Running products along an axis.", 26, {26}, RunCumulative<Prod>,
                 "graph g(x: f32[2,4]) -> (y) { a = const i32[] {1} y = CumProd(x, a) }"),
  };
  return ops;
}

}  // namespace infer
