/// Resize and the retired Upsample.
///
/// Interpolation is separable: along each resized axis an output index is a weighted sum of input
/// indices (one for nearest, two for linear, four for cubic, more where antialiasing stretches the
/// filter). Cubic: R. Keys, "Cubic convolution interpolation for digital image processing", 1981,
/// equation (4).
#include "lib/ops/move/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/ops/move/move.h"
#include "lib/ops/move/resize_lifted.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

/// A present operand with no elements counts as omitted.
bool Given(const Tensor* t) { return t && t->num_elements() > 0; }

Result<std::vector<int>> ResizeAxes(const OpCall& call, int rank) {
  if (call.HasAttr("axes")) return NormalizeAxes(call.Ints("axes"), rank);
  std::vector<int> all;
  for (int i = 0; i < rank; ++i) all.push_back(i);
  return all;
}

/// What happens to one axis: `scale` maps coordinates, start and end are the region of interest.
struct AxisPlan {
  int axis = 0;
  int64_t in = 0, out = 0;
  float scale = 1, start = 0, end = 1;
  float length = 0;  // `out` before it was rounded down
};

bool CropsRegion(const OpCall& call) {
  return call.Str("coordinate_transformation_mode") == "tf_crop_and_resize";
}

/// Extents by sizes: with a policy other than stretch all axes share one scale.
void PlanSizes(const OpCall& call, const Tensor& sizes, std::vector<AxisPlan>& plans) {
  const std::string& policy = call.Str("keep_aspect_ratio_policy");
  float shared = policy == "not_larger" ? std::numeric_limits<float>::infinity() : 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    AxisPlan& p = plans[i];
    p.out = sizes.IntAt(static_cast<int64_t>(i));
    p.scale = p.in > 0 ? static_cast<float>(p.out) / static_cast<float>(p.in) : 1;
    shared = policy == "not_larger" ? std::min(shared, p.scale) : std::max(shared, p.scale);
  }
  for (AxisPlan& p : plans) p.length = static_cast<float>(p.out);
  if (policy == "stretch") return;
  for (AxisPlan& p : plans) {
    p.scale = shared;
    p.length = shared * static_cast<float>(p.in);
    p.out = static_cast<int64_t>(std::floor(p.length + 0.5f));
  }
}

Status CheckScale(double scale) {
  if (scale > 0 && std::isfinite(static_cast<float>(scale))) return {};
  return InvalidModel(Cat("scale ", scale, " is not a positive number"));
}

/// One entry per resized axis. Exactly one of scales and sizes must be given.
Result<std::vector<AxisPlan>> PlanAxes(const OpCall& call, const Dims& dims, const Tensor* roi,
                                       const Tensor* scales, const Tensor* sizes) {
  INFER_ASSIGN(const auto axes, ResizeAxes(call, static_cast<int>(dims.size())));
  const auto n = static_cast<int64_t>(axes.size());
  if (Given(scales) == Given(sizes)) return InvalidModel("takes either scales or sizes");
  const Tensor& given = Given(scales) ? *scales : *sizes;
  if (given.num_elements() != n)
    return InvalidModel(Cat(Given(scales) ? "scales" : "sizes", " has ", given.num_elements(),
                            " entries for ", n, " axes"));
  const bool crop = CropsRegion(call);
  if (crop && (!Given(roi) || roi->num_elements() != 2 * n))
    return InvalidModel("tf_crop_and_resize needs a roi with two entries per axis");
  std::vector<AxisPlan> plans;
  for (int64_t i = 0; i < n; ++i) {
    AxisPlan p;
    p.axis = axes[static_cast<size_t>(i)];
    p.in = dims[static_cast<size_t>(p.axis)];
    if (crop) {
      p.start = static_cast<float>(roi->At(i));
      p.end = static_cast<float>(roi->At(i + n));
    }
    if (Given(scales)) {
      INFER_TRY(CheckScale(scales->At(i)));
      p.scale = static_cast<float>(scales->At(i));
      const float extent =
          std::floor(static_cast<float>(p.in) * (crop ? p.end - p.start : 1) * p.scale);
      if (!(extent >= 0) || extent > 1e15f) return InvalidModel("a resized extent is not valid");
      p.out = static_cast<int64_t>(extent);
      p.length = static_cast<float>(p.in) * p.scale;
    }
    plans.push_back(p);
  }
  if (!Given(scales)) PlanSizes(call, *sizes, plans);
  for (const AxisPlan& p : plans)
    if (p.out < 0 || (p.in == 0 && p.out > 0))
      return InvalidModel(Cat("cannot resize an extent of ", p.in, " to ", p.out));
  return plans;
}

