/// ai.onnx.ml: TreeEnsemble and the two older forms, TreeEnsembleRegressor and -Classifier.
#include <cmath>
#include <map>
#include <set>

#include "lib/ops/ml/ml_forest.h"

namespace infer {
namespace {

Status CheckLengths(const OpCall& call, std::string_view first,
                    std::initializer_list<std::pair<std::string_view, size_t>> lists) {
  const size_t n = lists.begin()->second;
  for (const auto& [name, size] : lists)
    if (size != n)
      return InvalidModel(
          Cat(call.def().name, ": ", name, " has ", size, " entries, ", first, " has ", n));
  return {};
}

// ---- TreeEnsemble ----------------------------------------------------------------------------

std::vector<double> Values(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.num_elements(); ++i) out.push_back(t.At(i));
  return out;
}

/// Interior nodes first, then the leaves.
Result<Forest> ReadEnsemble(const OpCall& call) {
  INFER_TRY(CheckTensorAttrs(call));
  const auto& features = call.Ints("nodes_featureids");
  const auto &if_true = call.Ints("nodes_truenodeids"), &if_false = call.Ints("nodes_falsenodeids");
  const auto &true_leafs = call.Ints("nodes_trueleafs"),
             &false_leafs = call.Ints("nodes_falseleafs");
  const auto& missing = ListAttr<int64_t>(call, "nodes_missing_value_tracks_true");
  const auto modes = Values(call.Attr<Tensor>("nodes_modes"));
  const auto splits = Values(call.Attr<Tensor>("nodes_splits"));
  const auto weights = Values(call.Attr<Tensor>("leaf_weights"));
  const auto& targets = call.Ints("leaf_targetids");
  const size_t n = features.size();
  INFER_TRY(
      CheckLengths(call, "nodes_featureids",
                   {{"nodes_featureids", n},
                    {"nodes_truenodeids", if_true.size()},
                    {"nodes_falsenodeids", if_false.size()},
                    {"nodes_trueleafs", true_leafs.size()},
                    {"nodes_falseleafs", false_leafs.size()},
                    {"nodes_modes", modes.size()},
                    {"nodes_splits", splits.size()},
                    {"nodes_missing_value_tracks_true", missing.empty() ? n : missing.size()}}));
  INFER_TRY(CheckLengths(call, "leaf_targetids",
                         {{"leaf_targetids", targets.size()}, {"leaf_weights", weights.size()}}));
  Forest f;
  f.targets = call.HasAttr("n_targets") ? call.Int("n_targets") : 0;
  for (int64_t t : targets) {
    if (t < 0 || (call.HasAttr("n_targets") && t >= f.targets))
      return InvalidModel(Cat("a leaf votes for target ", t, " of ", f.targets));
    if (!call.HasAttr("n_targets")) f.targets = std::max(f.targets, t + 1);
  }
  if (f.targets < 1) return InvalidModel(Cat("n_targets is ", f.targets));
  std::vector<double> members;
  if (call.HasAttr("membership_values")) members = Values(call.Attr<Tensor>("membership_values"));
  auto member = members.begin();
  auto child = [&](int64_t id, bool is_leaf) -> Result<size_t> {
    if (id < 0 || static_cast<size_t>(id) >= (is_leaf ? weights.size() : n))
      return InvalidModel(Cat("there is no ", is_leaf ? "leaf " : "node ", id));
    return static_cast<size_t>(id) + (is_leaf ? n : 0);
  };
  for (size_t i = 0; i < n; ++i) {
    TreeNode node;
    if (!(modes[i] >= 0 && modes[i] <= static_cast<double>(Branch::kMember)))
      return InvalidModel(Cat("nodes_modes cannot be ", modes[i]));
    node.mode = static_cast<Branch>(modes[i]);
    node.feature = features[i];
    node.split = splits[i];
    if (node.mode == Branch::kMember) {  // sets in the order of their nodes, each ended by a NaN
      for (; member != members.end() && !std::isnan(*member); ++member)
        node.members.push_back(*member);
      if (member != members.end()) ++member;
    }
    INFER_ASSIGN(node.if_true, child(if_true[i], true_leafs[i] != 0));
    INFER_ASSIGN(node.if_false, child(if_false[i], false_leafs[i] != 0));
    node.missing_is_true = !missing.empty() && missing[i] != 0;
    f.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    TreeNode leaf;
    leaf.votes.push_back({targets[i], weights[i]});
    f.nodes.push_back(std::move(leaf));
  }
  for (int64_t r : call.Ints("tree_roots")) {
    INFER_ASSIGN(const size_t root, child(r, false));
    f.roots.push_back(root);
  }
  return f;
}

Result<PostTransform> EnsembleTransform(const OpCall& call) {
  const int64_t t = call.Int("post_transform"), how = call.Int("aggregate_function");
  if (t < 0 || t > 4) return InvalidModel(Cat("post_transform cannot be ", t));
  if (how < 0 || how > 3) return InvalidModel(Cat("aggregate_function cannot be ", how));
  return static_cast<PostTransform>(t);
}

Status InferEnsemble(OpCall& call) {
  INFER_TRY(EnsembleTransform(call).status());
  INFER_ASSIGN(const Dim rows, InferRows(call));
  INFER_ASSIGN(const Forest f, ReadEnsemble(call));
  call.SetOut(0, call.dtype(0), Shape({rows, Dim(f.targets)}));
  return {};
}

Status RunEnsemble(OpRun& run) {
  INFER_ASSIGN(const PostTransform transform, EnsembleTransform(run.call()));
  INFER_ASSIGN(const Forest f, ReadEnsemble(run.call()));
  return RunForest(run, f, static_cast<Aggregate>(run.Int("aggregate_function")), transform, {},
                   run.in(0).dtype());
}

// ---- The older forms -------------------------------------------------------------------------

/// `votes` is the beginning of the names of the votes' attributes: "target" or "class".
Result<Forest> ReadLegacy(const OpCall& call, const std::string& votes, int64_t targets) {
  INFER_TRY(CheckTensorAttrs(call));
  constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  auto ints = [&](std::string_view name) -> const std::vector<int64_t>& {
    return ListAttr<int64_t>(call, name);
  };
  const auto &tree = ints("nodes_treeids"), &id = ints("nodes_nodeids");
  const auto &feature = ints("nodes_featureids"), &if_true = ints("nodes_truenodeids");
  const auto& if_false = ints("nodes_falsenodeids");
  const auto& missing = ints("nodes_missing_value_tracks_true");
  const auto& modes = ListAttr<std::string>(call, "nodes_modes");
  const auto splits = NumbersAttr(call, "nodes_values");
  const auto weights = NumbersAttr(call, votes + "_weights");
  const auto &vote_tree = ints(votes + "_treeids"), &vote_node = ints(votes + "_nodeids");
  const auto& vote_target = ints(votes + "_ids");
  const size_t n = id.size();
  INFER_TRY(
      CheckLengths(call, "nodes_nodeids",
                   {{"nodes_nodeids", n},
                    {"nodes_treeids", tree.size()},
                    {"nodes_featureids", feature.size()},
                    {"nodes_truenodeids", if_true.size()},
                    {"nodes_falsenodeids", if_false.size()},
                    {"nodes_modes", modes.size()},
                    {"nodes_values", splits.size()},
                    {"nodes_missing_value_tracks_true", missing.empty() ? n : missing.size()}}));
  INFER_TRY(CheckLengths(call, "the ids of the votes",
                         {{"ids", vote_target.size()},
                          {"treeids", vote_tree.size()},
                          {"nodeids", vote_node.size()},
                          {"weights", weights.size()}}));
  std::map<std::pair<int64_t, int64_t>, size_t> at;
  for (size_t i = 0; i < n; ++i)
    if (!at.emplace(std::pair(tree[i], id[i]), i).second)
      return InvalidModel(Cat("node ", id[i], " of tree ", tree[i], " stands twice"));
  Forest f;
  f.targets = targets;
  f.nodes.resize(n);
  std::vector<char> is_child(n, 0);
  for (size_t i = 0; i < n; ++i) {
    TreeNode& node = f.nodes[i];
    const auto* const mode = std::find(std::begin(kModes), std::end(kModes), modes[i]);
    if (mode == std::end(kModes) || *mode == "BRANCH_MEMBER")
      return InvalidModel(Cat("nodes_modes cannot be '", modes[i], "'"));
    node.mode = static_cast<Branch>(mode - std::begin(kModes));
    node.feature = feature[i];
    node.split = splits[i];
    node.missing_is_true = !missing.empty() && missing[i] != 0;
    if (node.mode == Branch::kLeaf) continue;
    for (auto [child, slot] :
         {std::pair(if_true[i], &node.if_true), std::pair(if_false[i], &node.if_false)}) {
      const auto found = at.find({tree[i], child});
      if (found == at.end()) return InvalidModel(Cat("tree ", tree[i], " has no node ", child));
      *slot = found->second;
      is_child[found->second] = 1;
    }
  }
  // The one node of each tree that is nobody's child.
  std::map<int64_t, int> roots;
  for (size_t i = 0; i < n; ++i) {
    int& count = roots[tree[i]];
    if (is_child[i]) continue;
    ++count;
    f.roots.push_back(i);
  }
  for (const auto& [t, count] : roots)
    if (count != 1) return InvalidModel(Cat("tree ", t, " has ", count, " roots"));
  // A cycle that no root leads to would else be a tree that is silently left out.
  std::vector<size_t> open = f.roots;
  std::vector<char> reached(n, 0);
  while (!open.empty()) {
    const size_t i = open.back();
    open.pop_back();
    if (std::exchange(reached[i], 1) || f.nodes[i].mode == Branch::kLeaf) continue;
    open.push_back(f.nodes[i].if_true);
    open.push_back(f.nodes[i].if_false);
  }
  for (size_t i = 0; i < n; ++i)
    if (!reached[i])
      return InvalidModel(Cat("no root leads to node ", id[i], " of tree ", tree[i]));
  for (size_t i = 0; i < weights.size(); ++i) {
    const auto found = at.find({vote_tree[i], vote_node[i]});
    if (found == at.end())
      return InvalidModel(Cat("tree ", vote_tree[i], " has no node ", vote_node[i]));
    if (vote_target[i] < 0 || vote_target[i] >= targets)
      return InvalidModel(Cat("a leaf votes for ", vote_target[i], " of ", targets));
    f.nodes[found->second].votes.push_back({vote_target[i], weights[i]});
  }
  return f;
}

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

Status InferRegressor(OpCall& call) {
  INFER_TRY(AggregateOf(call).status());
  INFER_TRY(PostTransformOf(call.Str("post_transform")).status());
  INFER_ASSIGN(const Dim rows, InferRows(call));
  const int64_t targets = RegressionTargets(call);
  if (targets < 1) return InvalidModel(Cat("n_targets is ", targets));
  INFER_TRY(ReadLegacy(call, "target", targets).status());
  call.SetOut(0, DType::kF32, Shape({rows, Dim(targets)}));
  return {};
}

Status RunRegressor(OpRun& run) {
  INFER_ASSIGN(const Aggregate how, AggregateOf(run.call()));
  INFER_ASSIGN(const PostTransform transform, PostTransformOf(run.Str("post_transform")));
  INFER_ASSIGN(const Forest f, ReadLegacy(run.call(), "target", RegressionTargets(run.call())));
  return RunForest(run, f, how, transform, NumbersAttr(run.call(), "base_values"), DType::kF32);
}

Status InferClassifier(OpCall& call) {
  INFER_TRY(PostTransformOf(call.Str("post_transform")).status());
  INFER_ASSIGN(const Tensor labels, ClassLabels(call, "classlabels_int64s", "classlabels_strings"));
  INFER_ASSIGN(const Dim rows, InferRows(call));
  INFER_TRY(ReadLegacy(call, "class", labels.num_elements()).status());
  call.SetOut(0, labels.dtype(), Shape({rows}));
  call.SetOut(1, DType::kF32, Shape({rows, Dim(labels.num_elements())}));
  return {};
}

/// Two classes, and all votes for one of them: its score decides. Votes that are all positive are
/// probabilities, so the other class has the rest and one half is the border; else it has the
/// opposite and 0 is the border. Such a pair is not put through a softmax. (ONNX Runtime's reading;
/// the standard does not say.)
Status RunClassifier(OpRun& run) {
  const OpCall& call = run.call();
  INFER_ASSIGN(const PostTransform transform, PostTransformOf(run.Str("post_transform")));
  INFER_ASSIGN(const Tensor labels, ClassLabels(call, "classlabels_int64s", "classlabels_strings"));
  const int64_t classes = labels.num_elements();
  INFER_ASSIGN(const Forest f, ReadLegacy(call, "class", classes));
  const auto base = NumbersAttr(call, "base_values"), weights = NumbersAttr(call, "class_weights");
  const auto& ids = ListAttr<int64_t>(call, "class_ids");
  const bool binary = classes == 2 && std::set<int64_t>(ids.begin(), ids.end()).size() == 1;
  const bool positive =
      std::all_of(weights.begin(), weights.end(), [](double w) { return w >= 0; });
  if (!base.empty() && base.size() != static_cast<size_t>(classes) && !(binary && base.size() == 1))
    return InvalidModel(Cat(base.size(), " base values for ", classes, " classes"));
  const Tensor& x = run.in(0);
  const Rows rows = RowsOf(x);
  Tensor& y = run.Out(0, labels.dtype(), {rows.count});
  Tensor& z = run.Out(1, DType::kF32, {rows.count, classes});
  std::vector<double> scores;
  std::vector<char> voted;
  for (int64_t row = 0; row < rows.count; ++row) {
    INFER_TRY(SumVotes(f, Aggregate::kSum, x, row, rows.features, scores, voted));
    int64_t best = 0;
    if (binary) {
      const double s = scores[static_cast<size_t>(ids[0])] + (base.empty() ? 0 : base.back());
      best = s > (positive ? 0.5 : 0) ? 1 : 0;
      if (ids[0] == 1) {
        scores = {0, s};
        Apply(transform, scores);
      } else if (transform == PostTransform::kLogistic) {
        scores = {-s, s};
        Apply(transform, scores);
      } else {
        scores = {positive ? 1 - s : -s, s};
        if (transform == PostTransform::kProbit) Apply(transform, scores);
      }
    } else {
      for (size_t i = 0; i < scores.size() && !base.empty(); ++i) scores[i] += base[i];
      // Among the classes that have a vote, or a base value.
      best = -1;
      for (int64_t k = 0; k < classes; ++k)
        if ((!base.empty() || voted[static_cast<size_t>(k)]) &&
            (best < 0 || scores[static_cast<size_t>(k)] > scores[static_cast<size_t>(best)]))
          best = k;
      best = std::max<int64_t>(best, 0);
      Apply(transform, scores);
    }
    SetLabel(y, row, labels, best);
    for (int64_t k = 0; k < classes; ++k) z.Set(row * classes + k, scores[static_cast<size_t>(k)]);
  }
  return {};
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

std::span<const OpDef> MlTreeOps() {
  static const OpDef ops[] = {
      {
          .name = "TreeEnsemble",
          .domain = "ai.onnx.ml",
          .doc = "The leaves that each row reaches in a number of decision trees, put together.",
          .traits = Trait::kModel,
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
