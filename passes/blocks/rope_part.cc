/// Rotary position embeddings of the first elements of each head: GPT-NeoX, Phi, StableLM.
#include "passes/blocks/blocks.h"
#include "passes/blocks/rope.h"
#include "passes/rewrite/queries.h"
#include "passes/simplify/slice_ranges.h"

namespace infer {
namespace {

/// Half of what is rotated, by a Split of the last axis into two such halves and the rest.
int64_t HalfOf(const Node& split, const Value& x) {
  if (!IsLastAxis(split, x)) return 0;
  const auto first = StaticDim(*split.output(0), -1), second = StaticDim(*split.output(1), -1);
  return first && first == second ? *first : 0;
}

/// The range that a Slice takes of the last axis alone, step 1, counted from the front.
std::optional<SliceRange> RangeOf(const Node& slice) {
  const auto ranges = SliceRangesOf(slice);
  const auto size = StaticDim(*slice.input(0), -1);
  if (!ranges || ranges->size() != 1 || !size || ranges->front().step != 1) return std::nullopt;
  if (ranges->front().axis + 1 != RankOf(*slice.input(0))) return std::nullopt;
  return Counted(ranges->front(), *size);
}

/// `first` and `second` take the halves of what `range` takes.
bool AreHalves(const Node& first, const Node& second, const SliceRange& range) {
  const auto f = RangeOf(first), s = RangeOf(second);
  return f && s && f->start == range.start && f->end == s->start && s->end == range.end &&
         f->end - f->start == s->end - s->start;
}

/// Elements [start, end) of x's last axis.
Result<Value*> Between(Value* x, int64_t start, int64_t end, PatchBuilder& b) {
  if (start == 0 && StaticDim(*x, -1) == end) return x;
  return b("Slice", {x, b.Ints({start}), b.Ints({end}), b.Ints({RankOf(*x) - 1})});
}

constexpr const char* kPart = R"(graph g(x: f32[2,3,S,10], a: f32[1,S,2]) -> (y) {
  z = const i64[1] {0}  h = const i64[1] {2}  r = const i64[1] {4}  l = const i64[1] {3}
  e = const i64[1] {9223372036854775807}  one = const i64[1] {1}  f = Concat(a, a) {axis=-1}
  c1 = Cos(f)  s1 = Sin(f)  c = Unsqueeze(c1, one)  s = Unsqueeze(s1, one)  )";

}  // namespace