Status CheckModes(const OpCall& call) {
  struct Choice {
    std::string_view attr;
    std::vector<std::string_view> values;
  };
  const Choice choices[] = {
      {"mode", {"nearest", "linear", "cubic"}},
      {"nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}},
      {"keep_aspect_ratio_policy", {"stretch", "not_larger", "not_smaller"}},
      {"coordinate_transformation_mode",
       {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
        "tf_crop_and_resize"}}};
  for (const Choice& c : choices)
    if (std::find(c.values.begin(), c.values.end(), call.Str(c.attr)) == c.values.end())
      return InvalidModel(Cat(c.attr, " cannot be '", call.Str(c.attr), "'"));
  return {};
}

/// floor(d * scale) where that is exact for every d. Pre: a checked scale.
Dim Scaled(const Dim& d, double scale) {
  if (d.is_unknown()) return {};
  if (scale == std::floor(scale) && scale < 1e9) return d * Dim(static_cast<int64_t>(scale));
  const double inverse = 1 / scale;
  return inverse == std::floor(inverse) && inverse < 1e9 ? d.FloorDiv(static_cast<int64_t>(inverse))
                                                         : Dim();
}

Status InferResize(OpCall& call) {
  INFER_TRY(CheckModes(call));
  const Shape& s = call.shape(0);
  if (!s.has_rank()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  INFER_ASSIGN(const auto axes, ResizeAxes(call, s.rank()));
  const bool crop = CropsRegion(call);
  const Tensor* scales = call.constant(2);
  const bool stretch = call.Str("keep_aspect_ratio_policy") == "stretch";
  const auto sizes = call.has_input(3) ? call.elements(3) : std::nullopt;
  std::vector<Dim> dims = s.dims();
  const bool fixed =
      (Given(scales) && (!crop || Given(call.constant(1)))) || Given(call.constant(3));
  if (s.is_static() && fixed) {
    INFER_ASSIGN(const auto plans,
                 PlanAxes(call, s.static_dims(), call.constant(1), scales, call.constant(3)));
    for (const AxisPlan& p : plans) dims[static_cast<size_t>(p.axis)] = p.out;
  } else {
    const bool by_scale =
        Given(scales) && scales->num_elements() == static_cast<int64_t>(axes.size());
    const bool by_size = sizes && sizes->size() == axes.size() && stretch && !by_scale;
    for (size_t i = 0; i < axes.size(); ++i) {
      Dim& d = dims[static_cast<size_t>(axes[i])];
      const double scale = by_scale ? scales->At(static_cast<int64_t>(i)) : 1;
      INFER_TRY(CheckScale(scale));
      if (by_size)
        d = (*sizes)[i];
      else
        d = by_scale && !crop ? Scaled(d, scale) : Dim();
    }
  }
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  return {};
}

/// Where output index x lies on the input's axis. In float, as scales are.
float Coordinate(std::string_view mode, const AxisPlan& p, int64_t index) {
  const auto x = static_cast<float>(index), in = static_cast<float>(p.in);
  const auto out = static_cast<float>(p.out);
  if (mode == "asymmetric") return x / p.scale;
  if (mode == "align_corners") return p.length == 1 ? 0 : x * (in - 1) / (p.length - 1);
  if (mode == "pytorch_half_pixel") return p.out > 1 ? (x + 0.5f) / p.scale - 0.5f : 0;
  if (mode == "tf_crop_and_resize")
    return p.out > 1 ? p.start * (in - 1) + x * (p.end - p.start) * (in - 1) / (out - 1)
                     : 0.5f * (p.start + p.end) * (in - 1);
  const float half_pixel = (x + 0.5f) / p.scale - 0.5f;
  if (mode == "half_pixel") return half_pixel;
  const float adjustment = out / (p.scale * in);  // half_pixel_symmetric
  return in / 2 * (1 - adjustment) + half_pixel;
}

int64_t Nearest(std::string_view mode, float x) {
  const float low = std::floor(x);
  const bool half = x - low == 0.5f;
  if (mode == "floor") return static_cast<int64_t>(low);
  if (mode == "ceil") return static_cast<int64_t>(std::ceil(x));
  if (half) return static_cast<int64_t>(mode == "round_prefer_floor" ? low : low + 1);
  return static_cast<int64_t>(std::floor(x + 0.5f));
}

double Kernel(bool cubic, double a, double x) {
  x = std::abs(x);
  if (!cubic) return std::max(0.0, 1 - x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

std::vector<ResizeTaps> TapsOf(const OpCall& call, const AxisPlan& p) {
  const std::string& transform = call.Str("coordinate_transformation_mode");
  const bool nearest = call.Str("mode") == "nearest", cubic = call.Str("mode") == "cubic";
  const bool exclude = call.Int("exclude_outside") != 0;
  // Antialiasing widens the kernel when the axis shrinks.
  const double squeeze = call.Int("antialias") != 0 ? std::min(1.0f, p.scale) : 1.0;
  const auto reach = static_cast<int64_t>(std::ceil((cubic ? 2 : 1) / squeeze));
  std::vector<ResizeTaps> all(static_cast<size_t>(p.out));
  for (int64_t i = 0; i < p.out; ++i) {
    ResizeTaps& t = all[static_cast<size_t>(i)];
    const float x = Coordinate(transform, p, i);
    t.outside = CropsRegion(call) && (x < 0 || x > static_cast<float>(p.in - 1));
    const float bounded = std::clamp(x, -1e9f, 1e15f);
    if (nearest) {
      const int64_t at = Nearest(call.Str("nearest_mode"), bounded);
      t.taps.emplace_back(std::clamp<int64_t>(at, 0, p.in - 1), 1.0);
      continue;
    }
    const auto base = static_cast<int64_t>(std::floor(bounded));
    double sum = 0;
    for (int64_t k = base - reach + 1; k <= base + reach; ++k) {
      const double w = Kernel(cubic, call.Float("cubic_coeff_a"),
                              (static_cast<double>(k) - static_cast<double>(bounded)) * squeeze);
      if (w == 0 || (exclude && (k < 0 || k >= p.in))) continue;
      t.taps.emplace_back(std::clamp<int64_t>(k, 0, p.in - 1), w);
      sum += w;
    }
    // Without stretching or exclusion the weights sum to one by construction.
    if (squeeze < 1 || exclude)
      for (auto& [at, w] : t.taps) w /= sum;
  }
  return all;
}

/// Applies the taps along one axis of x (extents `dims`).
std::vector<double> Interpolate(const std::vector<double>& x, const Dims& dims, int axis,
                                const std::vector<ResizeTaps>& taps) {
  const int64_t outer = Product(dims, 0, axis);
  const int64_t inner = Product(dims, axis + 1, static_cast<int>(dims.size()));
  const int64_t in = dims[static_cast<size_t>(axis)], out = static_cast<int64_t>(taps.size());
  std::vector<double> y(static_cast<size_t>(outer * out * inner), 0.0);
  ParallelFor(outer * out, std::max<int64_t>(1, 4096 / std::max<int64_t>(inner, 1)),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  double* to = y.data() + i * inner;
                  for (const auto& [at, w] : taps[static_cast<size_t>(i % out)].taps) {
                    const double* from = x.data() + (i / out * in + at) * inner;
                    for (int64_t k = 0; k < inner; ++k) to[k] += w * from[k];
                  }
                }
              });
  return y;
}

/// extrapolation_value wherever an index of any axis is outside.
void Extrapolate(const OpCall& call, const std::vector<std::vector<ResizeTaps>>& taps,
                 const std::vector<AxisPlan>& plans, Tensor& y) {
  for (size_t k = 0; k < plans.size(); ++k) {
    const int64_t inner = Product(y.dims(), plans[k].axis + 1, y.rank());
    for (int64_t i = 0; i < y.num_elements(); ++i)
      if (taps[k][static_cast<size_t>(i / inner % plans[k].out)].outside)
        y.Set(i, static_cast<double>(call.Float("extrapolation_value")));
  }
}

/// Nearest moves elements of any type.
Tensor MoveNearest(Tensor x, const std::vector<AxisPlan>& plans,
                   const std::vector<std::vector<ResizeTaps>>& taps) {
  for (size_t k = 0; k < plans.size(); ++k) {
    const AxisPlan& p = plans[k];
    Dims dims = x.dims();
    dims[static_cast<size_t>(p.axis)] = p.out;
    const int64_t inner = Product(dims, p.axis + 1, x.rank());
    Tensor y(x.dtype(), std::move(dims));
    if (y.num_elements() > 0)
      MoveRuns(x, y, Product(x.dims(), 0, p.axis) * p.out, inner, [&](int64_t i) {
        return (i / p.out * p.in + taps[k][static_cast<size_t>(i % p.out)].taps[0].first) * inner;
      });
    x = std::move(y);
  }
  return x;
}

bool IsResized(const AxisPlan& p) {
  return p.in != p.out || p.scale != 1 || p.start != 0 || p.end != 1;
}

Status RunResize(OpRun& run) {
  INFER_TRY(CheckModes(run.call()));
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const auto plans, PlanAxes(run.call(), x.dims(), run.in_or_null(1),
                                          run.in_or_null(2), run.in_or_null(3)));
  Dims dims = x.dims();
  for (const AxisPlan& p : plans) dims[static_cast<size_t>(p.axis)] = p.out;
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, x.dtype(), dims));
  if (y->num_elements() == 0) return {};
  std::vector<AxisPlan> active;
  std::vector<std::vector<ResizeTaps>> taps;
  for (const AxisPlan& p : plans) {
    if (!IsResized(p)) continue;
    active.push_back(p);
    taps.push_back(TapsOf(run.call(), p));
  }
  const bool nearest = run.Str("mode") == "nearest";
  if (nearest) {
    *y = MoveNearest(active.empty() ? x.Clone() : x, active, taps);
  } else {
    if (!DispatchReal(x.dtype(), [](auto) {}))
      return Unsupported(Cat("no interpolation of ", Name(x.dtype())));
    std::vector<double> values(static_cast<size_t>(x.num_elements()));
    for (int64_t i = 0; i < x.num_elements(); ++i) values[static_cast<size_t>(i)] = x.At(i);
    Dims now = x.dims();
    for (size_t k = 0; k < active.size(); ++k) {
      values = Interpolate(values, now, active[k].axis, taps[k]);
      now[static_cast<size_t>(active[k].axis)] = active[k].out;
    }
    for (int64_t i = 0; i < y->num_elements(); ++i) y->Set(i, values[static_cast<size_t>(i)]);
  }
  if (CropsRegion(run.call())) {
    if (!DispatchReal(x.dtype(), [](auto) {}))
      return Unsupported(Cat("no extrapolation of ", Name(x.dtype())));
    Extrapolate(run.call(), taps, active, *y);
  }
  return {};
}

