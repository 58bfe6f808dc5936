#include <chrono>

#include "lib/ir/inference.h"
#include "lib/ir/verify.h"
#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "passes/pass/pass.h"

namespace infer {
namespace {

/// A failure of ours, whatever the law that found it calls it; but scales and zero points that the
/// model computes are seen only once they are folded.
Status AsBug(const Status& s, const std::string& where) {
  if (s.ok()) return {};
  const std::string message = Cat(where, ": ", s.message());
  return s.message().starts_with("quant: ") ? InvalidModel(message) : Internal(message);
}

Result<PassRecord> RunOne(Pass& pass, Graph& g, PassContext& context,
                          const PassManagerOptions& options, uint64_t& fingerprint) {
  const std::string where = Cat("after pass ", pass.name());
  PassRecord record{.name = pass.name()};
  record.nodes_before = static_cast<int64_t>(g.total_nodes());
  const auto start = std::chrono::steady_clock::now();
  auto changed = pass.Run(g, context);
  record.ms = MsSince(start);
  if (!changed.ok()) return changed.status().In(Cat("pass ", pass.name()));
  record.changed = *changed;
  // A pass may make a value's type more specific; what its readers compute then is so too.
  if (*changed) INFER_TRY(AsBug(RefineTypes(g), where));
  record.nodes_after = static_cast<int64_t>(g.total_nodes());
  const auto checks = std::chrono::steady_clock::now();
  if (options.check_answer) {
    const uint64_t now = Fingerprint(g);
    if ((now != fingerprint) != *changed)
      return Internal(Cat(where, ": it says that the graph is ", *changed ? "changed" : "as before",
                          ", but the fingerprint is ", *changed ? "the same" : "another"));
    fingerprint = now;
  }
  if (options.verify_each && *changed) INFER_TRY(AsBug(Verify(g), where));
  record.verify_ms = MsSince(checks);
  return record;
}

}  // namespace

Result<std::vector<PassRecord>> PassManager::Run(Graph& g, PassContext& context,
                                                 const PassManagerOptions& options) {
  std::vector<PassRecord> records;
  if (options.verify_each) INFER_TRY(Verify(g, {.live = false}).In("before the first pass"));
  const bool each = static_cast<int64_t>(g.total_nodes()) <= options.check_each_up_to;
  PassManagerOptions of_each = options;
  of_each.verify_each = options.verify_each && each;
  of_each.check_answer = options.check_answer && each;
  uint64_t fingerprint = of_each.check_answer ? Fingerprint(g) : 0;
  bool changed = false;
  for (Group& group : groups_) {
    bool again = true;
    for (int round = 0; again && round < group.max_rounds; ++round) {
      again = false;
      for (auto& pass : group.passes) {
        if (static_cast<int64_t>(records.size()) == options.stop_after) return records;
        INFER_ASSIGN(PassRecord record, RunOne(*pass, g, context, of_each, fingerprint));
        record.round = round;
        again = again || record.changed;
        changed = changed || record.changed;
        if (options.after_each) options.after_each(g, record);
        records.push_back(std::move(record));
      }
    }
  }
  if (options.verify_each && !each && changed) {
    const auto begin = std::chrono::steady_clock::now();
    INFER_TRY(AsBug(Verify(g), "after the last pass"));
    records.back().verify_ms += MsSince(begin);
  }
  return records;
}

std::string PassManager::ToString() const {
  std::string text;
  for (const Group& group : groups_) {
    if (group.max_rounds > 1) text += Cat("repeat (at most ", group.max_rounds, " times)\n");
    const std::string indent = group.max_rounds > 1 ? "  " : "";
    for (const auto& pass : group.passes) {
      text += Cat(indent, pass->name(), '\n');
      if (const auto* rules = dynamic_cast<const RulePass*>(pass.get()))
        for (const Rule& r : rules->rules()) text += Cat(indent, "  ", r.name, '\n');
    }
  }
  return text;
}

}  // namespace infer
