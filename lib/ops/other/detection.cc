/// NonMaxSuppression, RoiAlign, MaxRoiPool: the tails of detectors.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lib/ops/move/move.h"
#include "lib/ops/op_def.h"
#include "lib/ops/other/regions.h"

namespace infer {
namespace {

Status InferNms(OpCall& call) {
  INFER_TRY(CheckRank(call, 0, 3, 3));
  INFER_TRY(CheckRank(call, 1, 3, 3));
  call.SetOut(0, DType::kI64, Shape(std::vector<Dim>{Dim(), 3}));
  return {};
}

struct Box {
  float y1, x1, y2, x2, area;
  Box(float top, float left, float bottom, float right)
      : y1(top), x1(left), y2(bottom), x2(right), area((bottom - top) * (right - left)) {}
};

/// Corners in any order, or centre and size.
Box BoxOf(const float* p, bool center) {
  if (center) return {p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
  return {std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]), std::max(p[1], p[3])};
}

/// Selected boxes, coordinate by coordinate, so that one meets many at once.
class KeptBoxes {
 public:
  int64_t size() const { return size_; }
  void Clear() {
    size_ = 0;
    for (std::vector<float>& v : values_) v.clear();
  }
  void Add(const Box& b) {
    const float all[] = {b.y1, b.x1, b.y2, b.x2, b.area};
    // Room that holds boxes of no area, which nothing overlaps.
    if (size_ % kTogether == 0)
      for (std::vector<float>& v : values_) v.resize(v.size() + kTogether);
    for (size_t k = 0; k < 5; ++k) values_[k][static_cast<size_t>(size_)] = all[k];
    ++size_;
  }
  /// Whether one covers so much of it.
  bool Overlap(const Box& b, float threshold) const {
    for (size_t i = 0; i < static_cast<size_t>(size_); i += kTogether) {
      int32_t any = 0;
      for (size_t j = i; j < i + kTogether; ++j) {
        const float height = std::min(values_[2][j], b.y2) - std::max(values_[0][j], b.y1);
        const float width = std::min(values_[3][j], b.x2) - std::max(values_[1][j], b.x1);
        const float both = height * width, either = b.area + values_[4][j] - both;
        any |= ((height > 0) & (width > 0) & (either > 0) & (both / either > threshold)) ? 1 : 0;
      }
      if (any != 0) return true;
    }
    return false;
  }

