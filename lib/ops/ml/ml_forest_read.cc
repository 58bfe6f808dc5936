/// The trees of ai.onnx.ml's operators from their attributes.
#include <numeric>

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

std::vector<double> Values(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.num_elements(); ++i) out.push_back(t.At(i));
  return out;
}

/// Nodes of the older forms by tree and number.
class NodeIndex {
 public:
  NodeIndex(const std::vector<int64_t>& tree, const std::vector<int64_t>& id)
      : tree_(tree), id_(id), sorted_(id.size()) {
    std::iota(sorted_.begin(), sorted_.end(), size_t{0});
    const auto before = [this](size_t a, size_t b) { return Key(a) < Key(b); };
    if (!std::is_sorted(sorted_.begin(), sorted_.end(), before))
      std::sort(sorted_.begin(), sorted_.end(), before);
  }

  /// By tree, then by number.
  const std::vector<size_t>& sorted() const { return sorted_; }
  Status CheckEachOnce() const {
    for (size_t k = 1; k < sorted_.size(); ++k)
      if (const size_t i = sorted_[k]; Key(i) == Key(sorted_[k - 1]))
        return InvalidModel(Cat("node ", id_[i], " of tree ", tree_[i], " stands twice"));
    return {};
  }
  /// InvalidModel where there is none. Most files list the nodes of a tree by number: the place
  /// follows from that of another node, `near`.
  Result<size_t> Find(int64_t tree, int64_t id, size_t near) const {
    int64_t guess = 0;
    if (near < id_.size() && !__builtin_sub_overflow(id, id_[near], &guess) &&
        !__builtin_add_overflow(guess, static_cast<int64_t>(near), &guess) && guess >= 0 &&
        static_cast<size_t>(guess) < id_.size() &&
        Key(static_cast<size_t>(guess)) == std::pair(tree, id))
      return static_cast<size_t>(guess);
    const auto at =
        std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(tree, id),
                         [this](size_t i, const auto& wanted) { return Key(i) < wanted; });
    if (at == sorted_.end() || Key(*at) != std::pair(tree, id))
      return InvalidModel(Cat("tree ", tree, " has no node ", id));
    return *at;
  }

 private:
  std::pair<int64_t, int64_t> Key(size_t i) const { return {tree_[i], id_[i]}; }

  const std::vector<int64_t>&tree_, &id_;
  std::vector<size_t> sorted_;
};

/// The one node of each tree that is nobody's child, in the order of the nodes.
Result<std::vector<size_t>> RootsOf(const NodeIndex& index, const std::vector<int64_t>& tree,
                                    const std::vector<char>& is_child) {
  const std::vector<size_t>& sorted = index.sorted();
  for (size_t k = 0; k < sorted.size();) {
    const int64_t t = tree[sorted[k]];
    int count = 0;
    for (; k < sorted.size() && tree[sorted[k]] == t; ++k) count += is_child[sorted[k]] ? 0 : 1;
    if (count != 1) return InvalidModel(Cat("tree ", t, " has ", count, " roots"));
  }
  std::vector<size_t> roots;
  for (size_t i = 0; i < is_child.size(); ++i)
    if (!is_child[i]) roots.push_back(i);
  return roots;
}

/// A node that no root leads to; nullopt: there is none. A cycle would else be a tree that is
/// silently left out.
std::optional<size_t> Unreached(const Forest& f) {
  std::vector<size_t> open = f.roots;
  std::vector<char> reached(f.nodes.size(), 0);
  while (!open.empty()) {
    const size_t i = open.back();
    open.pop_back();
    if (std::exchange(reached[i], 1) || f.nodes[i].mode == Branch::kLeaf) continue;
    open.push_back(f.nodes[i].next[1]);
    open.push_back(f.nodes[i].next[0]);
  }
  const auto at = std::find(reached.begin(), reached.end(), 0);
  if (at == reached.end()) return std::nullopt;
  return static_cast<size_t>(at - reached.begin());
}

