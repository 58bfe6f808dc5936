#include "passes/rewrite/bisect.h"

namespace infer {

Result<std::optional<Bisection>> FindFirstBad(int64_t total, const JudgeRewrites& judge) {
  Bisection b;
  INFER_ASSIGN(b.after, judge(total));
  ++b.tried;
  if (b.after.good) return std::optional<Bisection>();
  INFER_ASSIGN(b.before, judge(0));
  ++b.tried;
  if (!b.before.good)
    return InvalidArgument("the model is outside of the tolerance without any rule's rewrite");
  while (b.before.rewrites + 1 < b.after.rewrites) {
    INFER_ASSIGN(const BisectStep middle,
                 judge(b.before.rewrites + (b.after.rewrites - b.before.rewrites) / 2));
    ++b.tried;
    (middle.good ? b.before : b.after) = middle;
  }
  return std::optional(b);
}

}  // namespace infer
