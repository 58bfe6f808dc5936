/// Signal processing: window functions and MelWeightMatrix.
#include <cmath>
#include <numbers>

#include "lib/ops/decompositions.h"
#include "lib/ops/other/signal.h"
#include "lib/support/stop.h"

namespace infer {
namespace {

Result<DType> OutputType(const OpCall& call) {
  const int64_t t = call.Int("output_datatype");
  constexpr TypeSet kAllowed = kFloatsBF16 | kInts;
  if (t < 0 || t >= kNumDTypes || !kAllowed.Has(static_cast<DType>(t)))
    return InvalidModel(Cat("output_datatype ", t, " is no numeric type"));
  return static_cast<DType>(t);
}

Status InferWindow(OpCall& call) {
  INFER_ASSIGN(const DType t, OutputType(call));
  const Dim size = ScalarInput(call, 0);
  if (size.is_static() && size.value() < 0) return InvalidModel(Cat("size is ", size.ToString()));
  call.SetOut(0, t, Shape({size}));
  return {};
}

/// a0 + a1 cos(2 pi i / n) + a2 cos(4 pi i / n)
struct CosineSum {
  double a0, a1, a2;
};

/// A window may have 2^31 samples: the stop token and the deadline are looked at so often.
constexpr int64_t kStopGrain = 1 << 16;

Status RunWindow(OpRun& run, const CosineSum& w) {
  INFER_ASSIGN(const DType t, OutputType(run.call()));
  INFER_TRY(AreNumbers(run, {0}));
  const int64_t size = run.in(0).IntAt(0);
  if (size < 0) return InvalidModel(Cat("size is ", size));
  Tensor& y = run.Out(0, t, {size});
  const auto n = static_cast<double>(run.Int("periodic") != 0 ? size : size - 1);
  for (int64_t i = 0; i < size; ++i) {
    if (i % kStopGrain == 0) INFER_TRY(CheckStop());
    const double angle =
        n == 0 ? std::numbers::pi : 2 * std::numbers::pi * static_cast<double>(i) / n;
    y.Set(i, w.a0 + w.a1 * std::cos(angle) + w.a2 * std::cos(2 * angle));
  }
  return {};
}

Status RunHann(OpRun& run) { return RunWindow(run, {0.5, -0.5, 0}); }
Status RunHamming(OpRun& run) { return RunWindow(run, {25.0 / 46, -21.0 / 46, 0}); }
Status RunBlackman(OpRun& run) { return RunWindow(run, {0.42, -0.5, 0.08}); }

Status InferMel(OpCall& call) {
  INFER_ASSIGN(const DType t, OutputType(call));
  const Dim bins = ScalarInput(call, 0), length = ScalarInput(call, 1);
  if ((bins.is_static() && bins.value() < 0) || (length.is_static() && length.value() < 0))
    return InvalidModel("num_mel_bins and dft_length must not be negative");
  call.SetOut(0, t, Shape({OneSided(length), bins}));
  return {};
}

/// Triangles between neighbouring mel points, in DFT bins, with peak 1; mel(f) = 2595 log10(1 +
/// f / 700).
Status RunMel(OpRun& run) {
  INFER_ASSIGN(const DType t, OutputType(run.call()));
  INFER_TRY(AreNumbers(run, {0, 1, 2, 3, 4}));
  const int64_t bins = run.in(0).IntAt(0), length = run.in(1).IntAt(0);
  const int64_t sample_rate = run.in(2).IntAt(0), rows = length / 2 + 1;
  if (bins < 0 || length < 0 || sample_rate < 1)
    return InvalidModel("num_mel_bins, dft_length or sample_rate is negative");
  auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(run.in(3).At(0)), high = mel(run.in(4).At(0));
  const double step = (high - low) / static_cast<double>(bins + 2);
  std::vector<int64_t> points;
  for (int64_t i = 0; i < bins + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (low + step * static_cast<double>(i)) / 2595) - 1);
    const double point =
        std::floor((static_cast<double>(length) + 1) * hertz / static_cast<double>(sample_rate));
    // Below -700 Hz there is no mel: not a number.
    if (!(point >= 0 && point <= static_cast<double>(rows)))
      return InvalidModel(Cat("frequency edges reach bin ", FormatDouble(point), " of ", rows));
    points.push_back(static_cast<int64_t>(point));
  }
  Tensor y = Tensor::Zeros(t, {rows, bins});
  for (int64_t i = 0; i < bins; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t left = points[at], center = points[at + 1], right = points[at + 2];
    for (int64_t j = left; j <= center && j < rows; ++j)
      y.Set(j * bins + i, left == center
                              ? 1
                              : static_cast<double>(j - left) / static_cast<double>(center - left));
    for (int64_t j = center; j < right; ++j)
      y.Set(j * bins + i, static_cast<double>(right - j) / static_cast<double>(right - center));
  }
  run.Set(0, std::move(y));
  return {};
}

OpDef MakeWindow(std::string_view name, std::string_view doc, OpDef::ReferenceFn reference,
                 std::string_view example) {
  return {.name = name,
          .doc = doc,
          .traits = Trait::kGenerator,
          .since = 17,
          .versions = {17},
          .inputs = {{"size", "T1"}},
          .outputs = {{"output", "T2"}},
          .attrs = {{"output_datatype", AttrKind::kInt, int64_t{1}},
                    {"periodic", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T1", kIndexTypes}, {"T2", kFloatsBF16 | kInts}},
          .infer = InferWindow,
          .reference = reference,
          .decompose = DecomposeWindow,
          .example = example};
}

}  // namespace

std::span<const OpDef> SignalWindowOps() {
  static const OpDef ops[] = {
      MakeWindow("HannWindow", "0.5 - 0.5 cos(2 pi i / n).", RunHann, R"(graph g() -> (y) {
            n = const i64[] {6}
            y = HannWindow(n) })"),
      MakeWindow("HammingWindow", "25/46 - 21/46 cos(2 pi i / n).", RunHamming,
                 R"(graph g() -> (y) {
            n = const i64[] {6}
            y = HammingWindow(n) {periodic=0} })"),
      MakeWindow("BlackmanWindow", "0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n).",
                 RunBlackman, R"(graph g() -> (y) {
            n = const i64[] {6}
            y = BlackmanWindow(n) })"),
      {
          .name = "MelWeightMatrix",
          .doc = "The matrix of triangles that turns a spectrum into mel bands.",
          .traits = Trait::kGenerator,
          .since = 17,
          .versions = {17},
          .inputs = {{"num_mel_bins", "T1"},
                     {"dft_length", "T1"},
                     {"sample_rate", "T1"},
                     {"lower_edge_hertz", "T2"},
                     {"upper_edge_hertz", "T2"}},
          .outputs = {{"output", "T3"}},
          .attrs = {{"output_datatype", AttrKind::kInt, int64_t{1}}},
          .constraints = {{"T1", kIndexTypes}, {"T2", kFloatsBF16}, {"T3", kFloatsBF16 | kInts}},
          .infer = InferMel,
          .reference = RunMel,
          .example = R"(graph g() -> (y) {
            bins = const i64[] {8}
            length = const i64[] {16}
            rate = const i64[] {8192}
            low = const f32[] {0}
            high = const f32[] {4096}
            y = MelWeightMatrix(bins, length, rate, low, high) })",
      },
  };
  return ops;
}

}  // namespace infer
