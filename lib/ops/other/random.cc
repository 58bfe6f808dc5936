/// Random generators. The same seed gives the same numbers on every platform (support/random.h); a
/// node without a seed takes seed 0, so that runs can be repeated.
#include "lib/support/random.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

Random GeneratorOf(const OpCall& call) {
  return Random(call.HasAttr("seed") ? std::bit_cast<uint32_t>(call.Float("seed")) : 0);
}

/// Attribute dtype, else that of operand 0. Unsupported when the schema does not list it.
Result<DType> OutType(const OpCall& call) {
  DType type = DType::kUndefined;
  const AttrDef* a = call.def().FindAttr("dtype");
  if (call.HasAttr("dtype") || !std::holds_alternative<std::monostate>(a->default_value)) {
    const int64_t t = call.Int("dtype");
    type = t > 0 && t < kNumDTypes ? static_cast<DType>(t) : DType::kUndefined;
  } else {
    type = call.dtype(0);
  }
  if (!call.def().constraints.back().types.Has(type))
    return Unsupported(Cat("cannot make elements of type ", Name(type), "; give another dtype"));
  return type;
}

Status InferRandom(OpCall& call) {
  INFER_ASSIGN(const DType type, OutType(call));
  if (call.num_inputs() > 0) {
    call.SetOut(0, type, call.shape(0));
    return {};
  }
  const Dims& shape = call.Ints("shape");
  if (!CheckedNumElements(shape)) return InvalidModel(Cat("shape ", ToString(shape)));
  call.SetOut(0, type, Shape(shape));
  return {};
}

/// y[i] = next(generator, i), in the shape of operand 0 or of the attribute.
template <typename F>
Status Generate(OpRun& run, F next) {
  INFER_ASSIGN(const DType type, OutType(run.call()));
  INFER_ASSIGN(Tensor * y,
               MakeOut(run, 0, type, run.num_inputs() > 0 ? run.in(0).dims() : run.Ints("shape")));
  Random random = GeneratorOf(run.call());
  for (int64_t i = 0; i < y->num_elements(); ++i) y->Set(i, next(random, i));
  return {};
}

Status RunNormal(OpRun& run) {
  const double mean = run.Float("mean"), scale = run.Float("scale");
  return Generate(run, [=](Random& r, int64_t) { return mean + scale * r.Normal(); });
}

Status RunUniform(OpRun& run) {
  const double low = run.Float("low"), high = run.Float("high");
  return Generate(run, [=](Random& r, int64_t) { return r.Uniform(low, high); });
}

Status RunBernoulli(OpRun& run) {
  const Tensor& p = run.in(0);
  return Generate(run, [&](Random& r, int64_t i) { return r.Uniform() < p.At(i) ? 1.0 : 0.0; });
}

Status InferMultinomial(OpCall& call) {
  INFER_ASSIGN(const DType type, OutType(call));
  INFER_TRY(CheckRank(call, 0, 2, 2));
  if (call.Int("sample_size") < 0) return InvalidModel("sample_size is negative");
  call.SetOut(0, type,
              Shape(std::vector<Dim>{call.shape(0).has_rank() ? call.shape(0)[0] : Dim(),
                                     call.Int("sample_size")}));
  return {};
}

/// Operand: unnormalised log-probabilities [batch, classes]. Draws by inverting the running sum.
Status RunMultinomial(OpRun& run) {
  INFER_ASSIGN(const DType type, OutType(run.call()));
  const Tensor& x = run.in(0);
  if (x.rank() != 2 || x.dim(1) < 1) return InvalidModel("the operand is not [batch, classes]");
  const int64_t n = run.Int("sample_size"), classes = x.dim(1);
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, type, {x.dim(0), n}));
  Random random = GeneratorOf(run.call());
  std::vector<double> sums(static_cast<size_t>(classes));
  for (int64_t b = 0; b < x.dim(0); ++b) {
    double largest = x.At(b * classes), sum = 0;
    for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, x.At(b * classes + c));
    for (int64_t c = 0; c < classes; ++c)
      sums[static_cast<size_t>(c)] = sum += std::exp(x.At(b * classes + c) - largest);
    for (int64_t i = 0; i < n; ++i) {
      const auto it = std::upper_bound(sums.begin(), sums.end(), random.Uniform() * sum);
      y->SetInt(b * n + i, std::min<int64_t>(it - sums.begin(), classes - 1));
    }
  }
  return {};
}

