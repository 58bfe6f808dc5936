/// GridSample, AffineGrid, Col2Im: sampling at computed positions.
///
/// Sampling is a product of per-axis weights: an output is the sum over all combinations of one
/// tap per axis (grid_sampler.h).
#include <algorithm>
#include <cmath>

#include "lib/ops/declared_rank.h"
#include "lib/ops/decompositions.h"
#include "lib/ops/move/grid_sampler.h"
#include "lib/ops/move/image_columns.h"
#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"

namespace infer {
namespace {

Status InferGridSample(OpCall& call) {
  const Shape &x = call.shape(0), &grid = call.shape(1);
  if (!x.has_rank() && !grid.has_rank()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  if (x.has_rank() && grid.has_rank() && x.rank() != grid.rank())
    return InvalidModel(Cat("X has rank ", x.rank(), ", grid ", grid.rank()));
  const int rank = x.has_rank() ? x.rank() : grid.rank();
  if (rank < 3) return InvalidModel("X has no spatial axis");
  std::vector<Dim> dims(static_cast<size_t>(rank));
  if (x.has_rank()) {
    dims[0] = x[0];
    dims[1] = x[1];
  }
  for (int i = 2; grid.has_rank() && i < rank; ++i) dims[static_cast<size_t>(i)] = grid[i - 1];
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  return {};
}

/// X: [N, C, D1 ... Dr], grid: [N, O1 ... Or, r] with the innermost coordinate first.
Status RunGridSample(OpRun& run) {
  const Tensor &x = run.in(0), &grid = run.in(1);
  INFER_ASSIGN(const GridSampler sampler, GridSampler::Of(run.Str("mode"), run.Str("padding_mode"),
                                                          run.Int("align_corners") != 0));
  const int r = x.rank() - 2;
  if (r < 1 || grid.rank() != x.rank() || grid.dim(-1) != r || grid.dim(0) != x.dim(0))
    return InvalidModel(Cat("grid ", ToString(grid.dims()), " does not fit ", ToString(x.dims())));
  if (!DispatchReal(x.dtype(), [](auto) {}))
    return Unsupported(Cat("no interpolation of ", Name(x.dtype())));
  Dims dims = {x.dim(0), x.dim(1)};
  dims.insert(dims.end(), grid.dims().begin() + 1, grid.dims().end() - 1);
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, x.dtype(), dims));
  if (y->num_elements() == 0) return {};
  const Dims strides = Strides(x.dims());
  const int64_t samples = Product(dims, 2, x.rank()), plane = Product(x.dims(), 2, x.rank());
  if (plane == 0) return InvalidModel("X is empty");
  const int64_t channels = x.dim(1), combinations = std::pow(sampler.points(), r);
  const auto points = static_cast<size_t>(sampler.points()), axes = static_cast<size_t>(r);
  std::vector<GridSampler::Tap> taps(points * axes);
  for (int64_t s = 0; s < x.dim(0) * samples; ++s) {
    for (int k = 0; k < r; ++k)
      sampler.TapsOf(grid.At(s * r + r - 1 - k), x.dim(2 + k),
                     &taps[static_cast<size_t>(k) * points]);
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t base = (s / samples * channels + c) * plane;
      double sum = 0;
      for (int64_t i = 0; i < combinations; ++i) {
        auto rest = static_cast<size_t>(i);
        int64_t at = base;
        double weight = 1;
        for (size_t k = 0; k < axes; ++k, rest /= points) {
          const GridSampler::Tap& t = taps[k * points + rest % points];
          weight = t.at < 0 ? 0 : weight * t.weight;
          at += std::max<int64_t>(t.at, 0) * strides[k + 2];
        }
        if (weight != 0) sum += weight * x.At(at);
      }
      y->Set((s / samples * channels + c) * samples + s % samples, sum);
    }
  }
  return {};
}

/// Opset 16 says bilinear and bicubic.
Status LiftGridSample(NodeSpec node, int opset, LiftContext& out) {
  const std::string mode = StrAttrOr(node, "mode", "bilinear");
  if (opset < 20) {
    if (mode == "bicubic") node.attrs["mode"] = std::string("cubic");
    if (mode == "bilinear") DropAttr(node, "mode");  // linear is the default
  }
  out.Emit(std::move(node));
  return {};
}