Rule FusePartialRope() {
  Pattern x = Any(), cos = Any(), sin = Any();
  Pattern part = Op("Slice", x).MoreInputs(), rest = Op("Slice", x).MoreInputs();
  Pattern first = Op("Slice", x).MoreInputs(), second = Op("Slice", x).MoreInputs();
  Pattern turned = Op("Concat", Op("Neg", second), first);
  Pattern root = Op("Concat", Op("Add", Op("Mul", part, cos), Op("Mul", turned, sin)), rest);
  return {
      .name = "fuse-partial-rope",
      .doc =
          "Concat(p * cos + Concat(-b, a) * sin, r) of a Slice p of x, its halves and what is "
          "behind it => RotaryEmbedding",
      .match = root,
      .when = {{"equal halves of the angles",
                [=](const Match& m) {
                  return TwinsAreEqual(*m[cos], Twins::kHalves) &&
                         TwinsAreEqual(*m[sin], Twins::kHalves);
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto p = RangeOf(m.node(part)), o = RangeOf(m.node(rest));
        const bool fits = p && o && p->end == o->start && IsLastAxis(m.node(root), *m[root]) &&
                          IsLastAxis(m.node(turned), *m[turned]) &&
                          AreHalves(m.node(first), m.node(second), *p);
        if (!fits) return InvalidModel("needs elements of the last axis, and those behind them");
        INFER_ASSIGN(Value * heads, Between(m[x], p->start, o->end, b));
        return Rotated(heads, m[cos], m[sin], false, b, p->end - p->start);
      },
      .fires_on = {std::string(kPart) + R"(p = Slice(x, z, r, l)  x1 = Slice(x, z, h, l)
             x2 = Slice(x, h, r, l)  k = Slice(x, r, e, l)  n = Neg(x2)
             t = Concat(n, x1) {axis=-1}  u = Mul(p, c)  v = Mul(t, s)  w = Add(u, v)
             y = Concat(w, k) {axis=-1} })",
                   std::string(kPart) + R"(i = const i64[1] {6}  j = const i64[1] {9}
             g = const i64[1] {5}  p = Slice(x, one, g, l)  m = const i64[1] {3}
             x1 = Slice(x, one, m, l)  x2 = Slice(x, m, g, l)  k = Slice(x, g, j, l)  n = Neg(x2)
             t = Concat(n, x1) {axis=-1}  u = Mul(p, c)  v = Mul(t, s)  w = Add(u, v)
             y = Concat(w, k) {axis=-1} })"},
      .silent_on = {{std::string(kPart) + R"(b = Neg(a)  g = Concat(a, b) {axis=-1}  c2 = Cos(g)
              d = Unsqueeze(c2, one)  p = Slice(x, z, r, l)  x1 = Slice(x, z, h, l)
              x2 = Slice(x, h, r, l)  k = Slice(x, r, e, l)  n = Neg(x2)
              t = Concat(n, x1) {axis=-1}  m = Sin(g)  v0 = Unsqueeze(m, one)  u = Mul(p, d)
              v = Mul(t, v0)  w = Add(u, v)  y = Concat(w, k) {axis=-1} })",
                     "equal halves of the angles"},
                    {std::string(kPart) + R"(p = Slice(x, z, r, l)  x1 = Slice(x, z, h, l)
              x2 = Slice(x, h, r, l)  i = const i64[1] {-5}  j = const i64[1] {-1}
              k = Slice(x, i, j, l)  n = Neg(x2)  t = Concat(n, x1) {axis=-1}  u = Mul(p, c)
              v = Mul(t, s)  w = Add(u, v)  y = Concat(w, k) {axis=-1} })",
                     "elements of the last axis"},
                    {std::string(kPart) + R"(p = Slice(x, z, r, l)  x1 = Slice(x, z, h, l)
              x2 = Slice(x, h, r, l)  k = Slice(x, r, e, l)  n = Neg(x1)
              t = Concat(n, x2) {axis=-1}  u = Mul(p, c)  v = Mul(t, s)  w = Add(u, v)
              y = Concat(w, k) {axis=-1} })",
                     "elements of the last axis"}},
  };
}

Rule FuseSlicedRope() {
  Pattern x = Any(), cos = Any(), sin = Any();
  Pattern part = Op("Slice", x).MoreInputs();
  Pattern first = Op("Slice", x).MoreInputs(), second = Op("Slice", x).MoreInputs();
  Pattern turned = Op("Concat", Op("Neg", second), first);
  return {
      .name = "fuse-sliced-rope",
      .doc =
          "p * cos + Concat(-b, a) * sin of a Slice p of x and its halves, Slices of x as well => "
          "RotaryEmbedding(p, cos, sin)",
      .match = Op("Add", Op("Mul", part, cos), Op("Mul", turned, sin)),
      .when = {{"equal halves of the angles",
                [=](const Match& m) {
                  return TwinsAreEqual(*m[cos], Twins::kHalves) &&
                         TwinsAreEqual(*m[sin], Twins::kHalves);
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto p = RangeOf(m.node(part));
        const bool fits = p && IsLastAxis(m.node(turned), *m[turned]) &&
                          AreHalves(m.node(first), m.node(second), *p);
        if (!fits) return InvalidModel("needs the two halves of the Slice");
        return Rotated(m[part], m[cos], m[sin], false, b);
      },
      .fires_on = {std::string(kPart) + R"(p = Slice(x, z, r, l)  x1 = Slice(x, z, h, l)
             x2 = Slice(x, h, r, l)  n = Neg(x2)  t = Concat(n, x1) {axis=-1}  u = Mul(p, c)
             v = Mul(t, s)  y = Add(u, v) })",
                   std::string(kPart) + R"(i = const i64[1] {6}  j = const i64[1] {-2}
             p = Slice(x, r, j, l)  x1 = Slice(x, r, i, l)  x2 = Slice(x, i, j, l)  n = Neg(x2)
             t = Concat(n, x1) {axis=-1}  u = Mul(p, c)  v = Mul(t, s)  y = Add(u, v) })"},
      .silent_on = {{std::string(kPart) + R"(b = Neg(a)  g = Concat(a, b) {axis=-1}  c2 = Cos(g)
              d = Unsqueeze(c2, one)  p = Slice(x, z, r, l)  x1 = Slice(x, z, h, l)
              x2 = Slice(x, h, r, l)  n = Neg(x2)  t = Concat(n, x1) {axis=-1}  m = Sin(g)
              k = Unsqueeze(m, one)  u = Mul(p, d)  v = Mul(t, k)  y = Add(u, v) })",
                     "equal halves of the angles"},
                    {std::string(kPart) + R"(p = Slice(x, z, r, l)  x1 = Slice(x, z, h, l)
              x2 = Slice(x, h, r, l)  n = Neg(x1)  t = Concat(n, x2) {axis=-1}  u = Mul(p, c)
              v = Mul(t, s)  y = Add(u, v) })",
                     "the two halves of the Slice"}},
  };
}