/// What generators have in common; the type of the result is the last constraint.
OpDef Generator(std::string_view name, std::string_view doc, std::vector<ParamDef> inputs,
                std::vector<AttrDef> attrs, std::vector<TypeConstraint> constraints,
                OpDef::ReferenceFn run, std::string_view example) {
  const std::string_view result = constraints.back().var;
  return OpDef{
      .name = name,
      .doc = doc,
      .traits = Trait::kRandom,
      .since = 1,
      .versions = {1, 22},
      .inputs = std::move(inputs),
      .outputs = {{"output", result}},
      .attrs = std::move(attrs),
      .constraints = std::move(constraints),
      .deterministic = false,
      .tolerance = 0,
      .infer = InferRandom,
      .reference = run,
      .example = example,
  };
}

}  // namespace

std::span<const OpDef> RandomOps() {
  static const std::vector<OpDef> ops = [] {
    const AttrDef mean{"mean", AttrKind::kFloat, 0.0f}, scale{"scale", AttrKind::kFloat, 1.0f};
    const AttrDef low{"low", AttrKind::kFloat, 0.0f}, high{"high", AttrKind::kFloat, 1.0f};
    const AttrDef shape{"shape", AttrKind::kInts, {}, true}, seed{"seed", AttrKind::kFloat};
    const AttrDef f32{"dtype", AttrKind::kInt, int64_t{1}}, like{"dtype", AttrKind::kInt};
    const TypeSet bool1(DType::kBool);
    std::vector<OpDef> v;
    v.push_back(Generator("RandomNormal", "Normally distributed numbers.", {},
                          {mean, scale, shape, f32, seed}, {{"T", kFloatsBF16}}, RunNormal,
                          "graph g() -> (y) { y = RandomNormal() {shape=[2, 3], seed=1.0} }"));
    v.push_back(Generator(
        "RandomNormalLike", "Normally distributed numbers, shaped as the operand.",
        {{"input", "T1"}}, {mean, scale, like, seed}, {{"T1", kMovable}, {"T2", kFloatsBF16}},
        RunNormal, "graph g(x: f32[2,3]) -> (y) { y = RandomNormalLike(x) {seed=1.0} }"));
    v.push_back(Generator("RandomUniform", "Uniformly distributed numbers.", {},
                          {low, high, shape, f32, seed}, {{"T", kFloatsBF16}}, RunUniform,
                          "graph g() -> (y) { y = RandomUniform() {shape=[2, 3], seed=1.0} }"));
    v.push_back(Generator(
        "RandomUniformLike", "Uniformly distributed numbers, shaped as the operand.",
        {{"input", "T1"}}, {low, high, like, seed}, {{"T1", kMovable}, {"T2", kFloatsBF16}},
        RunUniform, "graph g(x: f32[2,3]) -> (y) { y = RandomUniformLike(x) {seed=1.0} }"));
    v.push_back(Generator("Bernoulli", "1 with the probability that the operand gives, else 0.",
                          {{"input", "T1"}}, {like, seed},
                          {{"T1", kFloatsBF16}, {"T2", kNumeric | bool1}}, RunBernoulli,
                          "graph g(x: f32[2,3]) -> (y) { y = Bernoulli(x) {dtype=7} }"));
    v.back().since = 15;
    v.back().versions = {15, 22};
    v.push_back(Generator(
        "Multinomial", "Class indices drawn by unnormalised log-probabilities.", {{"input", "T1"}},
        {{"dtype", AttrKind::kInt, int64_t{6}}, {"sample_size", AttrKind::kInt, int64_t{1}}, seed},
        {{"T1", kFloatsBF16}, {"T2", kIndexTypes}}, RunMultinomial,
        "graph g(x: f32[2,3]) -> (y) { y = Multinomial(x) {sample_size=4} }"));
    v.back().since = 7;
    v.back().versions = {7, 22};
    v.back().infer = InferMultinomial;
    return v;
  }();
  return ops;
}

}  // namespace infer
