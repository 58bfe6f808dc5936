/// Windows, CenterCropPad and AffineGrid in terms of older operators.
#include <cmath>
#include <numbers>

#include "lib/ops/common.h"
#include "lib/ops/decomposition_text.h"
#include "lib/ops/decompositions.h"

namespace infer {

/// a0 + a1 cos(2 pi i / n) + a2 cos(4 pi i / n); n = 0 stands for an angle of pi.
Result<std::string> DecomposeWindow(const OpCall& call) {
  const std::string_view op = call.def().name;
  const bool blackman = op == "BlackmanWindow";
  const double a0 = op == "HannWindow" ? 0.5 : blackman ? 0.42 : 25.0 / 46;
  const double a1 = op == "HammingWindow" ? -21.0 / 46 : -0.5;
  const auto t = static_cast<DType>(call.Int("output_datatype"));
  // What is rounded to integers must not depend on the last bit.
  const DType wide = t == DType::kF64 || IsInteger(t) ? DType::kF64 : DType::kF32;
  const auto size = call.elements(0);
  const bool periodic = call.Int("periodic") != 0;
  const bool may_be_one =
      !periodic && !(size && size->size() == 1 && (*size)[0].is_static() && (*size)[0].value() > 1);
  BodyText body(call);
  body.Int("zero", 0);
  body.Int("one", 1);
  body.Int("two", 2);
  INFER_ASSIGN(const DType size_type, KnownType(call, 0));
  std::string flat = body.CastTo("size", "x0", size_type, DType::kI64);
  if (!call.shape(0).has_rank() || call.shape(0).rank() > 0) {
    body.Ints("to_scalar", {});
    body.Line(Cat("scalar = Reshape(", flat, ", to_scalar)"));
    flat = "scalar";
  }
  body.Line(Cat("steps = Range(zero, ", flat, ", one)"));
  body.Line("twice = Mul(steps, two)");
  std::string above = "twice", below = flat;
  if (!periodic) {
    body.Line(Cat("gaps = Sub(", flat, ", one)"));
    below = "gaps";
  }
  if (may_be_one) {
    body.Line("is_empty = Equal(gaps, zero)");
    body.Cast("more", "is_empty", DType::kI64);
    body.Line("above = Add(twice, more)");
    body.Line("below = Add(gaps, more)");
    above = "above";
    below = "below";
  }
  body.Cast("upper", above, wide);
  body.Cast("lower", below, wide);
  body.Scalar("pi", wide, std::numbers::pi);
  body.Scalar("a0", wide, a0);
  body.Scalar("a1", wide, a1);
  body.Line("turns = Div(upper, lower)");
  body.Line("angle = Mul(turns, pi)");
  body.Line("wave = Cos(angle)");
  body.Line("swing = Mul(wave, a1)");
  body.Line("simple = Add(swing, a0)");
  std::string y = "simple";
  if (blackman) {
    body.Scalar("twofold", wide, 2);
    body.Scalar("a2", wide, 0.08);
    body.Line("angle2 = Mul(angle, twofold)");
    body.Line("wave2 = Cos(angle2)");
    body.Line("swing2 = Mul(wave2, a2)");
    body.Line("sum = Add(simple, swing2)");
    y = "sum";
  }
  return body.Graph(body.CastTo("y", y, wide, t));
}

namespace {

/// What Pad adds before and after each axis, where the extents are known; negative where it crops.
std::optional<Dims> StaticPads(const OpCall& call, const std::vector<int>& axes, int rank) {
  const auto wanted = call.elements(1);
  if (!wanted) return std::nullopt;
  const auto ends = static_cast<size_t>(rank);
  Dims pads(2 * ends);
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim &want = (*wanted)[i], &have = call.shape(0)[axes[i]];
    if (!want.is_static() || !have.is_static()) return std::nullopt;
    const int64_t more = want.value() - have.value();
    const auto at = static_cast<size_t>(axes[i]);
    pads[at] = more / 2;
    pads[ends + at] = more - more / 2;
  }
  return pads;
}

}  // namespace

