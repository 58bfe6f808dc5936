#include "passes/rewrite/driver.h"

#include <algorithm>
#include <deque>
#include <set>

#include "lib/support/strings.h"
#include "passes/rewrite/kernel_check.h"

namespace infer {
namespace {

constexpr int kNeighbourhood = 32;  // nodes below a rewrite that are looked at again at once
constexpr size_t kManyNames = 32;   // that one node stands for

class Driver {
 public:
  Driver(Graph& g, std::span<const Rule> rules, const RewriteOptions& options, RewriteLog& log,
         bool top_level)
      : g_(g), options_(options), log_(log), top_level_(top_level) {
    for (const Rule& r : rules) {
      if (!r.build || (options.enabled && !options.enabled(r))) continue;
      max_height_ = std::max(max_height_, Height(r.match));
      rules_.push_back({&r, &log.rules[r.name], r.roots(), Explained(r)});
    }
    for (Indexed& r : rules_)
      for (const Pattern::OpName& op : RootOps(r.rule->match))
        if (const OpDef* def = g.ops().Find(op.domain, op.name)) by_root_[def].push_back(&r);
    listener_.added = [this](Node& n) {
      added_.push_back(&n);
      if (n.fused_from().size() > kManyNames) grown_.insert(&n);
      if (top_level_)
        for (MatchReviewer* r : options_.reviewers) r->OnAdded(n);
    };
    listener_.replaced = [this](const Value&, const Value& to) {
      for (const Use& u : to.uses()) {
        if (added_.size() >= 2 * static_cast<size_t>(kNeighbourhood)) break;
        added_.push_back(u.user);
      }
    };
    listener_.erasing = [this](Node& n) {
      queued_.erase(&n);
      grown_.erase(&n);
      if (top_level_)
        for (MatchReviewer* r : options_.reviewers) r->OnErasing(n);
      std::replace(added_.begin(), added_.end(), &n, static_cast<Node*>(nullptr));
    };
  }

  /// Sweeps until one fires nothing: what a rewrite enables far away is found by the next sweep.
  Result<int64_t> Run() {
    if (by_root_.empty()) return int64_t{0};
    const auto limit = static_cast<int64_t>(8 * g_.num_nodes() + 1000);
    int64_t total = 0;
    for (int64_t fired = 1; fired > 0 && !Exhausted();) {
      fired = 0;
      for (const auto& n : g_.nodes()) Push(n.get());
      for (size_t round = 0; !queue_.empty() && !Exhausted(); --round) {
        if (round == 0) {
          grown_.clear();
          round = queue_.size();
        }
        Node* n = queue_.front();
        queue_.pop_front();
        if (queued_.erase(n) == 0) continue;  // erased meanwhile
        INFER_ASSIGN(const bool changed, Visit(*n));
        fired += changed;
        if (total + fired > limit)
          return Internal(Cat("rules do not converge: ", limit, " rewrites, the last by ", last_));
      }
      total += fired;
    }
    return total;
  }

 private:
  struct Indexed {
    const Rule* rule;
    RuleSummary* summary;
    std::vector<Pattern> roots;
    std::vector<std::string> explain;  // globs for the node
  };

  std::vector<std::string> Explained(const Rule& r) const {
    std::vector<std::string> at;
    for (const std::string& e : options_.explain) {
      const size_t split = e.find('@');
      if (GlobMatch(e.substr(0, split), r.name))
        at.push_back(split == std::string::npos ? "*" : e.substr(split + 1));
    }
    return at;
  }
  bool Exhausted() const {
    return options_.max_rewrites >= 0 && log_.applied >= options_.max_rewrites;
  }
  void Push(Node* n) {
    if (by_root_.count(&n->def()) && queued_.insert(n).second) queue_.push_back(n);
  }

  /// true: `n` or what is above it was rewritten; `n` may be gone.
  Result<bool> Visit(Node& n) {
    const auto it = by_root_.find(&n.def());
    if (it == by_root_.end()) return false;
    ++log_.visited;
    for (Indexed* r : it->second)
      for (Value* root : n.outputs()) {
        if (!root || root->is_dead()) continue;
        ++log_.attempts;
        auto fired = TryRule(*r, root);
        if (!fired.ok()) return fired.status().In(Cat("rule ", r->rule->name));
        if (*fired) return true;
      }
    return false;
  }