 private:
  static constexpr size_t kTogether = 8;
  std::vector<float> values_[5];
  int64_t size_ = 0;
};

/// A box that may be selected. The heap has the best on top: the highest score, then the first.
struct Candidate {
  float score;
  int64_t box;
  bool operator<(const Candidate& o) const {
    return score < o.score || (!(o.score < score) && box > o.box);
  }
};

Status RunNms(OpRun& run) {
  const Tensor &boxes = run.in(0), &scores = run.in(1);
  if (boxes.rank() != 3 || scores.rank() != 3 || boxes.dim(2) != 4 ||
      boxes.dim(0) != scores.dim(0) || boxes.dim(1) != scores.dim(2))
    return InvalidModel(
        Cat("boxes ", ToString(boxes.dims()), " do not fit scores ", ToString(scores.dims())));
  const auto scalar = [&](size_t i) { return run.has(i) && run.in(i).num_elements() > 0; };
  const int64_t most = scalar(2) ? run.in(2).IntAt(0) : 0;
  const auto iou = static_cast<float>(scalar(3) ? run.in(3).At(0) : 0);
  const bool center = run.Int("center_point_box") != 0;
  const int64_t n = boxes.dim(1), classes = scores.dim(1);
  const float* box = boxes.data<float>().data();
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const bool bounded = scalar(4);
  const float least = bounded ? static_cast<float>(run.in(4).At(0)) : 0;
  std::vector<int64_t> selected;
  std::vector<Candidate> heap;
  KeptBoxes kept;
  for (int64_t line = 0; line < scores.dim(0) * classes; ++line) {
    const float* score = scores.data<float>().data() + line * n;
    heap.clear();
    for (int64_t i = 0; i < n; ++i)
      if (!bounded || score[i] > least)
        heap.push_back({score[i] == score[i] ? score[i] : kLowest, i});  // NaN is the last
    std::make_heap(heap.begin(), heap.end());
    kept.Clear();
    while (!heap.empty() && kept.size() < most) {
      std::pop_heap(heap.begin(), heap.end());
      const int64_t i = heap.back().box;
      heap.pop_back();
      const Box b = BoxOf(box + (line / classes * n + i) * 4, center);
      if (kept.Overlap(b, iou)) continue;
      kept.Add(b);
      selected.insert(selected.end(), {line / classes, line % classes, i});
    }
  }
  const auto count = static_cast<int64_t>(selected.size()) / 3;
  run.Set(0, Tensor::Of<int64_t>({count, 3}, std::span<const int64_t>(selected)));
  return {};
}

Status InferRoiAlign(OpCall& call) {
  INFER_TRY(CheckRank(call, 0, 4, 4));
  INFER_TRY(CheckRank(call, 1, 2, 2));
  const Shape &x = call.shape(0), &rois = call.shape(1), &batches = call.shape(2);
  Dim n = rois.has_rank() ? rois[0] : Dim();
  if (batches.has_rank() && batches.rank() == 1) {
    INFER_ASSIGN(n, Meet(n, batches[0]));
  }
  call.SetOut(0, call.dtype(0),
              Shape(std::vector<Dim>{n, x.has_rank() ? x[1] : Dim(), call.Int("output_height"),
                                     call.Int("output_width")}));
  return {};
}

/// The mean of the interpolated samples.
template <typename T>
double MeanOfBin(const T* plane, std::span<const Bilinear> samples) {
  double sum = 0;
  for (const Bilinear& b : samples)
    for (int k = 0; k < 4; ++k) sum += b.weight[k] * static_cast<double>(plane[b.at[k]]);
  return sum / static_cast<double>(std::max<size_t>(samples.size(), 1));
}

/// The largest weighted pixel of all samples, as the operator's definition by its backend tests has
/// it.
template <typename T>
double LargestOfBin(const T* plane, std::span<const Bilinear> samples) {
  double best = samples.empty() ? 0 : -std::numeric_limits<double>::infinity();
  for (const Bilinear& b : samples)
    for (int k = 0; k < 4; ++k)
      best = std::max(best, b.weight[k] * static_cast<double>(plane[b.at[k]]));
  return best;
}

/// Mask R-CNN, https://arxiv.org/abs/1703.06870.
Status RunRoiAlign(OpRun& run) {
  const Tensor &x = run.in(0), &rois = run.in(1), &batches = run.in(2);
  INFER_ASSIGN(const RoiAlignForm form,
               RoiAlignForm::Of(run.call(), x.dims(), rois.dims(), batches.num_elements()));
  const int64_t channels = form.channels, height = x.dim(2), width = x.dim(3);
  INFER_ASSIGN(Tensor * y,
               MakeOut(run, 0, x.dtype(), {rois.dim(0), channels, form.out_h, form.out_w}));
  std::vector<RoiBins> regions;
  for (int64_t n = 0; n < rois.dim(0); ++n) {
    double corners[4];
    for (int k = 0; k < 4; ++k) corners[k] = rois.At(n * 4 + k);
    INFER_ASSIGN(const RoiBins r, form.BinsOf(corners, batches.IntAt(n)));
    regions.push_back(r);
  }
  // A part has some channels of a region: their planes stay in the cache, and the samples of some
  // of its bins are found once for all of them.
  constexpr int64_t kChannels = 32, kSamples = 4096;
  const int64_t bins = form.bins(), blocks = (channels + kChannels - 1) / kChannels;
  const auto pool = [&]<typename T>(T) {
    const T* const from = x.data<T>().data();
    const auto pool_bin = [&](const RoiBins& r, int64_t c, std::span<const Bilinear> samples) {
      const T* const plane = from + (r.batch * channels + c) * height * width;
      return form.max ? LargestOfBin(plane, samples) : MeanOfBin(plane, samples);
    };
    ParallelFor(std::ssize(regions) * blocks, 1, [&](int64_t begin, int64_t end) {
      std::vector<Bilinear> taps;
      for (int64_t part = begin; part < end; ++part) {
        const int64_t n = part / blocks, first = part % blocks * kChannels;
        const RoiBins& r = regions[static_cast<size_t>(n)];
        const int64_t group = std::max<int64_t>(1, kSamples / std::max<int64_t>(r.samples(), 1));
        for (int64_t bin = 0; bin < bins; bin += group) {
          const int64_t last = std::min(bin + group, bins);
          taps.clear();
          for (int64_t i = bin; i < last; ++i)
            for (int64_t k = 0; k < r.samples(); ++k)
              taps.push_back(r.Sample(i / form.out_w, i % form.out_w, k, height, width));
          const auto each = static_cast<size_t>(r.samples());
          for (int64_t c = first; c < std::min(first + kChannels, channels); ++c)
            for (int64_t i = bin; i < last; ++i)
              y->Set((n * channels + c) * bins + i,
                     pool_bin(r, c, {taps.data() + static_cast<size_t>(i - bin) * each, each}));
        }
      }
    });
  };
  if (!DispatchReal(x.dtype(), pool)) return Unsupported(Cat("no mean of ", Name(x.dtype())));
  return {};
}

/// Before opset 16 coordinates were not shifted by half a pixel.
Status LiftRoiAlign(NodeSpec node, int opset, LiftContext& out) {
  if (opset < 16) node.attrs["coordinate_transformation_mode"] = std::string("output_half_pixel");
  out.Emit(std::move(node));
  return {};
}

Result<NodeSpec> LowerRoiAlign(NodeSpec node, int opset, LiftContext&) {
  if (opset >= 16) return node;
  if (StrAttrOr(node, "coordinate_transformation_mode", "half_pixel") != "output_half_pixel")
    return Unsupported(Cat("RoiAlign '", node.name, "' by half_pixel needs opset 16 or newer"));
  DropAttr(node, "coordinate_transformation_mode");
  return node;
}

Status InferMaxRoiPool(OpCall& call) {
  INFER_TRY(CheckRank(call, 0, 4, 4));
  INFER_TRY(CheckRank(call, 1, 2, 2));
  const auto& pooled = call.Ints("pooled_shape");
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1)
    return InvalidModel("pooled_shape is not [height, width]");
  const Shape &x = call.shape(0), &rois = call.shape(1);
  call.SetOut(0, call.dtype(0),
              Shape(std::vector<Dim>{rois.has_rank() ? rois[0] : Dim(), x.has_rank() ? x[1] : Dim(),
                                     pooled[0], pooled[1]}));
  return {};
}

