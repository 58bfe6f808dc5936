/// Rotary position embeddings of pairs beside each other, of a part of what they are read from:
/// GPT-J, CodeGen, GLM (the first elements of each head), EVA02 (the tokens behind the first).
#include <algorithm>

#include "passes/blocks/blocks.h"
#include "passes/blocks/rope.h"
#include "passes/rewrite/queries.h"
#include "passes/simplify/slice_ranges.h"

namespace infer {
namespace {

/// Elements of a value along its last axis, and how its other axes are cut, as written.
struct Taken {
  SliceRange last;
  std::vector<SliceRange> others;
  int64_t count() const { return (last.end - last.start + last.step - 1) / last.step; }
};

/// By a Slice with known bounds, or a Split of the last axis.
std::optional<Taken> TakenOf(const Value& part) {
  const Node& n = *part.producer();
  const Value& x = *n.input(0);
  const auto size = StaticDim(x, -1);
  if (!size) return std::nullopt;
  const int64_t last = RankOf(x) - 1;
  Taken t{{last, 0, *size, 1}, {}};
  if (n.Is("Split")) {
    if (!IsLastAxis(n, x)) return std::nullopt;
    for (const Value* y : n.outputs()) {
      const auto extent = StaticDim(*y, -1);
      if (!extent) return std::nullopt;
      t.last.end = t.last.start + *extent;
      if (y == &part) return t;
      t.last.start = t.last.end;
    }
    return std::nullopt;
  }
  const auto ranges = SliceRangesOf(n);
  if (!ranges) return std::nullopt;
  for (const SliceRange& r : *ranges) {
    if (r.axis != last) {
      t.others.push_back(r);
      continue;
    }
    const auto counted = Counted(r, *size);
    if (!counted) return std::nullopt;
    t.last = *counted;
  }
  std::ranges::sort(t.others, {}, &SliceRange::axis);
  return t;
}

bool CutAlike(const Taken& a, const Taken& b) {
  return std::ranges::equal(a.others, b.others, [](const SliceRange& r, const SliceRange& s) {
    return r.axis == s.axis && r.start == s.start && r.end == s.end && r.step == s.step;
  });
}

/// The even and the odd elements of what `part` has.
bool ArePairsOf(const Value& even, const Value& odd, const Value& part) {
  const auto p = TakenOf(part), e = TakenOf(even), o = TakenOf(odd);
  if (!p || !e || !o || p->last.step != 1 || p->count() % 2 != 0) return false;
  return CutAlike(*e, *p) && CutAlike(*o, *p) && e->last.step == 2 && o->last.step == 2 &&
         e->last.start == p->last.start && o->last.start == p->last.start + 1 &&
         e->count() == p->count() / 2 && o->count() == p->count() / 2;
}

}  // namespace

Result<Value*> WithThesePairs(const Value& even, const Value& odd, int64_t size, PatchBuilder& b) {
  const auto e = TakenOf(even), o = TakenOf(odd);
  if (!e || !o || !CutAlike(*e, *o) || e->last.step != 2 || o->last.step != 2 ||
      o->last.start != e->last.start + 1 || e->count() != size / 2 || o->count() != size / 2)
    return InvalidModel("needs the pairs of the last axis");
  Value* x = even.producer()->input(0);
  if (e->others.empty() && e->last.start == 0 && StaticDim(*x, -1) == size) return x;
  std::vector<SliceRange> ranges = e->others;
  ranges.push_back({e->last.axis, e->last.start, e->last.start + size, 1});
  return BuildSlice(b, x, ranges);
}

namespace {

constexpr const char* kSlicedPairs = R"(graph g(x: f32[2,5,3,10], a: f32[2,5,4]) -> (y) {
  b = const i64[4] {2,5,3,8}  z = const i64[1] {0}  one = const i64[1] {1}  two = const i64[1] {2}
  m = const i64[1] {8}  k = const i64[1] {7}  l = const i64[1] {-1}  t = const i64[1] {3}
  u = const i64[2] {2,4}  d = const i64[5] {1,1,1,1,2}
  v1 = Unsqueeze(a, u)  v2 = Tile(v1, d)  v3 = const i64[4] {2,5,1,8}  f = Reshape(v2, v3)
  c = Cos(f)  s = Sin(f)  e = Slice(x, z, k, t, two)  o = Slice(x, one, m, t, two)  n = Neg(o)
  n1 = Unsqueeze(n, l)  e1 = Unsqueeze(e, l)  w = Concat(n1, e1) {axis=-1}  r = Reshape(w, b)
  )";

struct PairsPattern {
  Pattern x, cos, sin;
  std::vector<Pattern> parts = OpResults("Split", {x, Any().OrOmitted()}, 2);
  Pattern sliced = Op("Slice", x).MoreInputs(), part = OneOf({sliced, parts[0], parts[1]});
  Pattern even = Op("Slice", x).MoreInputs(), odd = Op("Slice", x).MoreInputs();
  Pattern stack = Op("Concat", Op("Unsqueeze|Reshape", Op("Neg", odd), Any()),
                     Op("Unsqueeze|Reshape", even, Any()));
  Pattern turned = Op("Reshape", stack, Any());
  Pattern sum = Op("Add", Op("Mul", part, cos), Op("Mul", turned, sin));

  Rule::Guard EqualAngles() const {
    return {"equal angles of a pair", [*this](const Match& m) {
              return TwinsAreEqual(*m[cos], Twins::kPairs) && TwinsAreEqual(*m[sin], Twins::kPairs);
            }};
  }
  bool Fits(const Match& m) const {
    const auto size = StaticDim(*m[part], -1);
    return size && SameKnownType(*m[part], *m[turned]) &&
           HoldsPairs(*m[stack], RankOf(*m[part]), *size) && IsLastAxis(m.node(stack), *m[stack]) &&
           ArePairsOf(*m[even], *m[odd], *m[part]);
  }
};

}  // namespace