Result<NodeSpec> LowerGridSample(NodeSpec node, int opset, LiftContext&) {
  const std::string mode = StrAttrOr(node, "mode", "linear");
  if (opset < 20)
    node.attrs["mode"] = mode == "linear"  ? std::string("bilinear")
                         : mode == "cubic" ? std::string("bicubic")
                                           : mode;
  return node;
}

/// size is [N, C, H, W] or [N, C, D, H, W].
Status InferAffineGrid(OpCall& call) {
  const auto size = call.elements(1);
  const Dim n = LengthOf(call, 1);
  if (n.is_static() && n.value() != 4 && n.value() != 5)
    return InvalidModel("size has neither 4 nor 5 entries");
  if (n.is_static()) {
    const Dim axes(n.value() - 2), batch = size ? (*size)[0] : Dim();
    if (!Meet(call.shape(0), Shape({batch, axes, axes + 1})).ok())
      return InvalidModel(Cat("theta ", call.shape(0).ToString(), " does not fit a size of ",
                              n.value(), " entries"));
  }
  for (const Dim& d : size.value_or(std::vector<Dim>()))
    if (d.is_static() && d.value() < 0) return InvalidModel(Cat("size has ", d.value()));
  if (!size) {
    INFER_ASSIGN(Shape out, UnknownOfDeclaredRank(n));
    call.SetOut(0, call.dtype(0), std::move(out));
    return {};
  }
  std::vector<Dim> dims = {(*size)[0]};
  dims.insert(dims.end(), size->begin() + 2, size->end());
  dims.push_back(static_cast<int64_t>(size->size()) - 2);
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  return {};
}

/// grid = theta * [x, y, (z), 1], positions evenly spaced in [-1, 1].
Status RunAffineGrid(OpRun& run) {
  const Tensor& theta = run.in(0);
  const Dims size = run.in(1).ToInts();
  const auto r = static_cast<int>(size.size()) - 2;
  if ((r != 2 && r != 3) || theta.dims() != Dims{size[0], r, r + 1})
    return InvalidModel(Cat("theta ", ToString(theta.dims()), " does not fit ", ToString(size)));
  Dims dims = {size[0]};
  dims.insert(dims.end(), size.begin() + 2, size.end());
  dims.push_back(r);
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, theta.dtype(), dims));
  const bool align = run.Int("align_corners") != 0;
  const int64_t plane = Product(dims, 1, r + 1);
  for (int64_t i = 0; i < y->num_elements() / r; ++i) {
    double position[4] = {0, 0, 0, 0};  // innermost first, then 1
    int64_t rest = i % plane;
    for (int k = 0; k < r; ++k) {
      const int64_t n = dims[static_cast<size_t>(r - k)];
      const auto at = static_cast<double>(rest % n), extent = static_cast<double>(n);
      rest /= n;
      position[k] = align ? (n > 1 ? 2 * at / (extent - 1) - 1 : 0) : (2 * at + 1) / extent - 1;
    }
    position[r] = 1;
    for (int row = 0; row < r; ++row) {
      double sum = 0;
      for (int k = 0; k <= r; ++k)
        sum += theta.At((i / plane * r + row) * (r + 1) + k) * position[k];
      y->Set(i * r + row, sum);
    }
  }
  return {};
}

Status InferCol2Im(OpCall& call) {
  const auto image = call.elements(1), block = call.elements(2);
  INFER_ASSIGN(Shape out, UnknownOfDeclaredRank(LengthOf(call, 1) + Dim(2)));
  if (!out.has_rank()) {
    call.SetOut(0, call.dtype(0), Shape());
    return {};
  }
  std::vector<Dim> dims = out.dims();
  const Shape& s = call.shape(0);
  if (s.has_rank() && s.rank() != 3) return InvalidModel("the operand is not [N, C*block, L]");
  if (s.has_rank()) dims[0] = s[0];
  if (s.has_rank() && block) dims[1] = s[1].ExactDiv(Shape(*block).num_elements());
  for (size_t i = 0; image && i < image->size(); ++i) dims[i + 2] = (*image)[i];
  call.SetOut(0, call.dtype(0), Shape(std::move(dims)));
  return {};
}