  Result<bool> TryRule(Indexed& r, Value* root) {
    const bool explain = std::any_of(r.explain.begin(), r.explain.end(), [&](const auto& glob) {
      return GlobMatch(glob, root->name()) || GlobMatch(glob, root->producer()->name());
    });
    Mismatch why;
    const auto match = FindMatch(r.roots, root, explain ? &why : nullptr);
    MatchRecord record{.rule = r.rule->name, .at = root->name()};
    if (!match) {
      if (!explain) return false;
      record.outcome = MatchRecord::Outcome::kNoMatch;
      record.reason = why.ToString();
      record.matched = why.matched;
      record.of = why.of;
      AddNames(why.nodes, record.nodes);
      Record(std::move(record));
      return false;
    }
    if (GrewNow(*match)) {
      Push(root->producer());
      return false;
    }
    AddNames(match->nodes(), record.nodes);
    record.matched = record.of = static_cast<int>(match->nodes().size());
    const std::string at = root->name();
    bool meant = !r.rule->quiet;
    const Status refusal = Attempt(*r.rule, *match, record, meant);
    if (refusal.code() == Code::kInternal) return refusal;
    const bool applied = refusal.ok();
    if (!meant && !explain) return false;
    if (!applied) {
      record.outcome = MatchRecord::Outcome::kRefused;
      record.reason = refusal.message();
    }
    if (applied || log_.refused.insert({r.rule->name, at}).second) {
      ++r.summary->matched;
      ++(applied ? r.summary->applied : r.summary->refused);
      r.summary->max_error = std::max(r.summary->max_error, record.error);
      log_.applied += applied;
      Record(std::move(record));
    }
    return applied;
  }

  /// Checks the match and splices its patch. Internal is our bug; any other failure says why the
  /// match is refused, and the graph is as before.
  /// `meant`: set once the rule's own conditions hold.
  Status Attempt(const Rule& rule, const Match& m, MatchRecord& record, bool& meant) {
    for (const Rule::Guard& guard : rule.when)
      if (!guard.holds(m)) return InvalidModel(Cat("needs ", guard.text));
    PatchBuilder b(g_.ops());
    INFER_ASSIGN(Value * result, rule.build(m, b));
    if (result) b.Replace(m.root(), result);
    const Patch patch = std::move(b).Finish();
    INFER_TRY(CheckPatch(m, patch));
    meant = true;
    INFER_TRY(CheckKernels(m, patch));
    AddNames(patch.covers, record.nodes);
    record.matched = record.of = static_cast<int>(CoveredNodes(m, patch).size());
    record.price = PriceOf(m, patch);
    for (MatchReviewer* reviewer : options_.reviewers)
      INFER_TRY(reviewer->Review({rule, m, patch, record.price, top_level_}, record));
    added_.clear();
    INFER_TRY(Splice(g_, m, patch, listener_));
    last_ = rule.name;
    Requeue();
    return {};
  }

  /// The new nodes, and readers below them that a higher pattern may start from.
  void Requeue() {
    std::vector<std::pair<Node*, int>> near;
    for (Node* n : added_)
      if (n) near.emplace_back(n, 0);
    for (size_t i = 0; i < near.size() && near.size() < kNeighbourhood; ++i) {
      const auto [n, depth] = near[i];
      if (depth == max_height_) continue;
      for (const Value* v : n->outputs()) {
        if (!v) continue;
        for (size_t k = 0; k < v->uses().size() && near.size() < kNeighbourhood; ++k)
          near.emplace_back(v->uses()[k].user, depth + 1);
      }
    }
    for (const auto& [n, depth] : near) Push(n);
  }

  /// A node of the match stands for many since this round of the queue: the next one takes it. A
  /// long chain is so merged in halves, each node of it some times; one after the other its names
  /// would be copied as often as there are nodes.
  bool GrewNow(const Match& m) const {
    return !grown_.empty() && std::any_of(m.nodes().begin(), m.nodes().end(),
                                          [&](const Node* n) { return grown_.contains(n); });
  }

  /// The original nodes that `nodes` stand for, each once.
  template <typename N>
  static void AddNames(const std::vector<N*>& nodes, std::vector<std::string>& names) {
    std::set<std::string, std::less<>> known(names.begin(), names.end());
    for (const Node* n : nodes)
      for (const std::string& name : n->fused_from())
        if (known.insert(name).second) names.push_back(name);
  }

  void Record(MatchRecord record) {
    if (log_.records.size() < log_.max_records) log_.records.push_back(std::move(record));
  }

  Graph& g_;
  const RewriteOptions& options_;
  RewriteLog& log_;
  const bool top_level_;
  std::vector<Indexed> rules_;
  std::unordered_map<const OpDef*, std::vector<Indexed*>> by_root_;
  int max_height_ = 0;
  std::deque<Node*> queue_;
  std::unordered_set<Node*> queued_;
  std::unordered_set<const Node*> grown_;  // in this round of the queue, to more than kManyNames
  std::vector<Node*> added_;
  std::string last_;
  SpliceListener listener_;
};

}  // namespace

Status ForEachGraph(Graph& g, const std::function<Status(Graph&, int depth)>& f, int depth) {
  GraphEditor e(g);
  for (const auto& n : g.nodes())
    for (size_t i = 0; i < n->subgraphs().size(); ++i)
      INFER_TRY(ForEachGraph(*e.mutable_subgraph(*n, i), f, depth + 1));
  return f(g, depth);
}

Result<int64_t> ApplyRules(Graph& g, std::span<const Rule> rules, const RewriteOptions& options,
                           RewriteLog& log) {
  int64_t total = 0;
  INFER_TRY(ForEachGraph(g, [&](Graph& graph, int depth) -> Status {
    INFER_ASSIGN(const int64_t fired, Driver(graph, rules, options, log, depth == 0).Run());
    total += fired;
    return {};
  }));
  return total;
}

}  // namespace infer