/// Fast R-CNN, https://arxiv.org/abs/1504.08083: integer bins, the largest element of each.
Status RunMaxRoiPool(OpRun& run) {
  const Tensor &x = run.in(0), &rois = run.in(1);
  if (x.rank() != 4 || rois.rank() != 2 || rois.dim(1) != 5)
    return InvalidModel(Cat("rois ", ToString(rois.dims()), " do not fit ", ToString(x.dims())));
  const auto& pooled = run.Ints("pooled_shape");
  const double scale = run.Float("spatial_scale");
  const int64_t channels = x.dim(1), extent[2] = {x.dim(2), x.dim(3)};
  INFER_ASSIGN(Tensor * y,
               MakeOut(run, 0, x.dtype(), {rois.dim(0), channels, pooled[0], pooled[1]}));
  for (int64_t n = 0; n < rois.dim(0); ++n) {
    const int64_t batch = rois.IntAt(n * 5);
    if (batch < 0 || batch >= x.dim(0)) return InvalidModel(Cat("no batch entry ", batch));
    double start[2], bin[2];
    for (int k = 0; k < 2; ++k) {  // rois are [batch, x1, y1, x2, y2]
      start[k] = std::round(rois.At(n * 5 + 2 - k) * scale);
      const double end = std::round(rois.At(n * 5 + 4 - k) * scale);
      if (!(std::abs(start[k]) < 1e9 && std::abs(end) < 1e9))
        return InvalidModel("a roi is not finite");
      bin[k] =
          std::max(end - start[k] + 1, 1.0) / static_cast<double>(pooled[static_cast<size_t>(k)]);
    }
    const auto edge = [&](int k, double index, bool up) {
      const double at = index * bin[k];
      return std::clamp<int64_t>(
          static_cast<int64_t>((up ? std::ceil(at) : std::floor(at)) + start[k]), 0, extent[k]);
    };
    for (int64_t i = 0; i < channels * pooled[0] * pooled[1]; ++i) {
      const auto row = static_cast<double>(i / pooled[1] % pooled[0]);
      const auto column = static_cast<double>(i % pooled[1]);
      const int64_t plane = (batch * channels + i / pooled[1] / pooled[0]) * extent[0] * extent[1];
      const int64_t h1 = edge(0, row + 1, true), w1 = edge(1, column + 1, true);
      double best = -std::numeric_limits<double>::infinity();
      for (int64_t h = edge(0, row, false); h < h1; ++h)
        for (int64_t w = edge(1, column, false); w < w1; ++w)
          best = std::max(best, x.At(plane + h * extent[1] + w));
      y->Set(n * channels * pooled[0] * pooled[1] + i, std::isinf(best) && best < 0 ? 0 : best);
    }
  }
  return {};
}

}  // namespace