/// About 2 * taps FLOPs per element and axis; nearest only moves.
Cost ResizeCost(const OpCall& call) {
  Cost c = TrafficOf(call);
  const std::string& mode = call.Str("mode");
  c.flops = StaticElements(call.out(0).shape) * (mode == "nearest" ? 0 : mode == "linear" ? 8 : 32);
  return c;
}

/// Axes that are left as they are.
void ResizeAxes(const OpCall& call, AxisLinks& links) {
  const Shape& s = call.shape(0);
  if (!s.has_rank() || CropsRegion(call) || call.Str("keep_aspect_ratio_policy") != "stretch")
    return;
  const Tensor* scales = call.has_input(2) ? call.constant(2) : nullptr;
  std::vector<int64_t> given(static_cast<size_t>(s.rank()));
  std::iota(given.begin(), given.end(), 0);
  if (call.HasAttr("axes")) given = call.Ints("axes");
  const auto at = NormalizeAxes(given, s.rank());
  if (!at.ok()) return;
  LinkAllBut(call, *at, links);
  for (size_t i = 0; i < at->size(); ++i) {
    const bool by_scale = scales && static_cast<int64_t>(i) < scales->num_elements() &&
                          scales->At(static_cast<int64_t>(i)) == 1;
    if (by_scale || call.has_input(3)) LinkSame(call, 0, (*at)[i], 0, (*at)[i], links);
  }
}

}  // namespace

