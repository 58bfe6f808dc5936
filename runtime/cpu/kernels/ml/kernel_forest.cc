/// TreeEnsemble, TreeEnsembleClassifier and TreeEnsembleRegressor over f32 features.
#include <algorithm>

#include "lib/support/strings.h"
#include "runtime/cpu/kernels/common/kernels.h"
#include "runtime/cpu/kernels/common/step_results.h"
#include "runtime/cpu/kernels/ml/compact_forest.h"
#include "runtime/cpu/launch/launch.h"

namespace infer {
namespace {

/// Parts of the rows, each with memory of its own: what lanes take.
constexpr int64_t kMostForestParts = 16;

struct ForestKernel {
  std::shared_ptr<const ForestModel> model;
  std::shared_ptr<const CompactForest> forest;
};

std::string RefuseForest(const StepCall& call) {
  if (call.step.nodes.size() > 1) return "it has no epilogue";
  const DType t = ElementTypeOf(call.main().input(0));
  if (t != DType::kF32) return Cat("elements of ", Name(t));
  const auto model = CallOf(call.main()).Prepared<ForestModel>();
  if (!model.ok()) return "the model cannot be read";
  if ((*model)->labels.defined() && (*model)->labels.dtype() == DType::kString)
    return "the labels are text";
  const auto compact = CompactForest::Of((*model)->forest);
  return compact.ok() ? "" : compact.status().message();
}

/// The parts that the rows of a launch are cut into.
struct ForestRows {
  int64_t rows = 0, features = 0, targets = 0, parts = 1, grain = 1, part_bytes = 0;
  int scratch = 0;

  /// use(row, scores, voted) for all rows.
  template <typename F>
  void ForEach(const ForestKernel& k, std::byte* const* args, const F& use) const {
    const auto* const x = As<float>(static_cast<const std::byte*>(args[0]));
    const auto n = static_cast<size_t>(targets);
    ForRange(parts, grain, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        std::byte* const own = args[scratch] + p * part_bytes;
        auto* const scores = As<double>(own);
        auto* const voted = As<char>(own + 8 * CompactForest::kRows * targets);
        const int64_t last = rows * (p + 1) / parts;
        for (int64_t row = rows * p / parts; row < last; row += CompactForest::kRows) {
          const int64_t count = std::min(CompactForest::kRows, last - row);
          k.forest->Count(k.model->how, x + row * features, count, features, scores, voted);
          for (int64_t r = 0; r < count; ++r)
            use(row + r, std::span<double>(scores + r * targets, n),
                std::span<const char>(voted + r * targets, n));
        }
      }
    });
  }
};

Result<ForestRows> RowsOfForest(const ForestKernel& k, std::span<const Operand> in,
                                std::span<const Operand> out) {
  ForestRows r;
  r.features = in[0].dims.back();
  if (k.forest->highest_feature() >= r.features) return Unsupported("a feature is not there");
  r.rows = NumElements(in[0].dims) / r.features;
  r.targets = k.model->forest.targets;
  r.parts = std::clamp<int64_t>(r.rows / 8, 1, kMostForestParts);
  // A step down a tree costs about as much as four elements.
  r.grain = std::max<int64_t>(
      1, kElementGrain * r.parts / std::max<int64_t>(1, 4 * r.rows * k.forest->steps()));
  r.part_bytes = (9 * CompactForest::kRows * r.targets + 63) / 64 * 64;
  r.scratch = static_cast<int>(in.size() + out.size());
  return r;
}

template <typename Use>
std::unique_ptr<Kernel> MakeForest(const StepCall& call, Use use) {
  ForestKernel k;
  k.model = *CallOf(call.main()).Prepared<ForestModel>();
  k.forest = std::make_shared<const CompactForest>(*CompactForest::Of(k.model->forest));
  return KernelOf(
      [k, use](std::span<const Operand> in, std::span<const Operand> out) -> Result<Prepared> {
        INFER_ASSIGN(const ForestRows rows, RowsOfForest(k, in, out));
        Prepared p;
        p.name = "own:compact";
        p.scratch_bytes = rows.parts * rows.part_bytes;
        p.weight_bytes = k.forest->bytes();
        p.launch = LaunchOf([k, rows, use](std::byte* const* args) {
          rows.ForEach(k, args,
                       [&](int64_t row, std::span<double> scores, std::span<const char> voted) {
                         use(*k.model, args, row, scores, voted);
                       });
        });
        return p;
      });
}

void StoreScores(std::span<const double> scores, int64_t row, std::byte* to) {
  float* const y = As<float>(to) + row * static_cast<int64_t>(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) y[i] = static_cast<float>(scores[i]);
}

std::unique_ptr<Kernel> MakeRegression(const StepCall& call) {
  return MakeForest(call, [](const ForestModel& model, std::byte* const* args, int64_t row,
                             std::span<double> scores, std::span<const char>) {
    FinishTargets(model, scores);
    StoreScores(scores, row, args[1]);
  });
}

std::unique_ptr<Kernel> MakeClassification(const StepCall& call) {
  const int label = ResultOf(call, 0), score = ResultOf(call, 1);
  return MakeForest(call, [label, score](const ForestModel& model, std::byte* const* args,
                                         int64_t row, std::span<double> scores,
                                         std::span<const char> voted) {
    const int64_t best = DecideClass(model, scores, voted);
    if (label >= 0)
      As<int64_t>(args[1 + label])[row] = model.labels.data<int64_t>()[static_cast<size_t>(best)];
    if (score >= 0) StoreScores(scores, row, args[1 + score]);
  });
}

}  // namespace

KernelList ForestKernels() {
  return {{"TreeEnsemble", "ai.onnx.ml", "own", RefuseForest, MakeRegression},
          {"TreeEnsembleClassifier", "ai.onnx.ml", "own", RefuseForest, MakeClassification},
          {"TreeEnsembleRegressor", "ai.onnx.ml", "own", RefuseForest, MakeRegression}};
}

}  // namespace infer