Rule FusePartialPairsRope() {
  const PairsPattern p;
  Pattern sliced = Op("Slice", p.x).MoreInputs(), rest = OneOf({sliced, p.parts[1]});
  Pattern root = Op("Concat", p.sum, rest);
  return {
      .name = "fuse-partial-pairs-rope",
      .doc =
          "Concat(p * cos + pairs (-b, a) of p's (a, b) * sin, r) of a part p of x and what is "
          "behind it => RotaryEmbedding",
      .match = root,
      .when = {p.EqualAngles()},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto front = TakenOf(*m[p.part]), back = TakenOf(*m[rest]);
        const bool fits = p.Fits(m) && front && back && IsLastAxis(m.node(root), *m[root]) &&
                          front->others.empty() && back->others.empty() && back->last.step == 1 &&
                          front->last.end == back->last.start;
        if (!fits) return InvalidModel("needs pairs of the last axis, and what is behind them");
        Value* heads = m[p.x];
        if (front->last.start != 0 || StaticDim(*heads, -1) != back->last.end) {
          SliceRange both = front->last;
          both.end = back->last.end;
          INFER_ASSIGN(heads, BuildSlice(b, heads, {both}));
        }
        INFER_ASSIGN(Value * c, OneOfEachPair(m[p.cos], b));
        INFER_ASSIGN(Value * s, OneOfEachPair(m[p.sin], b));
        return Rotated(heads, c, s, true, b, front->count());
      },
      .fires_on = {std::string(kSlicedPairs) + R"(p = Slice(x, z, m, t)  g = Mul(p, c)
             q = Mul(r, s)  i = Add(g, q)  ten = const i64[1] {10}  h = Slice(x, m, ten, t)
             y = Concat(i, h) {axis=-1} })",
                   std::string(kSlicedPairs) + R"(h = const i64[2] {8,2}
             p, h1 = Split(x, h) {axis=-1}  g = Mul(p, c)  q = Mul(r, s)  i = Add(g, q)
             y = Concat(i, h1) {axis=3} })"},
      .silent_on = {{std::string(kSlicedPairs) + R"(p = Slice(x, z, m, t)  g = Mul(p, c)
              q = Mul(r, s)  i = Add(g, q)  h = Slice(x, z, two, t)  y = Concat(i, h) {axis=-1} })",
                     "what is behind them"},
                    {std::string(kSlicedPairs) +
                         R"(p = Slice(x, z, m, t)  h0 = Concat(a, a) {axis=-1}
              h1 = Unsqueeze(h0, two)  j = Cos(h1)  g = Mul(p, j)  q = Mul(r, s)  i = Add(g, q)
              ten = const i64[1] {10}  h = Slice(x, m, ten, t)  y = Concat(i, h) {axis=-1} })",
                     "equal angles of a pair"}},
  };
}

Rule FuseSlicedPairsRope() {
  const PairsPattern p;
  return {
      .name = "fuse-sliced-pairs-rope",
      .doc =
          "p * cos + pairs (-b, a) of p's (a, b) * sin, p and these Slices of x => "
          "RotaryEmbedding(p, cos, sin)",
      .match = p.sum,
      .when = {p.EqualAngles()},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        if (!p.Fits(m)) return InvalidModel("needs the pairs of the Slice");
        INFER_ASSIGN(Value * c, OneOfEachPair(m[p.cos], b));
        INFER_ASSIGN(Value * s, OneOfEachPair(m[p.sin], b));
        return Rotated(m[p.part], c, s, true, b);
      },
      .fires_on = {std::string(kSlicedPairs) + R"(p = Slice(x, z, m, t)  g = Mul(p, c)
             q = Mul(r, s)  y = Add(g, q) })",
                   std::string(kSlicedPairs) +
                       R"(h = const i64[2] {8,2}  p, rest = Split(x, h) {axis=-1}
             g = Mul(p, c)  q = Mul(r, s)  y = Add(g, q) })",
                   // Tokens behind the first, one table for all.
                   R"(graph g(x: f32[2,3,6,4]) -> (y) { b = const i64[4] {2,3,5,4}
             c = const f32[5,4] {1,1,2,2,3,3,4,4,5,5,6,6,7,7,8,8,9,9,1,1}  one = const i64[1] {1}
             e9 = const i64[1] {9}  two = const i64[1] {2}  l = const i64[1] {-1}
             es = const i64[2] {1,0}  ee = const i64[2] {9,9}  ax = const i64[2] {2,3}
             st = const i64[2] {1,2}  os = const i64[2] {1,1}  p = Slice(x, one, e9, two)
             e = Slice(x, es, ee, ax, st)  o = Slice(x, os, ee, ax, st)  n = Neg(o)
             n1 = Unsqueeze(n, l)  e1 = Unsqueeze(e, l)  w = Concat(n1, e1) {axis=-1}
             r = Reshape(w, b)  g = Mul(p, c)  q = Mul(r, c)  y = Add(g, q) })"},
      .silent_on = {{std::string(kSlicedPairs) + R"(e9 = const i64[1] {10}  p = Slice(x, two, e9, t)
             g = Mul(p, c)  q = Mul(r, s)  y = Add(g, q) })",
                     "the pairs of the Slice"},
                    {std::string(kSlicedPairs) +
                         R"(p = Slice(x, z, m, t)  h = Concat(a, a) {axis=-1}
             h1 = Unsqueeze(h, two)  i = Cos(h1)  g = Mul(p, i)  q = Mul(r, s)  y = Add(g, q) })",
                     "equal angles of a pair"}},
  };
}

}  // namespace infer