Rule FuseRopeOfPart() {
  Pattern x = Any(), cos = Any(), sin = Any();
  const auto parts = OpResults("Split", {x, Any().OrOmitted()}, 2);
  Pattern sliced = Op("Slice", x).MoreInputs().Shared(),
          others = Op("Slice", x).MoreInputs().Shared();
  Pattern part = OneOf({parts[0], sliced}), rest = OneOf({parts[1], others});
  Pattern whole_rope = Op("RotaryEmbedding", part, cos, sin);
  // Heads side by side, as where positions stand before the heads.
  Pattern flat = Op("Reshape", part, Any()), flat_rope = Op("RotaryEmbedding", flat, cos, sin);
  Pattern back = Op("Reshape", flat_rope, Any());
  Pattern root = Op("Concat", OneOf({whole_rope, back}), rest);
  return {
      .name = "fuse-rope-of-part",
      .doc =
          "Concat(RotaryEmbedding(x[s:r], cos, sin), x[r:e]) => RotaryEmbedding(x[s:e], cos, sin)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto size = StaticDim(*m[x], -1), rotated = StaticDim(*m[part], -1);
        Value* whole = m[x];
        const bool beside = m.Has(back);
        const int64_t heads = beside ? StaticDim(*m[x], 2).value_or(0) : 0;
        const Node& rope = m.node(beside ? flat_rope : whole_rope);
        bool fits = size && rotated && RankOf(*m[x]) == 4 && IsLastAxis(m.node(root), *m[root]) &&
                    m.Has(sliced) == m.Has(others) &&
                    rope.Attr<int64_t>("rotary_embedding_dim") == 0;
        if (beside)
          fits = fits && heads > 0 && RankOf(*m[flat]) == 3 && SameKnownType(*m[back], *m[part]) &&
                 rope.AttrOr<int64_t>("num_heads", 0) == heads &&
                 StaticDim(*m[flat], 2) == heads * *rotated;
        if (fits && m.Has(sliced)) {
          const auto p = RangeOf(m.node(sliced)), o = RangeOf(m.node(others));
          fits = p && o && p->end == o->start;
          if (fits) {
            INFER_ASSIGN(whole, Between(whole, p->start, o->end, b));
          }
        } else if (fits) {
          fits = IsLastAxis(m.node(parts[0]), *m[x]);
        }
        if (!fits) return InvalidModel("needs elements of the last axis, and those behind them");
        AttrMap attrs = rope.attrs();
        attrs["rotary_embedding_dim"] = *rotated;
        if (!beside) return b("RotaryEmbedding", {whole, m[cos], m[sin]}, std::move(attrs));
        const auto width = StaticDim(*whole, 3);
        if (!width) return InvalidModel("needs heads of a known size");
        INFER_ASSIGN(Value * y, b("Reshape", {whole, b.Ints({0, 0, heads * *width})}));
        INFER_ASSIGN(y, b("RotaryEmbedding", {y, m[cos], m[sin]}, std::move(attrs)));
        return b("Reshape", {y, b.Ints({0, 0, heads, *width})});
      },
      .fires_on = {R"(graph g(x: f32[2,3,5,10], c: f32[2,5,2], s: f32[2,5,2]) -> (y) {
             n = const i64[2] {4, 6}  p, k = Split(x, n) {axis=-1}
             t = RotaryEmbedding(p, c, s) {interleaved=1}  y = Concat(t, k) {axis=3} })",
                   R"(graph g(x: f32[2,3,5,10], c: f32[2,5,2], s: f32[2,5,2]) -> (y) {
             z = const i64[1] {0}  r = const i64[1] {4}  e = const i64[1] {10}
             l = const i64[1] {-1}  p = Slice(x, z, r, l)  k = Slice(x, r, e, l)
             t = RotaryEmbedding(p, c, s)  y = Concat(t, k) {axis=-1} })",
                   R"(graph g(x: f32[N,S,3,10], c: f32[N,S,2], s: f32[N,S,2]) -> (y) {
             n = const i64[2] {4, 6}  f = const i64[3] {0,0,12}  h = const i64[4] {0,0,3,4}
             p, k = Split(x, n) {axis=-1}  q = Reshape(p, f)
             t = RotaryEmbedding(q, c, s) {num_heads=3, interleaved=1}  r = Reshape(t, h)
             y = Concat(r, k) {axis=3} })",
                   R"(graph g(x: f32[2,3,5,30], c: f32[2,5,2], s: f32[2,5,2]) -> (y) {
             z = const i64[1] {10}  r = const i64[1] {14}  e = const i64[1] {20}
             l = const i64[1] {3}  p = Slice(x, z, r, l)  k = Slice(x, r, e, l)
             t = RotaryEmbedding(p, c, s)  y = Concat(t, k) {axis=-1} })"},
      .silent_on = {{R"(graph g(x: f32[2,6,5,4], c: f32[2,5,2], s: f32[2,5,2]) -> (y) {
              n = const i64[2] {2, 4}  p, k = Split(x, n) {axis=1}
              t = RotaryEmbedding(p, c, s)  y = Concat(t, k) {axis=1} })",
                     "elements of the last axis"},
                    {R"(graph g(x: f32[2,3,5,10], c: f32[2,5,2], s: f32[2,5,2]) -> (y) {
              z = const i64[1] {0}  r = const i64[1] {4}  e = const i64[1] {10}
              l = const i64[1] {-1}  p = Slice(x, z, r, l)  k = Slice(x, z, e, l)
              t = RotaryEmbedding(p, c, s)  y = Concat(t, k) {axis=-1} })",
                     "elements of the last axis"}},
  };
}

