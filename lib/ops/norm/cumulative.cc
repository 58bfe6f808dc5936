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

/// y_i = x_0 op ... op x_i (exclusive: x_{i-1}), from the other end when reversed. Integers wrap.
template <typename Op>
Status RunCumulative(OpRun& run) {
  const Tensor& x = run.in(0);
  if (run.in(1).num_elements() != 1) return InvalidModel("axis is not a scalar");
  INFER_ASSIGN(const int axis, NormalizeAxis(run.in(1).IntAt(0), x.rank()));
  const bool exclusive = run.Int("exclusive") != 0, reverse = run.Int("reverse") != 0;
  const int64_t n = x.dim(axis), inner = Product(x.dims(), axis + 1, x.rank());
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  if (y.num_elements() == 0) return {};
  const bool ok = DispatchReal(x.dtype(), [&]<typename T>(T) {
    if constexpr (!std::is_same_v<T, bool>) {
      using A = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
      const T* in = x.data<T>().data();
      for (int64_t line = 0; line < x.num_elements() / n; ++line) {
        const int64_t base = line / inner * n * inner + line % inner;
        A sum = static_cast<A>(Op::kStart);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t at = base + (reverse ? n - 1 - i : i) * inner;
          const A next = Op::Apply(sum, static_cast<A>(in[at]));
          if constexpr (std::is_integral_v<T>)
            y.SetInt(at, static_cast<int64_t>(exclusive ? sum : next));
          else
            y.Set(at, exclusive ? sum : next);
          sum = next;
        }
      }
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