std::span<const OpDef> DetectionOps() {
  static const OpDef ops[] = {
      {
          .name = "NonMaxSuppression",
          .doc = "Boxes by descending score that do not overlap a better one, per class.",
          .traits = Trait::kSelection,
          .since = 10,
          .versions = {10, 11},
          .inputs = {{"boxes", "f32"},
                     {"scores", "f32"},
                     {"max_output_boxes_per_class", "i64", Arity::kOptional},
                     {"iou_threshold", "f32", Arity::kOptional},
                     {"score_threshold", "f32", Arity::kOptional}},
          .outputs = {{"selected_indices", "i64"}},
          .attrs = {{"center_point_box", AttrKind::kInt, int64_t{0}}},
          .tolerance = 0,
          .infer = InferNms,
          .reference = RunNms,
          .example = R"(graph g(b: f32[1,6,4], s: f32[1,2,6]) -> (y) {
            m = const i64[1] {3} t = const f32[1] {0.5} y = NonMaxSuppression(b, s, m, t) })",
      },
      {
          .name = "RoiAlign",
          .doc = "Pools each region of interest into bins of interpolated samples.",
          .traits = Trait::kSampling,
          .since = 16,
          .versions = {10, 16, 22},
          .inputs = {{"X", "T1"}, {"rois", "T1"}, {"batch_indices", "i64"}},
          .outputs = {{"Y", "T1"}},
          .attrs = {{"coordinate_transformation_mode", AttrKind::kString, std::string("half_pixel"),
                     false, 16},
                    {"mode", AttrKind::kString, std::string("avg")},
                    {"output_height", AttrKind::kInt, int64_t{1}},
                    {"output_width", AttrKind::kInt, int64_t{1}},
                    {"sampling_ratio", AttrKind::kInt, int64_t{0}},
                    {"spatial_scale", AttrKind::kFloat, 1.0f}},
          .constraints = {{"T1", kFloatsBF16}},
          .infer = InferRoiAlign,
          .reference = RunRoiAlign,
          .cost = CostPerOutput<32>,
          .lift = LiftRoiAlign,
          .lower = LowerRoiAlign,
          .example = R"(graph g(x: f32[1,2,6,6]) -> (y) {
            r = const f32[2,4] {0, 0, 4, 4, 1, 2, 5, 3} b = const i64[2] {0, 0}
            y = RoiAlign(x, r, b) {output_height=2, output_width=2, sampling_ratio=2} })",
      },
      {
          .name = "MaxRoiPool",
          .doc = "The largest element in each bin of each region of interest.",
          .traits = Trait::kSampling,
          .since = 1,
          .versions = {1, 22},
          .inputs = {{"X", "T"}, {"rois", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"pooled_shape", AttrKind::kInts, {}, true},
                    {"spatial_scale", AttrKind::kFloat, 1.0f}},
          .constraints = {{"T", kFloatsBF16}},
          .infer = InferMaxRoiPool,
          .reference = RunMaxRoiPool,
          .example = R"(graph g(x: f32[1,2,6,6]) -> (y) {
            r = const f32[1,5] {0, 1, 1, 4, 5} y = MaxRoiPool(x, r) {pooled_shape=[2, 3]} })",
      },
  };
  return ops;
}

}  // namespace infer
