#include "tools/infer_opt/fuse/rewrite.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// The rule without which alone the file can be written; where there is none the last that applied.
/// "": none did.
Result<std::string> ToBlame(const Graph& as_came, const Model& model, const OptimizeReport& done,
                            const OptimizeOptions& options, const ExportFlags& exported) {
  std::string last;
  for (const auto& [rule, summary] : done.rules) {
    if (summary.applied == 0) continue;
    last = rule;
    OptimizeOptions without = options;
    without.disable.push_back(rule);
    without.captured.reset();  // checked when it is taken
    Model tried(as_came.Clone());
    tried.info = model.info;
    INFER_TRY(Optimize(tried.graph, std::move(without)).status());
    if (exported.CheckExpressible(tried).ok()) return rule;
  }
  return last;
}

}  // namespace

Result<OptimizeReport> RewriteForFile(Context& context, Model& model,
                                      const OptimizeOptions& options, const ExportFlags* exported) {
  const Graph as_came = model.graph.Clone();
  OptimizeOptions wanted = options;
  std::vector<std::string> left_out;
  for (;;) {
    OptimizeOptions once = wanted;
    INFER_ASSIGN(OptimizeReport done, Optimize(model.graph, std::move(once)));
    const Status said = exported ? exported->CheckExpressible(model) : Status();
    std::string rule;
    if (said.code() == Code::kUnsupported) {
      INFER_ASSIGN(rule, ToBlame(as_came, model, done, wanted, *exported));
    }
    if (rule.empty()) {
      if (!left_out.empty())
        context.Note(Cat("rules left out, since the opset of the file cannot say what they make: ",
                         Join(left_out, ", "), " (--opset max keeps them)"));
      return done;
    }
    left_out.push_back(rule);
    wanted.disable.push_back(rule);
    model.graph = as_came.Clone();
  }
}

}  // namespace infer
