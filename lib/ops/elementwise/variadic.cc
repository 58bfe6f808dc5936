/// Min, Max, Sum and Mean of any number of operands, with NumPy broadcasting.
#include "lib/ops/elements.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// The left fold of f over all operands; `finish(n, y)` ends it.
template <typename F, typename Finish>
Status Fold(OpRun& run, F f, Finish finish) {
  const size_t n = run.num_inputs();
  if (n == 0) return InvalidModel(Cat(run.call().def().name, ": no operands"));
  INFER_TRY(CheckSameTypes(run, 0, n));
  Tensor acc = n == 1 ? run.in(0).Clone() : run.in(0);
  const DType dtype = acc.dtype();
  for (size_t i = 1; i < n; ++i) {
    INFER_ASSIGN(Dims dims, Broadcast(acc.dims(), run.in(i).dims()));
    Tensor next(dtype, std::move(dims));
    INFER_TRY(DispatchNumber(run, dtype,
                             [&]<typename T>(T) { MapBinary<T, T, T>(acc, run.in(i), next, f); }));
    acc = std::move(next);
  }
  INFER_TRY(DispatchNumber(run, dtype, [&]<typename T>(T) { finish(n, acc.mutable_data<T>()); }));
  run.Set(0, std::move(acc));
  return {};
}

constexpr auto kAsIs = [](size_t, auto) {};

Status RunMin(OpRun& run) {  // a NaN wins
  return Fold(
      run, []<typename T>(T a, T b) { return b < a || b != b ? b : a; }, kAsIs);
}
Status RunMax(OpRun& run) {
  return Fold(
      run, []<typename T>(T a, T b) { return b > a || b != b ? b : a; }, kAsIs);
}
Status RunSum(OpRun& run) {
  return Fold(
      run, []<typename T>(T a, T b) { return static_cast<T>(a + b); }, kAsIs);
}
Status RunMean(OpRun& run) {
  return Fold(
      run, []<typename T>(T a, T b) { return static_cast<T>(a + b); },
      []<typename T>(size_t n, std::span<T> y) {
        for (T& v : y) v = static_cast<T>(v / static_cast<T>(n));
      });
}

Cost FoldCost(const OpCall& call) {
  Cost c = TrafficOf(call);
  c.flops = static_cast<int64_t>(call.num_inputs() - 1) * StaticElements(call.out(0).shape);
  return c;
}

OpDef Variadic(std::string_view name, std::string_view doc, std::vector<int> versions,
               TypeSet types, std::string_view output, OpDef::InferFn infer,
               OpDef::ReferenceFn reference, std::string_view example) {
  return {.name = name,
          .doc = doc,
          .traits = Trait::kElementwise,
          .since = 8,
          .versions = std::move(versions),
          .inputs = {{"data_0", "T", Arity::kVariadic}},
          .outputs = {{output, "T"}},
          .constraints = {{"T", types}},
          .commutative = true,
          .infer = infer,
          .reference = reference,
          .cost = FoldCost,
          .lift = LiftConsumedInputs,
          .example = example};
}

}  // namespace

std::span<const OpDef> VariadicOps() {
  static const OpDef ops[] = {
      Variadic("Min", "The smallest of the operands.", {1, 6, 8, 12, 13}, kNumeric, "min",
               InferElementwise<MinDims>, Wide<RunMin>,
               "graph g(x: f32[2,3], y: f32[3]) -> (z) { z = Min(x, y) }"),
      Variadic("Max", "The largest of the operands.", {1, 6, 8, 12, 13}, kNumeric, "max",
               InferElementwise<MaxDims>, Wide<RunMax>,
               "graph g(x: f32[2,3], y: f32[3]) -> (z) { z = Max(x, y) }"),
      Also(Trait::kAdditive,
           Variadic("Sum", "The sum of the operands.", {1, 6, 8, 13}, kFloatsBF16, "sum",
                    InferBroadcast, Wide<RunSum>,
                    "graph g(x: f32[2,3], y: f32[3], z: f32[]) -> (s) { s = Sum(x, y, z) }")),
      Also(Trait::kAdditive, Variadic("Mean", "The mean of the operands.", {1, 6, 8, 13},
                                      kFloatsBF16, "mean", InferBroadcast, Wide<RunMean>,
                                      "graph g(x: f32[2,3], y: f32[3]) -> (m) { m = Mean(x, y) }")),
  };
  return ops;
}

}  // namespace infer
