/// ai.onnx.ml: TreeEnsemble and the two older forms, TreeEnsembleRegressor and -Classifier.
#include <cmath>
#include <set>

#include "lib/ops/axes.h"
#include "lib/ops/ml/ml_forest.h"

namespace infer {
namespace {

/// A row passes about as many nodes of a tree as a balanced one of its size has above a leaf. Each
/// is waited for, and comes in a cache line of its own.
Cost CostForest(const OpCall& call) {
  constexpr double kLine = 64;
  Cost c = TrafficOf(call);
  const auto model = call.Prepared<ForestModel>();
  const Dim features = FeaturesOf(call);
  if (!model.ok() || !features.is_static() || features.value() == 0) return c;
  const auto trees = static_cast<double>((*model)->forest.roots.size());
  const auto nodes = static_cast<double>((*model)->forest.nodes.size());
  const int64_t rows = StaticElements(call.shape(0)) / features.value();
  if (trees == 0) return c;
  const double lines = static_cast<double>(rows) * trees * std::log2(1 + nodes / trees);
  c.bytes_read += static_cast<int64_t>(std::min(kLine * lines, 0x1p60));
  return c;
}

// ---- What votes come to ----------------------------------------------------------------------

void SetPair(std::span<double> scores, double first, double second) {
  scores[0] = first;
  scores[1] = second;
}

/// Two classes, and all votes for one of them: its score decides. Votes that are all positive are
/// probabilities, so the other class has the rest and one half is the border; else it has the
/// opposite and 0 is the border. Such a pair is not put through a softmax. (ONNX Runtime's reading;
/// the standard does not say.) Gives the class.
int64_t DecideBinary(const ForestModel& model, std::span<double> scores) {
  const bool positive = model.is_positive;
  const double s =
      scores[static_cast<size_t>(model.voted_class)] + (model.base.empty() ? 0 : model.base.back());
  if (model.voted_class == 1) {
    SetPair(scores, 0, s);
    Apply(model.transform, scores);
  } else if (model.transform == PostTransform::kLogistic) {
    SetPair(scores, -s, s);
    Apply(model.transform, scores);
  } else {
    SetPair(scores, positive ? 1 - s : -s, s);
    if (model.transform == PostTransform::kProbit) Apply(model.transform, scores);
  }
  return s > (positive ? 0.5 : 0) ? 1 : 0;
}

/// The best class among those that have a vote, or a base value.
int64_t Decide(const ForestModel& model, std::span<double> scores, std::span<const char> voted) {
  int64_t best = -1;
  for (size_t k = 0; k < scores.size(); ++k) {
    if (!model.base.empty()) scores[k] += model.base[k];
    if ((!model.base.empty() || voted[k]) &&
        (best < 0 || scores[k] > scores[static_cast<size_t>(best)]))
      best = static_cast<int64_t>(k);
  }
  Apply(model.transform, scores);
  return std::max<int64_t>(best, 0);
}

// ---- TreeEnsemble ----------------------------------------------------------------------------

Result<PostTransform> EnsembleTransform(const OpCall& call) {
  const int64_t t = call.Int("post_transform"), how = call.Int("aggregate_function");
  if (t < 0 || t > 4) return InvalidModel(Cat("post_transform cannot be ", t));
  if (how < 0 || how > 3) return InvalidModel(Cat("aggregate_function cannot be ", how));
  return static_cast<PostTransform>(t);
}

Result<std::shared_ptr<const void>> PrepareEnsemble(const OpCall& call) {
  auto model = std::make_shared<ForestModel>();
  INFER_ASSIGN(model->transform, EnsembleTransform(call));
  INFER_ASSIGN(model->forest, ReadEnsemble(call));
  model->how = static_cast<Aggregate>(call.Int("aggregate_function"));
  return std::shared_ptr<const void>(std::move(model));
}

/// Output 0 of a regression over the rows of input 0, [rows, targets].
Status RunRegression(OpRun& run, const ForestModel& model, DType out) {
  const int64_t targets = model.forest.targets;
  Tensor& y = run.Out(0, out, {RowsOf(run.in(0)).count, targets});
  return ForEachRow(model, run.in(0), [&](int64_t row, std::vector<double>& scores, const auto&) {
    FinishTargets(model, scores);
    for (int64_t i = 0; i < targets; ++i) y.Set(row * targets + i, scores[static_cast<size_t>(i)]);
  });
}

Status InferEnsemble(OpCall& call) {
  INFER_ASSIGN(const Dim rows, InferRows(call));
  INFER_ASSIGN(const auto model, call.Prepared<ForestModel>());
  call.SetOut(0, call.dtype(0), Shape({rows, Dim(model->forest.targets)}));
  return {};
}

Status RunEnsemble(OpRun& run) {
  INFER_ASSIGN(const auto model, run.call().Prepared<ForestModel>());
  return RunRegression(run, *model, run.in(0).dtype());
}

// ---- The older forms -------------------------------------------------------------------------

int64_t RegressionTargets(const OpCall& call) {
  if (call.HasAttr("n_targets")) return call.Int("n_targets");
  int64_t targets = 1;
  for (int64_t t : ListAttr<int64_t>(call, "target_ids")) targets = std::max(targets, t + 1);
  return targets;
}

Result<Aggregate> AggregateOf(const OpCall& call) {
  constexpr std::string_view kNames[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const std::string& name = call.Str("aggregate_function");
  const auto* const at = std::find(std::begin(kNames), std::end(kNames), name);
  if (at == std::end(kNames)) return InvalidModel(Cat("aggregate_function cannot be '", name, "'"));
  return static_cast<Aggregate>(at - std::begin(kNames));
}

/// InvalidModel unless there is a base value for all targets, one for each, or none.
Status CheckBase(const std::vector<double>& base, int64_t targets, bool one_is_enough,
                 std::string_view what) {
  if (base.empty() || base.size() == static_cast<size_t>(targets)) return {};
  if (base.size() == 1 && one_is_enough) return {};
  return InvalidModel(Cat(base.size(), " base values for ", targets, " ", what));
}

Result<std::shared_ptr<const void>> PrepareRegressor(const OpCall& call) {
  auto model = std::make_shared<ForestModel>();
  INFER_ASSIGN(model->how, AggregateOf(call));
  INFER_ASSIGN(model->transform, PostTransformOf(call.Str("post_transform")));
  const int64_t targets = RegressionTargets(call);
  if (targets < 1) return InvalidModel(Cat("n_targets is ", targets));
  INFER_ASSIGN(model->forest, ReadLegacyForest(call, "target", targets));
  model->base = NumbersAttr(call, "base_values");
  INFER_TRY(CheckBase(model->base, targets, /*one_is_enough=*/true, "targets"));
  return std::shared_ptr<const void>(std::move(model));
}

Status InferRegressor(OpCall& call) {
  INFER_ASSIGN(const Dim rows, InferRows(call));
  INFER_ASSIGN(const auto model, call.Prepared<ForestModel>());
  call.SetOut(0, DType::kF32, Shape({rows, Dim(model->forest.targets)}));
  return {};
}

Status RunRegressor(OpRun& run) {
  INFER_ASSIGN(const auto model, run.call().Prepared<ForestModel>());
  return RunRegression(run, *model, DType::kF32);
}

Result<std::shared_ptr<const void>> PrepareClassifier(const OpCall& call) {
  auto model = std::make_shared<ForestModel>();
  INFER_ASSIGN(model->transform, PostTransformOf(call.Str("post_transform")));
  INFER_ASSIGN(model->labels, ClassLabels(call, "classlabels_int64s", "classlabels_strings"));
  const int64_t classes = model->labels.num_elements();
  INFER_ASSIGN(model->forest, ReadLegacyForest(call, "class", classes));
  const auto& ids = ListAttr<int64_t>(call, "class_ids");
  const auto weights = NumbersAttr(call, "class_weights");
  model->is_binary = classes == 2 && std::set<int64_t>(ids.begin(), ids.end()).size() == 1;
  model->is_positive = std::all_of(weights.begin(), weights.end(), [](double w) { return w >= 0; });
  if (model->is_binary) model->voted_class = ids[0];
  model->base = NumbersAttr(call, "base_values");
  INFER_TRY(CheckBase(model->base, classes, model->is_binary, "classes"));
  return std::shared_ptr<const void>(std::move(model));
}

Status InferClassifier(OpCall& call) {
  INFER_ASSIGN(const Dim rows, InferRows(call));
  INFER_ASSIGN(const auto model, call.Prepared<ForestModel>());
  call.SetOut(0, model->labels.dtype(), Shape({rows}));
  call.SetOut(1, DType::kF32, Shape({rows, Dim(model->labels.num_elements())}));
  return {};
}

Status RunClassifier(OpRun& run) {
  INFER_ASSIGN(const auto model, run.call().Prepared<ForestModel>());
  const int64_t classes = model->labels.num_elements(), rows = RowsOf(run.in(0)).count;
  Tensor& y = run.Out(0, model->labels.dtype(), {rows});
  Tensor& z = run.Out(1, DType::kF32, {rows, classes});
  return ForEachRow(*model, run.in(0),
                    [&](int64_t row, std::vector<double>& scores, const std::vector<char>& voted) {
                      const int64_t best = DecideClass(*model, scores, voted);
                      SetLabel(y, row, model->labels, best);
                      for (int64_t k = 0; k < classes; ++k)
                        z.Set(row * classes + k, scores[static_cast<size_t>(k)]);
                    });
}

std::vector<AttrDef> LegacyAttrs(std::vector<AttrDef> more) {
  std::vector<AttrDef> attrs = {{"base_values", AttrKind::kFloats},
                                {"base_values_as_tensor", AttrKind::kTensor, {}, false, 3},
                                {"nodes_falsenodeids", AttrKind::kInts},
                                {"nodes_featureids", AttrKind::kInts},
                                {"nodes_hitrates", AttrKind::kFloats},
                                {"nodes_hitrates_as_tensor", AttrKind::kTensor, {}, false, 3},
                                {"nodes_missing_value_tracks_true", AttrKind::kInts},
                                {"nodes_modes", AttrKind::kStrings},
                                {"nodes_nodeids", AttrKind::kInts},
                                {"nodes_treeids", AttrKind::kInts},
                                {"nodes_truenodeids", AttrKind::kInts},
                                {"nodes_values", AttrKind::kFloats},
                                {"nodes_values_as_tensor", AttrKind::kTensor, {}, false, 3},
                                {"post_transform", AttrKind::kString, std::string("NONE")}};
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

}  // namespace

void FinishTargets(const ForestModel& model, std::span<double> scores) {
  for (size_t i = 0; i < scores.size() && !model.base.empty(); ++i)
    scores[i] += model.base.size() == 1 ? model.base[0] : model.base[i];
  Apply(model.transform, scores);
}

int64_t DecideClass(const ForestModel& model, std::span<double> scores,
                    std::span<const char> voted) {
  return model.is_binary ? DecideBinary(model, scores) : Decide(model, scores, voted);
}

std::span<const OpDef> MlTreeOps() {
  static const OpDef ops[] = {
      {
          .name = "TreeEnsemble",
          .domain = "ai.onnx.ml",
          .doc = "The leaves that each row reaches in a number of decision trees, put together.",
          .traits = Trait::kModel,
          .axes = RowAxes,
          .since = 5,
          .versions = {5},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "T"}},
          .attrs = {{"aggregate_function", AttrKind::kInt, int64_t{1}},
                    {"leaf_targetids", AttrKind::kInts, {}, true},
                    {"leaf_weights", AttrKind::kTensor, {}, true},
                    {"membership_values", AttrKind::kTensor},
                    {"n_targets", AttrKind::kInt},
                    {"nodes_falseleafs", AttrKind::kInts, {}, true},
                    {"nodes_falsenodeids", AttrKind::kInts, {}, true},
                    {"nodes_featureids", AttrKind::kInts, {}, true},
                    {"nodes_hitrates", AttrKind::kTensor},
                    {"nodes_missing_value_tracks_true", AttrKind::kInts},
                    {"nodes_modes", AttrKind::kTensor, {}, true},
                    {"nodes_splits", AttrKind::kTensor, {}, true},
                    {"nodes_trueleafs", AttrKind::kInts, {}, true},
                    {"nodes_truenodeids", AttrKind::kInts, {}, true},
                    {"post_transform", AttrKind::kInt, int64_t{0}},
                    {"tree_roots", AttrKind::kInts, {}, true}},
          .constraints = {{"T", kFloats}},
          .infer = InferEnsemble,
          .reference = RunEnsemble,
          .prepare = PrepareEnsemble,
          .cost = CostForest,
          .example = R"(graph g(x: f32[3,2]) -> (y) {
            y = ai.onnx.ml::TreeEnsemble(x) {n_targets=2, tree_roots=[0],
              nodes_featureids=[0, 1], nodes_modes=const u8[2] {0, 0}, nodes_splits=const f32[2] {0.5, 0.25},
              nodes_truenodeids=[1, 0], nodes_falsenodeids=[2, 1],
              nodes_trueleafs=[0, 1], nodes_falseleafs=[1, 1],
              leaf_targetids=[0, 1, 0], leaf_weights=const f32[3] {1, 2, 3}} })",
      },
      {
          .name = "TreeEnsembleRegressor",
          .domain = "ai.onnx.ml",
          .doc = "As TreeEnsemble, with the trees as lists of nodes; deprecated since opset 5.",
          .traits = Trait::kModel,
          .axes = RowAxes,
          .since = 1,
          .versions = {1, 3},
          .inputs = {{"X", "T"}},
          .outputs = {{"Y", "f32"}},
          .attrs = LegacyAttrs({{"aggregate_function", AttrKind::kString, std::string("SUM")},
                                {"n_targets", AttrKind::kInt},
                                {"target_ids", AttrKind::kInts},
                                {"target_nodeids", AttrKind::kInts},
                                {"target_treeids", AttrKind::kInts},
                                {"target_weights", AttrKind::kFloats},
                                {"target_weights_as_tensor", AttrKind::kTensor, {}, false, 3}}),
          .constraints = {{"T", kMlNumbers}},
          .infer = InferRegressor,
          .reference = RunRegressor,
          .prepare = PrepareRegressor,
          .cost = CostForest,
          .example = R"(graph g(x: f32[3,2]) -> (y) {
            y = ai.onnx.ml::TreeEnsembleRegressor(x) {n_targets=1, nodes_treeids=[0, 0, 0],
              nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], nodes_values=[0.5, 0.0, 0.0],
              nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0],
              nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], target_nodeids=[1, 2],
              target_ids=[0, 0], target_weights=[1.5, -2.0]} })",
      },
      {
          .name = "TreeEnsembleClassifier",
          .domain = "ai.onnx.ml",
          .doc = "The class with most votes of decision trees, and the scores; deprecated since 5.",
          .traits = Trait::kModel,
          .axes = RowAxes,
          .since = 1,
          .versions = {1, 3},
          .inputs = {{"X", "T1"}},
          .outputs = {{"Y", "T2"}, {"Z", "f32"}},
          .attrs = LegacyAttrs({{"class_ids", AttrKind::kInts},
                                {"class_nodeids", AttrKind::kInts},
                                {"class_treeids", AttrKind::kInts},
                                {"class_weights", AttrKind::kFloats},
                                {"class_weights_as_tensor", AttrKind::kTensor, {}, false, 3},
                                {"classlabels_int64s", AttrKind::kInts},
                                {"classlabels_strings", AttrKind::kStrings}}),
          .constraints = {{"T1", kMlNumbers}, {"T2", TypeSet(DType::kString, DType::kI64)}},
          .infer = InferClassifier,
          .reference = RunClassifier,
          .prepare = PrepareClassifier,
          .cost = CostForest,
          .example = R"(graph g(x: f32[3,2]) -> (y, z) {
            y, z = ai.onnx.ml::TreeEnsembleClassifier(x) {classlabels_int64s=[4, 7, 9],
              nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0],
              nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
              nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], class_treeids=[0, 0],
              class_nodeids=[1, 2], class_ids=[0, 2], class_weights=[1.5, 2.0]} })",
      },
  };
  return ops;
}

}  // namespace infer
