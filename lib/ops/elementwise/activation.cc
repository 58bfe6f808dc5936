/// Activations: functions of one operand with parameters, PRelu and Dropout.
#include "lib/ops/common.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/op_def.h"
#include "lib/tensor/to_integer.h"

namespace infer {
namespace {

template <typename F>
Status MapFloat(OpRun& run, F f) {
  const Tensor& x = run.in(0);
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  return DispatchF32F64(run, x.dtype(), [&]<typename T>(T) {
    MapUnary(x.data<T>(), y.mutable_data<T>(), [&f](T v) -> T { return f(v); });
  });
}

template <typename T>
T Logistic(T x) {  // of |x|, so that exp cannot overflow
  const T e = std::exp(-std::abs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}
template <typename T>
T SoftplusOf(T x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

Status RunLeakyRelu(OpRun& run) {
  return MapFloat(run, [a = run.Float("alpha")](auto x) { return x < 0 ? x * a : x; });
}
Status RunElu(OpRun& run) {
  return MapFloat(run, [a = run.Float("alpha")](auto x) { return x < 0 ? a * std::expm1(x) : x; });
}
Status RunSelu(OpRun& run) {
  return MapFloat(run, [a = run.Float("alpha"), g = run.Float("gamma")](auto x) {
    return g * (x > 0 ? x : a * std::expm1(x));
  });
}
Status RunCelu(OpRun& run) {
  return MapFloat(run, [a = run.Float("alpha")]<typename T>(T x) {
    return std::max(x, T{0}) + std::min(T{0}, a * std::expm1(x / a));
  });
}
Status RunThresholdedRelu(OpRun& run) {
  return MapFloat(run, [a = run.Float("alpha")]<typename T>(T x) { return x > a ? x : T{0}; });
}
Status RunSigmoid(OpRun& run) {
  return MapFloat(run, [](auto x) { return Logistic(x); });
}
Status RunHardSigmoid(OpRun& run) {
  return MapFloat(run, [a = run.Float("alpha"), b = run.Float("beta")]<typename T>(T x) {
    return std::clamp(static_cast<T>(a * x + b), T{0}, T{1});
  });
}
Status RunHardSwish(OpRun& run) {
  return MapFloat(run, []<typename T>(T x) { return x * std::clamp(x / 6 + T{0.5}, T{0}, T{1}); });
}
Status RunSoftplus(OpRun& run) {
  return MapFloat(run, [](auto x) { return SoftplusOf(x); });
}
Status RunSoftsign(OpRun& run) {
  return MapFloat(run, [](auto x) { return x / (1 + std::abs(x)); });
}
Status RunMish(OpRun& run) {
  return MapFloat(run, [](auto x) { return x * std::tanh(SoftplusOf(x)); });
}
/// x Phi(x) with the normal distribution function Phi, or its tanh approximation (Hendrycks and
/// Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415).
template <typename T>
T GeluOf(T x) {
  return T{0.5} * x * (1 + std::erf(x * static_cast<T>(0.70710678118654752440)));
}
template <typename T>
T TanhGeluOf(T x) {
  return T{0.5} * x *
         (1 + std::tanh(static_cast<T>(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
}
Status InferGelu(OpCall& call) {
  const std::string& how = call.Str("approximate");
  if (how != "none" && how != "tanh")
    return InvalidModel(Cat("Gelu: approximate is '", how, "', not 'none' or 'tanh'"));
  return InferSame(call);
}

Status RunGelu(OpRun& run) {
  if (run.Str("approximate") == "tanh") return MapFloat(run, [](auto x) { return TanhGeluOf(x); });
  return MapFloat(run, [](auto x) { return GeluOf(x); });
}
Status RunExactGelu(OpRun& run) {
  return MapFloat(run, [](auto x) { return GeluOf(x); });
}
Status RunSwish(OpRun& run) {
  return MapFloat(run, [a = run.Float("alpha")]<typename T>(T x) {
    return x * Logistic(static_cast<T>(a * x));
  });
}

/// com.microsoft BiasGelu and FastGelu: the bias [C] is added to the last axis first.
template <bool kTanh>
Status RunBiasGelu(OpRun& run) {
  const Tensor& x = run.in(0);
  if (!run.has(1)) return MapFloat(run, [](auto v) { return kTanh ? TanhGeluOf(v) : GeluOf(v); });
  INFER_TRY(CheckSameTypes(run, 0, 2));
  INFER_ASSIGN(const Dims dims, Broadcast(x.dims(), run.in(1).dims()));
  if (dims != x.dims()) return InvalidModel("BiasGelu: the bias is wider than the input");
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  return DispatchF32F64(run, x.dtype(), [&]<typename T>(T) {
    MapBinary<T, T, T>(x, run.in(1), y,
                       [](T a, T b) { return kTanh ? TanhGeluOf(a + b) : GeluOf(a + b); });
  });
}

/// y = x + bias below -lambd, x - bias above lambd, else 0; of integers within their bounds.
Status RunShrink(OpRun& run) {
  const Tensor& x = run.in(0);
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  const double bias = run.Float("bias"), lambd = run.Float("lambd");
  return DispatchNumber(run, x.dtype(), [&]<typename T>(T) {
    MapUnary(x.data<T>(), y.mutable_data<T>(), [=](T v) {
      const auto d = static_cast<double>(v);
      const double shrunk = d < -lambd ? d + bias : d > lambd ? d - bias : 0.0;
      if constexpr (std::is_integral_v<T>)
        return ToInteger<T>(shrunk);
      else
        return static_cast<T>(shrunk);
    });
  });
}

/// Output 0 has the type of input 0, to which input 1 broadcasts.
Status InferOntoFirst(OpCall& call) {
  if (call.has_input(1)) {
    INFER_ASSIGN(const Shape both, Broadcast(call.shape(0), call.shape(1)));
    if (!Meet(both, call.shape(0)).ok())
      return InvalidModel(Cat(call.def().name, ": input 1 is ", call.shape(1).ToString(),
                              ", which is wider than ", call.shape(0).ToString()));
  }
  return InferSame(call);
}

Status RunPRelu(OpRun& run) {
  const Tensor &x = run.in(0), &slope = run.in(1);
  INFER_TRY(CheckSameTypes(run, 0, 2));
  INFER_ASSIGN(const Dims dims, Broadcast(x.dims(), slope.dims()));
  if (dims != x.dims())
    return InvalidModel(Cat("PRelu: slope ", ToString(slope.dims()), " is wider than X"));
  Tensor& y = run.Out(0, x.dtype(), x.dims());
  return DispatchNumber(run, x.dtype(), [&]<typename T>(T) {
    MapBinary<T, T, T>(x, slope, y, [](T v, T s) -> T {
      if constexpr (std::is_unsigned_v<T>)
        return v;
      else if constexpr (std::is_integral_v<T>)
        return v < 0 ? static_cast<T>(static_cast<Wrapping<T>>(v) * static_cast<Wrapping<T>>(s))
                     : v;
      else
        return v < 0 ? v * s : v;
    });
  });
}

/// Opset 6 reads a slope of shape [C] along axis 1, whatever the rank of X.
Status LiftPRelu(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 7 && node.inputs.size() == 2) {
    const ValueType* slope = out.Type(node.inputs[1]);
    const bool scalar =
        slope && slope->is_tensor() && slope->tensor().shape.num_elements().KnownEqual(1);
    if (!scalar) {
      node.attrs["axis"] = int64_t{1};
      node.attrs["broadcast"] = int64_t{1};
    }
  }
  return LiftAxisBroadcast(std::move(node), opset, out);
}

Status InferDropout(OpCall& call) {
  call.SetOut(0, call.type(0));
  call.SetOut(1, DType::kBool, call.shape(0));
  return {};
}

/// Inference: the data as it is, and a mask of true. Training would be random.
Status RunDropout(OpRun& run) {
  const bool training = run.has(2) && run.in(2).num_elements() == 1 && run.in(2).IntAt(0) != 0;
  const double ratio = run.has(1) && run.in(1).num_elements() == 1 ? run.in(1).At(0) : 0.5;
  if (training && ratio != 0)
    return Unsupported("Dropout: training_mode with a ratio above 0 is random; set it to false");
  run.Set(0, run.datum(0));
  if (run.num_outputs() > 1) {
    const auto mask = run.Out(1, DType::kBool, run.in(0).dims()).mutable_data<bool>();
    std::fill(mask.begin(), mask.end(), true);
  }
  return {};
}

/// Before opset 12 ratio is an attribute, which inference does not read; before opset 10 the mask
/// has the type of the data.
Status LiftDropout(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 12)
    for (const char* name : {"ratio", "is_test", "consumed_inputs"}) DropAttr(node, name);
  std::string mask;
  if (opset < 10 && node.outputs.size() > 1 && !node.outputs[1].empty()) {
    mask = node.outputs[1];
    node.outputs[1] = out.Fresh(mask);
  }
  const NodeSpec dropout = node;
  out.Emit(std::move(node));
  if (!mask.empty())
    out.Emit(MakeSpec("CastLike", dropout, {dropout.outputs[1], dropout.inputs[0]}, {mask}));
  return {};
}

Result<NodeSpec> LowerDropout(NodeSpec node, int opset, LiftContext&) {
  if (opset >= 12) return node;
  if (node.outputs.size() > 1 && !node.outputs[1].empty())
    return Unsupported("a mask that is true in inference needs opset 12");
  node.inputs.resize(1);  // what is left out is not read in inference
  node.attrs.clear();
  return node;
}

OpDef Activation(std::string_view name, std::string_view doc, std::vector<int> versions,
                 std::vector<AttrDef> attrs, OpDef::ReferenceFn reference, OpDef::CostFn cost,
                 std::string_view example, std::string_view domain = "") {
  const bool from_1 = versions.front() == 1 && versions.size() > 1 && versions[1] == 6;
  return {.name = name,
          .domain = domain,
          .doc = doc,
          .traits = Trait::kUnary,
          .since = versions.front(),
          .versions = std::move(versions),
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = std::move(attrs),
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferSame,
          .reference = reference,
          .cost = cost,
          .lift = from_1 ? LiftConsumedInputs : nullptr,
          .example = example};
}

/// An activation that the standard defines by older operators.
OpDef Decomposable(OpDef def) {
  def.decompose = DecomposeActivation;
  return def;
}

AttrDef FloatAttr(std::string_view name, float value) { return {name, AttrKind::kFloat, value}; }

OpDef Gelu() {
  OpDef def = Decomposable(Activation(
      "Gelu", "y = x Phi(x), or its tanh approximation.", {20},
      {{"approximate", AttrKind::kString, std::string("none")}}, Wide<RunGelu>, CostPerOutput<5>,
      R"(graph g(x: f32[2,3]) -> (y) { y = Gelu(x) {approximate="tanh"} })"));
  def.infer = InferGelu;
  return def;
}

}  // namespace

std::span<const OpDef> ActivationOps() {
  constexpr TypeSet kDropoutTypes = kFloatsBF16 | kFloat8;
  static const OpDef ops[] = {
      Also(Trait::kHomogeneous,
           Activation("LeakyRelu", "y = x, or alpha x below 0.", {1, 6, 16},
                      {FloatAttr("alpha", 0.01f)}, Wide<RunLeakyRelu>, CostPerOutput<1>,
                      "graph g(x: f32[2,3]) -> (y) { y = LeakyRelu(x) {alpha=0.1} }")),
      Activation("Elu", "y = x, or alpha (e^x - 1) below 0.", {1, 6, 22}, {FloatAttr("alpha", 1.f)},
                 Wide<RunElu>, CostPerOutput<3>,
                 "graph g(x: f32[2,3]) -> (y) { y = Elu(x) {alpha=2.0} }"),
      Activation("Selu", "y = gamma x, or gamma alpha (e^x - 1) below 0.", {1, 6, 22},
                 {FloatAttr("alpha", 1.67326319217681884765625f),
                  FloatAttr("gamma", 1.05070102214813232421875f)},
                 Wide<RunSelu>, CostPerOutput<4>, "graph g(x: f32[2,3]) -> (y) { y = Selu(x) }"),
      {.name = "Celu",
       .doc = "y = max(0, x) + min(0, alpha (e^(x/alpha) - 1)).",
       .traits = Trait::kUnary,
       .since = 12,
       .versions = {12},
       .inputs = {{"X", "T"}},
       .outputs = {{"Y", "T"}},
       .attrs = {FloatAttr("alpha", 1.f)},
       .constraints = {{"T", TypeSet(DType::kF32)}},
       .infer = InferSame,
       .reference = Wide<RunCelu>,
       .cost = CostPerOutput<5>,
       .decompose = DecomposeActivation,
       .example = "graph g(x: f32[2,3]) -> (y) { y = Celu(x) {alpha=2.0} }"},
      Activation("ThresholdedRelu", "y = x above alpha, else 0.", {10, 22},
                 {FloatAttr("alpha", 1.f)}, Wide<RunThresholdedRelu>, CostPerOutput<0>,
                 "graph g(x: f32[2,3]) -> (y) { y = ThresholdedRelu(x) {alpha=0.5} }"),
      Also(Trait::kNonNegative,
           Activation("Sigmoid", "y = 1 / (1 + e^-x).", {1, 6, 13}, {}, Wide<RunSigmoid>,
                      CostPerOutput<3>, "graph g(x: f32[2,3]) -> (y) { y = Sigmoid(x) }")),
      Also(Trait::kNonNegative,
           Activation("HardSigmoid", "y = clamp(alpha x + beta, 0, 1).", {1, 6, 22},
                      {FloatAttr("alpha", 0.2f), FloatAttr("beta", 0.5f)}, Wide<RunHardSigmoid>,
                      CostPerOutput<2>, "graph g(x: f32[2,3]) -> (y) { y = HardSigmoid(x) }")),
      Decomposable(Activation("HardSwish", "y = x clamp(x/6 + 1/2, 0, 1).", {14, 22}, {},
                              Wide<RunHardSwish>, CostPerOutput<3>,
                              "graph g(x: f32[2,3]) -> (y) { y = HardSwish(x) }")),
      Also(Trait::kNonNegative,
           Activation("Softplus", "y = ln(1 + e^x).", {1, 22}, {}, Wide<RunSoftplus>,
                      CostPerOutput<3>, "graph g(x: f32[2,3]) -> (y) { y = Softplus(x) }")),
      Activation("Softsign", "y = x / (1 + |x|).", {1, 22}, {}, Wide<RunSoftsign>, CostPerOutput<3>,
                 "graph g(x: f32[2,3]) -> (y) { y = Softsign(x) }"),
      Decomposable(Activation("Mish", "y = x tanh(ln(1 + e^x)).", {18, 22}, {}, Wide<RunMish>,
                              CostPerOutput<5>, "graph g(x: f32[2,3]) -> (y) { y = Mish(x) }")),
      Gelu(),
      Decomposable(Activation("Swish", "y = x sigmoid(alpha x).", {24}, {FloatAttr("alpha", 1.f)},
                              Wide<RunSwish>, CostPerOutput<5>,
                              "graph g(x: f32[2,3]) -> (y) { y = Swish(x) {alpha=2.0} }")),
      {.name = "Shrink",
       .doc = "y = x + bias below -lambd, x - bias above lambd, else 0.",
       .traits = Trait::kUnary,
       .since = 9,
       .versions = {9},
       .inputs = {{"input", "T"}},
       .outputs = {{"output", "T"}},
       .attrs = {FloatAttr("bias", 0.f), FloatAttr("lambd", 0.5f)},
       .constraints = {{"T", kFloats | kInts}},
       .infer = InferSame,
       .reference = Wide<RunShrink>,
       .cost = CostPerOutput<1>,
       .example = "graph g(x: f32[2,3]) -> (y) { y = Shrink(x) {lambd=0.2, bias=0.1} }"},
      {.name = "PRelu",
       .doc = "y = x, or slope x below 0; slope broadcasts to X.",
       .traits = Trait::kElementwise | Trait::kHomogeneous,
       .since = 7,
       .versions = {1, 6, 7, 9, 16},
       .inputs = {{"X", "T"}, {"slope", "T"}},
       .outputs = {{"Y", "T"}},
       .constraints = {{"T",
                        kFloatsBF16 | TypeSet(DType::kU32, DType::kU64, DType::kI32, DType::kI64)}},
       .infer = InferOntoFirst,
       .reference = Wide<RunPRelu>,
       .cost = CostPerOutput<1>,
       .lift = LiftPRelu,
       .example = "graph g(x: f32[2,3], s: f32[3]) -> (y) { y = PRelu(x, s) }"},
      {.name = "Dropout",
       .doc = "The data itself in inference; training_mode is refused unless ratio is 0.",
       .traits = Trait::kUnary,
       .since = 12,
       .versions = {1, 6, 7, 10, 12, 13, 22},
       .inputs = {{"data", "T"},
                  {"ratio", "T1", Arity::kOptional, 12},
                  {"training_mode", "T2", Arity::kOptional, 12}},
       .outputs = {{"output", "T"}, {"mask", "T2", Arity::kOptional}},
       .attrs = {{"seed", AttrKind::kInt}},
       .constraints = {{"T", kDropoutTypes}, {"T1", kDropoutTypes}, {"T2", TypeSet(DType::kBool)}},
       .infer = InferDropout,
       .reference = RunDropout,
       .lift = LiftDropout,
       .lower = LowerDropout,
       .example = "graph g(x: f32[2,3]) -> (y, m) { y, m = Dropout(x) }"},
      Activation("Gelu", "y = x Phi(x).", {1}, {}, Wide<RunExactGelu>, CostPerOutput<5>,
                 "graph g(x: f32[2,3]) -> (y) { y = com.microsoft::Gelu(x) }", "com.microsoft"),
      Activation("QuickGelu", "y = x sigmoid(alpha x).", {1}, {FloatAttr("alpha", 1.702f)},
                 Wide<RunSwish>, CostPerOutput<5>,
                 "graph g(x: f32[2,3]) -> (y) { y = com.microsoft::QuickGelu(x) }",
                 "com.microsoft"),
      {.name = "FastGelu",
       .domain = "com.microsoft",
       .doc = "y = the tanh approximation of Gelu(x + bias).",
       .traits = Trait::kUnary,
       .inputs = {{"X", "T"}, {"bias", "T", Arity::kOptional}},
       .outputs = {{"Y", "T"}},
       .constraints = {{"T", kFloatsBF16}},
       .infer = InferOntoFirst,
       .reference = Wide<RunBiasGelu<true>>,
       .cost = CostPerOutput<9>,
       .example = "graph g(x: f32[2,3], b: f32[3]) -> (y) { y = com.microsoft::FastGelu(x, b) }"},
      {.name = "BiasGelu",
       .domain = "com.microsoft",
       .doc = "C = Gelu(A + B).",
       .traits = Trait::kElementwise,
       .inputs = {{"A", "T"}, {"B", "T"}},
       .outputs = {{"C", "T"}},
       .constraints = {{"T", kFloatsBF16}},
       .infer = InferOntoFirst,
       .reference = Wide<RunBiasGelu<false>>,
       .cost = CostPerOutput<6>,
       .example = "graph g(x: f32[2,3], b: f32[3]) -> (y) { y = com.microsoft::BiasGelu(x, b) }"},
  };
  return ops;
}

}  // namespace infer