/// Sums every column entry to the pixel that it came from.
Status RunCol2Im(OpRun& run) {
  const Tensor& x = run.in(0);
  INFER_ASSIGN(const ImageColumns c,
               ImageColumns::Of(run.call(), x.dims(), run.in(1).ToInts(), run.in(2).ToInts()));
  if (!DispatchReal(x.dtype(), [](auto) {})) return Unsupported(Cat("no sum of ", Name(x.dtype())));
  Dims dims = {x.dim(0), x.dim(1) / c.entries};
  dims.insert(dims.end(), c.image.begin(), c.image.end());
  INFER_ASSIGN(Tensor * y, MakeOut(run, 0, x.dtype(), dims));
  std::vector<double> sums(static_cast<size_t>(y->num_elements()), 0.0);
  const int64_t pixels = NumElements(c.image), columns = x.dim(2);
  for (int64_t i = 0; i < x.num_elements(); ++i) {
    const int64_t plane = i / columns / c.entries;
    const int64_t at = c.PixelOf(i / columns % c.entries, i % columns);
    if (at >= 0) sums[static_cast<size_t>(plane * pixels + at)] += x.At(i);
  }
  for (int64_t i = 0; i < y->num_elements(); ++i) y->Set(i, sums[static_cast<size_t>(i)]);
  return {};
}

/// Samples and channels of X are apart; positions of the grid are those of the result.
void GridSampleAxes(const OpCall& call, AxisLinks& links) {
  SampleAndChannelAxes(call, links);
  const Shape& grid = call.shape(1);
  LinkSame(call, 1, 0, 0, 0, links);
  for (int i = 1; grid.has_rank() && i + 1 < grid.rank(); ++i)
    LinkSame(call, 1, i, 0, i + 1, links);
}

void AffineGridAxes(const OpCall& call, AxisLinks& links) { LinkSame(call, 0, 0, 0, 0, links); }

}  // namespace

std::span<const OpDef> GridOps() {
  static const OpDef ops[] = {
      {
          .name = "GridSample",
          .doc = "Samples X at the positions of a grid: nearest, linear or cubic.",
          .traits = Trait::kSampling,
          .axes = GridSampleAxes,
          .since = 20,
          .versions = {16, 20, 22},
          .inputs = {{"X", "T1"}, {"grid", "T2"}},
          .outputs = {{"Y", "T1"}},
          .attrs = {{"align_corners", AttrKind::kInt, int64_t{0}},
                    {"mode", AttrKind::kString, std::string("linear")},
                    {"padding_mode", AttrKind::kString, std::string("zeros")}},
          .constraints = {{"T1", kMovable}, {"T2", kFloatsBF16}},
          .infer = InferGridSample,
          .reference = RunGridSample,
          .cost = CostPerOutput<8>,
          .lift = LiftGridSample,
          .lower = LowerGridSample,
          .example = "graph g(x: f32[1,2,3,4], p: f32[1,2,3,2]) -> (y) { y = GridSample(x, p) }",
      },
      {
          .name = "AffineGrid",
          .doc = "The sampling grid of a batch of affine maps.",
          .traits = Trait::kGenerator,
          .axes = AffineGridAxes,
          .since = 20,
          .versions = {20},
          .inputs = {{"theta", "T1"}, {"size", "i64"}},
          .outputs = {{"grid", "T1"}},
          .attrs = {{"align_corners", AttrKind::kInt, int64_t{0}}},
          .constraints = {{"T1", kFloatsBF16}},
          .infer = InferAffineGrid,
          .reference = RunAffineGrid,
          .cost = CostPerOutput<6>,
          .decompose = DecomposeAffineGrid,
          .example = R"(graph g(t: f32[2,2,3]) -> (y) {
            s = const i64[4] {2, 1, 3, 4} y = AffineGrid(t, s) })",
      },
      {
          .name = "Col2Im",
          .doc = "Sums columns of blocks back into an image.",
          .traits = Trait::kPooling,
          .since = 18,
          .versions = {18},
          .inputs = {{"input", "T"}, {"image_shape", "i64"}, {"block_shape", "i64"}},
          .outputs = {{"output", "T"}},
          .attrs = {{"dilations", AttrKind::kInts},
                    {"pads", AttrKind::kInts},
                    {"strides", AttrKind::kInts}},
          .constraints = {{"T", kMovable}},
          .infer = InferCol2Im,
          .reference = RunCol2Im,
          .cost = CostPerInput<1>,
          .example = R"(graph g(x: f32[1,8,6]) -> (y) {
            i = const i64[2] {3, 4} b = const i64[2] {2, 2} y = Col2Im(x, i, b) })",
      },
  };
  return ops;
}

}  // namespace infer