Result<std::vector<ResizedAxis>> ResizedAxes(const OpCall& call, const Dims& dims,
                                             const Tensor* roi, const Tensor* scales,
                                             const Tensor* sizes) {
  INFER_TRY(CheckModes(call));
  INFER_ASSIGN(const auto plans, PlanAxes(call, dims, roi, scales, sizes));
  std::vector<ResizedAxis> axes;
  for (const AxisPlan& p : plans)
    if (IsResized(p)) axes.push_back({p.axis, p.in, p.out, TapsOf(call, p)});
  return axes;
}

std::span<const OpDef> ResizeOps() {
  static const OpDef ops[] = {
      {
          .name = "Resize",
          .doc = "Resamples along axes: nearest, linear or cubic.",
          .traits = Trait::kSampling | Trait::kEnlarging,
          .axes = ResizeAxes,
          .since = 13,
          .versions = {10, 11, 13, 18, 19},
          .inputs = {{"X", "T1"},
                     {"roi", "T2", Arity::kOptional},
                     {"scales", "f32", Arity::kOptional},
                     {"sizes", "i64", Arity::kOptional}},
          .outputs = {{"Y", "T1"}},
          .attrs = {{"antialias", AttrKind::kInt, int64_t{0}, false, 18},
                    {"axes", AttrKind::kInts, {}, false, 18},
                    {"coordinate_transformation_mode", AttrKind::kString,
                     std::string("half_pixel")},
                    {"cubic_coeff_a", AttrKind::kFloat, -0.75f},
                    {"exclude_outside", AttrKind::kInt, int64_t{0}},
                    {"extrapolation_value", AttrKind::kFloat, 0.0f},
                    {"keep_aspect_ratio_policy", AttrKind::kString, std::string("stretch"), false,
                     18},
                    {"mode", AttrKind::kString, std::string("nearest")},
                    {"nearest_mode", AttrKind::kString, std::string("round_prefer_floor")}},
          .constraints = {{"T1", kMovable}, {"T2", kFloats}},
          .infer = InferResize,
          .reference = RunResize,
          .cost = ResizeCost,
          .lift = LiftResize,
          .lower = LowerResize,
          .example = R"(graph g(x: f32[1,2,3,4]) -> (y) {
            s = const f32[4] {1, 1, 2, 1.5} y = Resize(x, _, s) {mode="linear"} })",
      },
      {
          .name = "Upsample",
          .doc = "The older form of Resize.",
          .traits = Trait::kSampling,
          .since = 1,
          .versions = {1, 7, 9, 10},
          .inputs = {{"X", "T"}, {"scales", "f32", Arity::kOptional}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"mode", AttrKind::kString, std::string("nearest")},
                    {"scales", AttrKind::kFloats},
                    {"height_scale", AttrKind::kFloat},
                    {"width_scale", AttrKind::kFloat}},
          .constraints = {{"T", kClassicTypes}},
          .lift = LiftUpsample,
      },
  };
  return ops;
}

}  // namespace infer
