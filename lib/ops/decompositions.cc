#include "lib/ops/decompositions.h"

#include <cmath>
#include <numbers>

#include "lib/ops/decomposition_text.h"

namespace infer {
namespace {

/// The type that a normalization computes in: `stash_type`, where that is wider.
Result<DType> StashType(const OpCall& call, DType x) {
  const int64_t number = call.Int("stash_type");
  const DType stash =
      number > 0 && number < kNumDTypes ? static_cast<DType>(number) : DType::kUndefined;
  if (stash == DType::kF32) return x == DType::kF64 ? x : stash;
  if (stash == x) return x;
  return Unsupported(Cat("stash_type ", call.Int("stash_type"), " for ", Name(x)));
}

}  // namespace

Result<std::string> DecomposeActivation(const OpCall& call) {
  INFER_ASSIGN(const DType t, KnownType(call, 0));
  BodyText body(call);
  const std::string_view op = call.def().name;
  if (op == "Mish") {
    body.Line("s = Softplus(x0)");
    body.Line("f = Tanh(s)");
    body.Line("y = Mul(x0, f)");
  } else if (op == "HardSwish") {
    body.Line(Cat("f = HardSigmoid(x0) {alpha=", FormatDouble(1.0f / 6), ", beta=0.5}"));
    body.Line("y = Mul(x0, f)");
  } else if (op == "Swish") {
    body.Scalar("alpha", t, static_cast<double>(call.Float("alpha")));
    body.Line("a = Mul(x0, alpha)");
    body.Line("f = Sigmoid(a)");
    body.Line("y = Mul(x0, f)");
  } else if (op == "Celu") {
    // The standard's function is its formula for positive alphas only.
    if (!(call.Float("alpha") > 0)) return Unsupported("Celu: alpha is not positive");
    body.Scalar("alpha", t, static_cast<double>(call.Float("alpha")));
    body.Scalar("zero", t, 0);
    // Numbers above 0 are not divided: by a small alpha they would become infinite.
    body.Line("r = Relu(x0)");
    body.Line("n = Min(x0, zero)");
    body.Line("a = Div(n, alpha)");
    body.Line("e = Elu(a)");
    body.Line("m = Mul(e, alpha)");
    body.Line("y = Add(r, m)");
  } else {
    INFER_CHECK(op == "Gelu");
    // As exporters write them: readers without the operator fuse these spellings and no others.
    body.Scalar("half", t, 0.5);
    body.Scalar("one", t, 1);
    if (call.Str("approximate") == "tanh") {
      body.Scalar("three", t, 3);
      body.Scalar("c", t, 0.044715);
      body.Scalar("k", t, std::sqrt(2 / std::numbers::pi));
      body.Line("cube = Pow(x0, three)");
      body.Line("curve = Mul(cube, c)");
      body.Line("sum = Add(x0, curve)");
      body.Line("a = Mul(sum, k)");
      body.Line("f = Tanh(a)");
      body.Line("g = Add(f, one)");
      body.Line("h = Mul(x0, half)");
      body.Line("y = Mul(h, g)");
    } else {
      body.Scalar("k", t, std::numbers::sqrt2);
      body.Line("a = Div(x0, k)");
      body.Line("f = Erf(a)");
      body.Line("g = Add(f, one)");
      body.Line("h = Mul(x0, g)");
      body.Line("y = Mul(h, half)");
    }
  }
  return body.Graph("y");
}

Result<std::string> DecomposeOrEqual(const OpCall& call) {
  BodyText body(call);
  body.Line(Cat("a = ", call.def().name == "LessOrEqual" ? "Less" : "Greater", "(x0, x1)"));
  body.Line("b = Equal(x0, x1)");
  body.Line("y = Or(a, b)");
  return body.Graph("y");
}

Result<std::string> DecomposeGemm(const OpCall& call) {
  if (!call.has_input(2)) return Unsupported("it adds nothing");
  INFER_ASSIGN(const DType t, KnownType(call, 0));
  // Rounded once, at the end.
  if (IsInteger(t) && (call.Float("alpha") != 1 || call.Float("beta") != 1))
    return Unsupported("integers are scaled");
  BodyText body(call);
  body.Line(Cat("p = Gemm(x0, x1) {alpha=", FormatDouble(call.Float("alpha")),
                ", transA=", call.Int("transA"), ", transB=", call.Int("transB"), "}"));
  const double beta = static_cast<double>(call.Float("beta"));
  if (beta != 1) {
    body.Scalar("beta", t, beta);
    body.Line("c = Mul(x2, beta)");
  }
  body.Line(Cat("y = Add(p, ", beta != 1 ? "c" : "x2", ")"));
  return body.Graph("y");
}

Result<std::string> DecomposeCastLike(const OpCall& call) {
  INFER_ASSIGN(const DType to, KnownType(call, 1));
  BodyText body(call);
  std::string more;
  if (call.Int("saturate") == 0) more += ", saturate=0";
  if (call.Str("round_mode") != "up") more += Cat(", round_mode=\"", call.Str("round_mode"), "\"");
  body.Line(Cat("y = Cast(x0) {to=", static_cast<int>(to), more, "}"));
  return body.Graph("y");
}

Result<std::string> DecomposeRowNorm(const OpCall& call) {
  INFER_ASSIGN(const DType x, KnownType(call, 0));
  INFER_ASSIGN(const DType scale, KnownType(call, 1));
  INFER_ASSIGN(const DType t, StashType(call, x));
  const bool centred = call.def().name == "LayerNormalization";
  std::vector<int64_t> axes;
  int64_t first = call.Int("axis");
  if (first >= 0) {
    INFER_ASSIGN(const int rank, KnownRank(call, 0));
    first -= rank;
  }
  for (int64_t a = first; a < 0; ++a) axes.push_back(a);
  BodyText body(call);
  body.Ints("axes", axes);
  body.Scalar("epsilon", t, static_cast<double>(call.Float("epsilon")));
  std::string in = "x0";
  if (t != x) {
    body.Cast("wide", in, t);
    in = "wide";
  }
  if (centred) {
    body.Line(Cat("mean = ReduceMean(", in, ", axes)"));
    body.Line(Cat("d = Sub(", in, ", mean)"));
    in = "d";
  }
  body.Scalar("two", t, 2);
  body.Line(Cat("square = Pow(", in, ", two)"));  // other runtimes fuse this spelling
  body.Line("variance = ReduceMean(square, axes)");
  body.Line("above = Add(variance, epsilon)");
  body.Line("deviation = Sqrt(above)");
  body.Line(Cat("n = Div(", in, ", deviation)"));
  std::string normalized = "n";
  if (t != scale) {
    body.Cast("narrow", normalized, scale);
    normalized = "narrow";
  }
  const bool bias = call.has_input(2);
  body.Line(Cat(bias ? "scaled" : "y", " = Mul(", normalized, ", x1)"));
  if (bias) body.Line("y = Add(scaled, x2)");
  if (call.num_outputs() < 2) return body.Graph("y");
  if (call.num_outputs() < 3) return body.Graph("y, mean");
  body.Line("inverse = Reciprocal(deviation)");
  return body.Graph("y, mean, inverse");
}

Result<std::string> DecomposeGroupNorm(const OpCall& call) {
  INFER_ASSIGN(const DType x, KnownType(call, 0));
  constexpr int64_t kMostGroups = 1 << 16;
  const int64_t groups = call.Int("num_groups");
  if (groups < 1 || groups > kMostGroups) return Unsupported(Cat(groups, " groups"));
  INFER_ASSIGN(const DType t, StashType(call, x));
  INFER_ASSIGN(const int rank, KnownRank(call, 0));
  BodyText body(call);
  std::vector<int64_t> per_channel(static_cast<size_t>(std::max(rank - 1, 1)), 1);
  per_channel[0] = -1;
  body.Ints("groups", {0, groups, -1});
  body.Ints("channels", per_channel);
  std::string in = "x0";
  if (t != x) {
    body.Cast("wide", in, t);
    in = "wide";
  }
  body.Line(Cat("g = Reshape(", in, ", groups)"));
  const double epsilon = static_cast<double>(call.Float("epsilon"));
  if (t == DType::kF32) {  // exporters write it so; other runtimes know it of f32 alone
    for (const auto& [name, value] : {std::pair("ones", 1), std::pair("zeros", 0)})
      body.Line(Cat(name, " = const f32[", groups, "] {",
                    Join(std::vector<int>(static_cast<size_t>(groups), value), ", "), "}"));
    body.Line(
        Cat("n = InstanceNormalization(g, ones, zeros) {epsilon=", FormatDouble(epsilon), "}"));
  } else {
    body.Ints("last", {2});
    body.Scalar("epsilon", t, epsilon);
    body.Scalar("two", t, 2);
    body.Line("mean = ReduceMean(g, last)");
    body.Line("d = Sub(g, mean)");
    body.Line("square = Pow(d, two)");
    body.Line("variance = ReduceMean(square, last)");
    body.Line("above = Add(variance, epsilon)");
    body.Line("deviation = Sqrt(above)");
    body.Line("n = Div(d, deviation)");
  }
  std::string normalized = "n";
  if (t != x) {
    body.Cast("narrow", normalized, x);
    normalized = "narrow";
  }
  body.Line("shape = Shape(x0)");
  body.Line(Cat("back = Reshape(", normalized, ", shape)"));
  body.Line("scale = Reshape(x1, channels)");
  body.Line("bias = Reshape(x2, channels)");
  body.Line("scaled = Mul(back, scale)");
  body.Line("y = Add(scaled, bias)");
  return body.Graph("y");
}

/// Elements of a head of X [batch, heads, length, size] or [batch, length, heads * size]; -1: not
/// known.
int64_t HeadSizeOf(const OpCall& call, int rank) {
  const Dim& last = call.shape(0)[rank - 1];
  if (!last.is_static()) return -1;
  return rank == 3 ? last.value() / call.Int("num_heads") : last.value();
}

Result<std::string> DecomposeRotary(const OpCall& call) {
  INFER_ASSIGN(const int rank, KnownRank(call, 0));
  const int64_t size = HeadSizeOf(call, rank), asked = call.Int("rotary_embedding_dim");
  const int64_t part = asked == size ? 0 : asked;  // 0: all of them
  const bool by_heads =
      rank == 3;  // [batch, length, heads * size], else [batch, heads, length, size]
  BodyText body(call);
  std::string x = "x0";
  if (by_heads) {  // heads stay side by side: the angles are the same for all of them
    body.Ints("split_heads", {0, 0, call.Int("num_heads"), -1});
    body.Line("heads = Reshape(x0, split_heads)");
    x = "heads";
  }
  body.Ints("last", {-1});
  body.Ints("zero", {0});
  body.Ints("one", {1});
  body.Ints("two", {2});
  body.Ints("end", {INT64_MAX});
  std::string rotated = x;
  const bool interleaved = call.Int("interleaved") != 0;
  const bool in_three = part > 0 && !interleaved && size > part;
  if (in_three) {
    body.Ints("sizes", {part / 2, part / 2, size - part});
  } else if (part > 0 && size > part) {
    body.Ints("sizes", {part, size - part});
    body.Line(Cat("rotated, kept = Split(", x, ", sizes) {axis=-1}"));
    rotated = "rotated";
  } else if (part > 0) {
    body.Ints("part", {part});
    body.Line(Cat("rotated = Slice(", x, ", zero, part, last)"));
    body.Line(Cat("kept = Slice(", x, ", part, end, last)"));
    rotated = "rotated";
  }
  for (const char* table : {"cos", "sin"}) {
    std::string at = Cat("x", table[0] == 'c' ? 1 : 2);
    if (call.has_input(3)) {
      body.Line(Cat(table, "_at = Gather(", at, ", x3)"));
      at = Cat(table, "_at");
    }
    body.Line(Cat(table, " = Unsqueeze(", at, by_heads ? ", two)" : ", one)"));
  }
  if (in_three) {
    body.Line(Cat("a, b, kept = Split(", x, ", sizes) {axis=-1}"));
  } else if (interleaved) {
    body.Line(Cat("a = Slice(", rotated, ", zero, end, last, two)"));
    body.Line(Cat("b = Slice(", rotated, ", one, end, last, two)"));
  } else {
    body.Line(Cat("a, b = Split(", rotated, ") {axis=-1, num_outputs=2}"));
  }
  body.Line("ca = Mul(cos, a)");
  body.Line("sb = Mul(sin, b)");
  body.Line("real = Sub(ca, sb)");
  body.Line("sa = Mul(sin, a)");
  body.Line("cb = Mul(cos, b)");
  body.Line("imaginary = Add(sa, cb)");
  std::string y = "turned";
  if (interleaved) {
    body.Line("r = Unsqueeze(real, last)");
    body.Line("i = Unsqueeze(imaginary, last)");
    body.Line("pairs = Concat(r, i) {axis=-1}");
    body.Ints("flat", {0, 0, 0, -1});
    body.Line("turned = Reshape(pairs, flat)");
  } else if (in_three) {
    body.Line("whole = Concat(real, imaginary, kept) {axis=-1}");
    y = "whole";
  } else {
    body.Line("turned = Concat(real, imaginary) {axis=-1}");
  }
  if (part > 0 && !in_three) {
    body.Line("whole = Concat(turned, kept) {axis=-1}");
    y = "whole";
  }
  if (by_heads) {
    body.Ints("join_heads", {0, 0, -1});
    body.Line(Cat("y = Reshape(", y, ", join_heads)"));
    y = "y";
  }
  return body.Graph(y);
}

}  // namespace infer
