/// Transpositions that move through what lies between them, so that they meet and cancel.
#include <algorithm>

#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"
#include "passes/simplify/transpose_region.h"

namespace infer {

Rule MoveTransposes() {
  Pattern root =
      Op("Transpose", Any())
          .Where("beside an operator that works in any order of axes", [](const Value& v) {
            const Node* above = v.producer()->input(0)->producer();
            return (above && MayPermute(*above)) ||
                   std::any_of(v.uses().begin(), v.uses().end(),
                               [](const Use& u) { return MayPermute(*u.user); });
          });
  return {
      .name = "move-transposes",
      .doc =
          "operators between Transposes => the same in the other order of axes, with fewer "
          "Transposes that move no more bytes",
      .match = root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        for (const bool upwards : {false, true}) {
          TransposeRegion region(*m[root]->producer(), upwards);
          if (!region.Settle().Pays()) continue;
          INFER_TRY(region.Build(b));
          return nullptr;
        }
        return InvalidModel("needs a region with fewer Transposes in the other order");
      },
      .fires_on =
          {// NHWC in, bias, activation, residual, NHWC out
           R"(graph g(x: f32[2,3,4,5]) -> (y) { c = const f32[3] {1,2,3}
              t = Transpose(x) {perm=[0,2,3,1]}  a = Add(t, c)  r = Relu(a)  s = Mul(a, r)
              y = Transpose(s) {perm=[0,3,1,2]} })",
           // two operands, one result
           R"(graph g(x: f32[N,3,4,5], z: f32[N,3,4,5]) -> (y) {
              t = Transpose(x) {perm=[0,2,3,1]}  u = Transpose(z) {perm=[0,2,3,1]}
              y = Sub(t, u) })",
           R"(graph g(x: f32[2,3,4], z: f32[2,3,4]) -> (y, w) {
              t = Transpose(x) {perm=[0,2,1]}  u = Transpose(z) {perm=[0,2,1]}
              c = Concat(t, u) {axis=2}  y = Softmax(c) {axis=-1}  i = const i64[2] {0,3}
              g = Gather(c, i) {axis=2}  w = Transpose(g) {perm=[0,2,1]} })",
           // the mean over space, which no order of axes survives
           R"(graph g(x: f32[N,3,4,5]) -> (y) { a = const i64[2] {1,2}
              t = Transpose(x) {perm=[0,2,3,1]}  y = ReduceMean(t, a) {keepdims=0} })",
           R"(graph g(x: f32[N,3,4,5]) -> (y) { a = const i64[2] {1,-2}
              p = const i64[8] {0,1,0,0,0,0,2,0}  b = const i64[1] {1}  e = const i64[1] {-1}
              i = const i64[1] {-1}  t = Transpose(x) {perm=[0,2,3,1]}  q = Pad(t, p)
              s = Slice(q, b, e, i)  m = ReduceMax(s, a)  y = Transpose(m) {perm=[0,3,1,2]} })",
           R"(graph g(x: f32[N,4,6]) -> (y, z) { t = Transpose(x) {perm=[0,2,1]}
              a, b = Split(t) {axis=1, num_outputs=2}  y = Transpose(a) {perm=[0,2,1]}
              r = Tanh(b)  z = Transpose(r) {perm=[0,2,1]} })",
           // upwards: one instead of two
           R"(graph g(x: f32[N,4,6]) -> (y, z) { r = Relu(x)  s = Sigmoid(r)
              y = Transpose(r) {perm=[0,2,1]}  z = Transpose(s) {perm=[0,2,1]} })",
           // the shape is asked for, too
           R"(graph g(x: f32[N,S,6]) -> (y, z) { t = Transpose(x) {perm=[0,2,1]}  r = Relu(t)
              z = Shape(r)  y = Transpose(r) {perm=[0,2,1]} })",
           R"(graph g(x: f32[2,3,4,5]) -> (y) { s = const f32[5] {0.5,1,2,3,4}
              o = const u8[5] {1,2,3,4,5}  t = Transpose(x) {perm=[0,1,3,2]}
              q = QuantizeLinear(t, s, o) {axis=2}  y = Transpose(q) {perm=[0,1,3,2]} })",
           // a product of few channels on either side of a Softmax, as talking heads have it
           R"(graph g(x: f32[N,3,4,5]) -> (y) { w = const f32[3,2] ~1  b = const f32[2] ~2
              v = const f32[2,3] ~3  t = Transpose(x) {perm=[0,2,3,1]}  p = MatMul(t, w)
              a = Add(p, b)  s = Softmax(a) {axis=2}  q = MatMul(s, v)
              y = Transpose(q) {perm=[0,3,1,2]} })",
           R"(graph g(x: f32[2,3,4]) -> (y) { w = const f32[3,3] ~1
              t = Transpose(x) {perm=[0,2,1]}  p = MatMul(t, w)
              y = Transpose(p) {perm=[0,2,1]} })"},
      .silent_on =
          {{R"(graph g(x: f32[N,3,4]) -> (y) { t = Transpose(x) {perm=[0,2,1]}  y = Relu(t) })",
            "a region with fewer Transposes"},
           // as many as before
           {R"(graph g(x: f32[N,3,4], z: f32[N,4,3]) -> (y) { t = Transpose(x) {perm=[0,2,1]}
               y = Add(t, z) })",
            "a region with fewer Transposes"},
           // a small one less, a large one more
           {R"(graph g(x: f32[1,1,4], z: f32[9,4,7], u: f32[1,1,4]) -> (y) {
               t = Transpose(x) {perm=[0,2,1]}  v = Transpose(u) {perm=[0,2,1]}  a = Mul(z, t)
               y = Add(a, v) })",
            "a region with fewer Transposes"},
           // not the channels that the product sums over
           {R"(graph g(x: f32[2,3,4]) -> (y) { w = const f32[3,3] ~1
               t = Transpose(x) {perm=[2,0,1]}  p = MatMul(t, w)
               y = Transpose(p) {perm=[1,2,0]} })",
            "a region with fewer Transposes"},
           {R"(graph g(x: f32[N,3,4], s: f32[4]) -> (y) { t = Transpose(x) {perm=[0,2,1]}
               u = Transpose(t) {perm=[1,0,2]}  y = Shape(u) })",
            "works in any order of axes"}},
  };
}

}  // namespace infer