/// Pad, whose negative pads crop.
Result<std::string> DecomposeCenterCropPad(const OpCall& call) {
  INFER_ASSIGN(const int rank, KnownRank(call, 0));
  std::vector<int> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (call.HasAttr("axes")) {
    INFER_ASSIGN(axes, NormalizeAxes(call.Ints("axes"), rank));
  }
  BodyText body(call);
  if (const auto pads = StaticPads(call, axes, rank)) {
    body.Ints("pads", *pads);
    body.Line("y = Pad(x0, pads)");
    return body.Graph("y");
  }
  // Where each axis of the operand finds its extent: in `shape`, or behind it in the operand's own.
  std::vector<int64_t> from;
  for (int i = 0; i < rank; ++i) from.push_back(static_cast<int64_t>(axes.size()) + i);
  for (size_t i = 0; i < axes.size(); ++i)
    from[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
  INFER_ASSIGN(const DType type, KnownType(call, 1));
  const std::string wanted = body.CastTo("wanted", "x1", type, DType::kI64);
  body.Ints("from", from);
  body.Int("two", 2);
  body.Line("have = Shape(x0)");
  body.Line(Cat("extents = Concat(", wanted, ", have) {axis=0}"));
  body.Line("want = Gather(extents, from)");
  body.Line("more = Sub(want, have)");
  // Rounded to zero, whatever a runtime's division of negative integers does.
  body.Line("size = Abs(more)");
  body.Line("direction = Sign(more)");
  body.Line("half = Div(size, two)");
  body.Line("before = Mul(half, direction)");
  body.Line("after = Sub(more, before)");
  body.Line("pads = Concat(before, after) {axis=0}");
  body.Line("y = Pad(x0, pads)");
  return body.Graph("y");
}

Result<std::string> DecomposeDepthToSpace(const OpCall& call) {
  const Shape& x = call.shape(0);
  if (!x.has_rank() || x.rank() != 4 || !x[1].is_static() || !x[2].is_static() || !x[3].is_static())
    return Unsupported("channels, height and width must be known");
  const int64_t s = call.Int("blocksize");
  const int64_t c = x[1].value() / (s * s), h = x[2].value(), w = x[3].value();
  const bool depth_first = call.Str("mode") == "DCR";
  constexpr int64_t kAsGiven = 0;  // the batch
  BodyText body(call);
  body.Ints("apart", depth_first ? std::vector<int64_t>{kAsGiven, s, s, c, h, w}
                                 : std::vector<int64_t>{kAsGiven, c, s, s, h, w});
  body.Ints("together", {kAsGiven, c, h * s, w * s});
  body.Line("blocks = Reshape(x0, apart)");
  body.Line(Cat("moved = Transpose(blocks) {perm=",
                depth_first ? "[0, 3, 4, 1, 5, 2]" : "[0, 1, 4, 2, 5, 3]", "}"));
  body.Line("y = Reshape(moved, together)");
  return body.Graph("y");
}

/// The sum over the spatial axes of a column of theta times the positions along the axis, and its
/// last column. Positions are (2 i + 1 - n) / m for i < n, where m is n, or n - 1 (at least 1) with
/// align_corners.
Result<std::string> DecomposeAffineGrid(const OpCall& call) {
  INFER_ASSIGN(const DType t, KnownType(call, 0));
  INFER_ASSIGN(const int64_t r, KnownExtent(call, 0, 1));
  if (r != 2 && r != 3) return Unsupported(Cat("theta has ", r, " rows"));
  const DType wide = t == DType::kF64 ? t : DType::kF32;
  BodyText body(call);
  body.Int("zero", 0);
  body.Int("one", 1);
  body.Int("two", 2);
  // By the batch that the size asks for: theta of another one is refused.
  std::vector<int64_t> as_column(static_cast<size_t>(r + 1), 1);
  as_column.back() = r;
  body.Ints("as_column", as_column);
  body.Ints("first", {0});
  body.Line("batch = Gather(x1, first)");
  body.Line("as_columns = Concat(batch, as_column) {axis=0}");
  const std::string theta = body.CastTo("theta", "x0", t, wide);
  const auto column = [&](int64_t k) {
    body.Int(Cat("k", k), k);
    body.Line(Cat("column", k, " = Gather(", theta, ", k", k, ") {axis=2}"));
    body.Line(Cat("c", k, " = Reshape(column", k, ", as_columns)"));
  };
  std::string sum;
  for (int64_t k = 0; k < r; ++k) {  // innermost first
    body.Int(Cat("axis", k), r + 1 - k);
    body.Line(Cat("n", k, " = Gather(x1, axis", k, ")"));
    body.Line(Cat("i", k, " = Range(zero, n", k, ", one)"));
    body.Line(Cat("double", k, " = Mul(i", k, ", two)"));
    body.Line(Cat("gaps", k, " = Sub(n", k, ", one)"));
    body.Line(Cat("centred", k, " = Sub(double", k, ", gaps", k, ")"));
    std::string extent = Cat("n", k);
    if (call.Int("align_corners") != 0) {
      body.Line(Cat("is_one", k, " = Equal(n", k, ", one)"));
      body.Line(Cat("extent", k, " = Where(is_one", k, ", one, gaps", k, ")"));
      extent = Cat("extent", k);
    }
    body.Cast(Cat("upper", k), Cat("centred", k), wide);
    body.Cast(Cat("lower", k), extent, wide);
    body.Line(Cat("at", k, " = Div(upper", k, ", lower", k, ")"));
    std::vector<int64_t> beside;  // [n, 1, ...]: as the grid without its batch
    for (int64_t d = 1; d <= k + 1; ++d) beside.push_back(d);
    body.Ints(Cat("beside", k), beside);
    body.Line(Cat("p", k, " = Unsqueeze(at", k, ", beside", k, ")"));
    column(k);
    body.Line(Cat("term", k, " = Mul(c", k, ", p", k, ")"));
    if (k > 0) body.Line(Cat("sum", k, " = Add(", sum, ", term", k, ")"));
    sum = Cat(k > 0 ? "sum" : "term", k);
  }
  column(r);
  body.Line(Cat("grid = Add(", sum, ", c", r, ")"));
  return body.Graph(body.CastTo("y", "grid", wide, t));
}

}  // namespace infer