Result<Branch> BranchOf(const std::string& name) {
  constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                         "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  const auto* const mode = std::find(std::begin(kModes), std::end(kModes), name);
  if (mode == std::end(kModes) || *mode == "BRANCH_MEMBER")
    return InvalidModel(Cat("nodes_modes cannot be '", name, "'"));
  return static_cast<Branch>(mode - std::begin(kModes));
}

/// The votes of each leaf side by side, in the order of their lists; `leaf[i]` has vote i. Where
/// there is one target, only the first vote of a leaf counts, as in ONNX Runtime.
void PlaceVotes(Forest& f, const std::vector<size_t>& leaf, const std::vector<Vote>& votes) {
  for (const size_t at : leaf) ++f.nodes[at].end;
  size_t begin = 0;
  for (TreeNode& n : f.nodes) {
    const size_t count = f.targets == 1 ? std::min<size_t>(n.end, 1) : n.end;
    n.begin = n.end = begin;
    begin += count;
  }
  f.votes.resize(begin);
  for (size_t i = 0; i < votes.size(); ++i) {
    TreeNode& n = f.nodes[leaf[i]];
    if (f.targets == 1 && n.end > n.begin) continue;
    f.votes[n.end++] = votes[i];
  }
}

}  // namespace

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
      node.begin = f.members.size();
      for (; member != members.end() && !std::isnan(*member); ++member)
        f.members.push_back(*member);
      node.end = f.members.size();
      if (member != members.end()) ++member;
    }
    INFER_ASSIGN(node.next[1], child(if_true[i], true_leafs[i] != 0));
    INFER_ASSIGN(node.next[0], child(if_false[i], false_leafs[i] != 0));
    node.missing_is_true = !missing.empty() && missing[i] != 0;
    f.nodes.push_back(node);
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    f.nodes.push_back({.begin = i, .end = i + 1});
    f.votes.push_back({targets[i], weights[i]});
  }
  for (int64_t r : call.Ints("tree_roots")) {
    INFER_ASSIGN(const size_t root, child(r, false));
    f.roots.push_back(root);
  }
  return f;
}

Result<Forest> ReadLegacyForest(const OpCall& call, const std::string& votes, int64_t targets) {
  INFER_TRY(CheckTensorAttrs(call));
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
  const NodeIndex index(tree, id);
  INFER_TRY(index.CheckEachOnce());
  Forest f;
  f.targets = targets;
  f.nodes.resize(n);
  std::vector<char> is_child(n, 0);
  for (size_t i = 0; i < n; ++i) {
    TreeNode& node = f.nodes[i];
    INFER_ASSIGN(node.mode, BranchOf(modes[i]));
    node.feature = feature[i];
    node.split = splits[i];
    node.missing_is_true = !missing.empty() && missing[i] != 0;
    if (node.mode == Branch::kLeaf) continue;
    INFER_ASSIGN(node.next[1], index.Find(tree[i], if_true[i], i));
    INFER_ASSIGN(node.next[0], index.Find(tree[i], if_false[i], i));
    is_child[node.next[1]] = is_child[node.next[0]] = 1;
  }
  INFER_ASSIGN(f.roots, RootsOf(index, tree, is_child));
  if (const auto i = Unreached(f))
    return InvalidModel(Cat("no root leads to node ", id[*i], " of tree ", tree[*i]));
  std::vector<size_t> leaf(weights.size());
  std::vector<Vote> all(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    INFER_ASSIGN(leaf[i], index.Find(vote_tree[i], vote_node[i], i > 0 ? leaf[i - 1] : 0));
    if (vote_target[i] < 0 || vote_target[i] >= targets)
      return InvalidModel(Cat("a leaf votes for ", vote_target[i], " of ", targets));
    all[i] = {vote_target[i], weights[i]};
  }
  PlaceVotes(f, leaf, all);
  return f;
}

}  // namespace infer
