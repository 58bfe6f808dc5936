/// Bounds upon bounds.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"

namespace infer {

Rule MergeReluClip() {
  Pattern x = Any(), relu = Op("Relu", x), lo = Constant().OrOmitted(), hi = Any().OrOmitted();
  Pattern clip = Op("Clip", relu, lo, hi);
  return {
      .name = "merge-relu-clip",
      .doc = "Clip(Relu(x), lo, hi) => Clip(x, max(0, lo), hi)",
      .match = clip,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const double low = m.Has(lo) ? std::max(0.0, m.scalar(lo)) : 0.0;
        return b("Clip", {m[x], b.Const(FromDoubles(m[x]->dtype(), {}, {low})), m[hi]});
      },
      .fires_on =
          {"graph g(x: f32[9]) -> (y) { h = const f32[] {1}  t = Relu(x)  y = Clip(t, _, h) }",
           R"(graph g(x: f32[9]) -> (y) { l = const f32[] {0.25}  t = Relu(x)
                     y = Clip(t, l) })"},
      .silent_on = {{R"(graph g(x: f32[9]) -> (y, t) { l = const f32[] {0.25}  t = Relu(x)
                       y = Clip(t, l) })",
                     "'t' has other uses"},
                    {"graph g(x: f32[9], l: f32[]) -> (y) { t = Relu(x)  y = Clip(t, l) }",
                     "'l' is not a constant"}},
  };
}

Rule MergeRelus() {
  Pattern inner = Op("Relu", Any()).Shared();
  return {
      .name = "merge-relus",
      .doc = "Relu(Relu(x)) => Relu(x)",
      .match = Op("Relu", inner),
      .build = ReplaceBy(inner),
      .fires_on = {"graph g(x: f32[9]) -> (y) { t = Relu(x)  y = Relu(t) }"},
      .silent_on = {{"graph g(x: f32[9]) -> (y) { t = Abs(x)  y = Relu(t) }",
                     "'t' is a Abs, not a Relu"}},
  };
}

}  // namespace infer