Rule FuseSplitPartialRope() {
  Pattern x = Any(), cos = Any(), sin = Any();
  const auto parts = OpResults("Split", {x, Any().OrOmitted()}, 3);
  Pattern real = Op("Sub", Op("Mul", parts[0], cos), Op("Mul", parts[1], sin));
  Pattern imaginary = Op("Add", Op("Mul", parts[0], sin), Op("Mul", parts[1], cos));
  Pattern root = Op("Concat", real, imaginary, parts[2]);
  return {
      .name = "fuse-split-partial-rope",
      .doc =
          "parts (a, b, c) of x => Concat(a * cos - b * sin, a * sin + b * cos, c) => "
          "RotaryEmbedding",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const int64_t half = HalfOf(m.node(parts[0]), *m[x]);
        if (half == 0 || !IsLastAxis(m.node(root), *m[root]) || !SameKnownType(*m[x], *m[root]))
          return InvalidModel("needs two parts of one size, and the rest of the last axis");
        return Rotated(m[x], m[cos], m[sin], false, b, 2 * half);
      },
      .fires_on = {R"(graph g(x: f32[N,S,30], c: f32[N,S,2], s: f32[N,S,2]) -> (y) {
             h = const i64[4] {0,0,3,10}  n = const i64[3] {2,2,6}  i = const i64[1] {2}
             x4 = Reshape(x, h)  c4 = Unsqueeze(c, i)  s4 = Unsqueeze(s, i)
             a1, b1, k = Split(x4, n) {axis=-1}  ca = Mul(c4, a1)  sb = Mul(s4, b1)
             r = Sub(ca, sb)  sa = Mul(s4, a1)  cb = Mul(c4, b1)  m = Add(sa, cb)
             y = Concat(r, m, k) {axis=-1} })"},
      .silent_on = {{R"(graph g(x: f32[2,3,5,9], c: f32[5,1], s: f32[5,1]) -> (y) {
              n = const i64[3] {1,2,6}  a1, b1, k = Split(x, n) {axis=-1}  ca = Mul(a1, c)
              sb = Mul(b1, s)  r = Sub(ca, sb)  cb = Mul(b1, c)  sa = Mul(a1, s)
              i = Add(cb, sa)  y = Concat(r, i, k) {axis=3} })",
                     "two parts of one size"}},
  };
}

}  // namespace infer
