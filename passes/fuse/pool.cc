/// Pooling written as something else.
#include <algorithm>
#include <limits>

#include "passes/fuse/formulas.h"
#include "passes/fuse/fusions.h"
#include "passes/fuse/row_norm.h"
#include "passes/rewrite/queries.h"

namespace infer {

Rule FuseGlobalAveragePool() {
  Pattern x = Any(), axes = Constant(), mean = MeanOf(x, axes);
  return {
      .name = "fuse-global-average-pool",
      .doc = "ReduceMean(x) over all spatial axes, two at least => GlobalAveragePool(x)",
      .match = mean.Where(
          "over all spatial axes, two at least",
          [](const Value& v) { return RankOf(v) >= 4 && FirstTrailingAxis(*v.producer()) == 2; }),
      .build = [=](const Match& m, PatchBuilder& b) { return b("GlobalAveragePool", {m[x]}); },
      .fires_on = {"graph g(x: f32[N,3,4,5]) -> (y) { a = const i64[2] {2,3} "
                   "y = ReduceMean(x, a) }",
                   "graph g(x: f32[N,3,H,W]) -> (y) { a = const i64[2] {-1,-2} "
                   "y = ReduceMean(x, a) }"},
      .silent_on = {{"graph g(x: f32[N,3,4,5]) -> (y) { a = const i64[1] {3} "
                     "y = ReduceMean(x, a) }",
                     "is not over all spatial axes"},
                    {"graph g(x: f32[N,3,4,5]) -> (y) { a = const i64[2] {2,3} "
                     "y = ReduceMean(x, a) {keepdims=0} }",
                     "made with keepdims=1"},
                    {"graph g(x: i32[N,3,4,5]) -> (y) { a = const i64[2] {2,3} "
                     "y = ReduceMean(x, a) }",
                     "i32"}},
  };
}

}  // namespace infer
