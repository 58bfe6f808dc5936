#pragma once
/// Pass: one whole-graph transformation. PassManager: runs them and trusts none.
#include <memory>

#include "passes/rewrite/driver.h"

namespace infer {

/// What passes share in one run.
struct PassContext {
  RewriteOptions rewrite;
  RewriteLog log;
  /// Constant folding may add this many bytes per node beyond what it makes unnecessary, and so
  /// many more in the whole run.
  int64_t max_fold_growth_bytes = int64_t{1} << 16;
  int64_t fold_growth_left_bytes = int64_t{1} << 20;
  std::vector<std::string> notes;  ///< one line each: what was left alone and why
};

class Pass {
 public:
  virtual ~Pass() = default;
  virtual std::string name() const = 0;
  /// Whether the graph changed. A pass never leaves the graph invalid, even on failure; only types
  /// downstream of a value that became more specific may lag behind (the manager refines them).
  virtual Result<bool> Run(Graph& g, PassContext& context) = 0;
};

/// A pass that applies rules until none fires.
class RulePass : public Pass {
 public:
  RulePass(std::string name, std::vector<Rule> rules)
      : RulePass(std::move(name), std::make_shared<const std::vector<Rule>>(std::move(rules))) {}
  /// Rules that other passes have, too.
  RulePass(std::string name, std::shared_ptr<const std::vector<Rule>> rules)
      : name_(std::move(name)), rules_(std::move(rules)) {}
  std::string name() const override { return name_; }
  std::span<const Rule> rules() const { return *rules_; }
  Result<bool> Run(Graph& g, PassContext& context) override {
    INFER_ASSIGN(const int64_t fired, ApplyRules(g, *rules_, context.rewrite, context.log));
    return fired > 0;
  }

 private:
  std::string name_;
  std::shared_ptr<const std::vector<Rule>> rules_;
};

struct PassRecord {
  std::string name;
  int round = 0;  ///< of its group
  bool changed = false;
  int64_t nodes_before = 0, nodes_after = 0;  ///< with subgraphs
  double ms = 0, verify_ms = 0;
};

struct PassManagerOptions {
  bool verify_each = true;  ///< Verify after every pass that changed the graph
  /// Compare the pass's answer with the graph's fingerprint.
  bool check_answer = true;
  /// Graphs of more nodes are verified after the last pass, and answers are taken as they are:
  /// these checks are of our own code, and take longer than the passes.
  int64_t check_each_up_to = 20000;
  int64_t stop_after = -1;  ///< runs only the first N passes; < 0: all
  /// Called after every pass (dumps).
  std::function<void(const Graph&, const PassRecord&)> after_each = {};
};

/// A pipeline is a list of groups; a group is run again until it changes nothing.
class PassManager {
 public:
  struct Group {
    int max_rounds = 1;
    std::vector<std::unique_ptr<Pass>> passes;
  };
  void Add(std::unique_ptr<Pass> pass) { groups_.emplace_back().passes.push_back(std::move(pass)); }
  void AddGroup(int max_rounds, std::vector<std::unique_ptr<Pass>> passes) {
    groups_.push_back({max_rounds, std::move(passes)});
  }
  const std::vector<Group>& groups() const { return groups_; }
  /// A broken graph or a wrong answer is Internal "after pass fold-x: types: ...".
  Result<std::vector<PassRecord>> Run(Graph& g, PassContext& context,
                                      const PassManagerOptions& options = {});
  /// One line per pass, groups indented; rules below their pass.
  std::string ToString() const;

 private:
  std::vector<Group> groups_;
};

}  // namespace infer
