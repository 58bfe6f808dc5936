/// Rotary position embeddings: halves of each head rotated against each other, or pairs beside each
/// other.
#include "passes/blocks/rope.h"

#include <algorithm>

#include "passes/blocks/attention.h"
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

bool TwinsAreEqual(const Tensor& t, int64_t size, Twins twins) {
  const bool halves = twins == Twins::kHalves;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const bool is_first = halves ? i % size < size / 2 : i % 2 == 0;
    if (is_first && t.At(i) != t.At(i + (halves ? size / 2 : 1))) return false;
  }
  return true;
}

/// v[.., D/2, 2] has every number twice along its last axis.
bool RepeatsEach(const Value& v) {
  const Node* n = v.producer();
  if (!n || n->inputs().empty() || !n->input(0) || StaticDim(v, -1) != 2) return false;
  const Value& x = *n->input(0);
  if (StaticDim(x, -1) != 1) return false;
  if (n->Is(Trait::kConcatenation)) return n->inputs().size() == 2 && n->input(0) == n->input(1);
  return n->Is("Expand") || n->Is("Tile");
}

bool TwinsAreEqualAt(const Value& v, Twins twins, int depth) {
  const auto size = StaticDim(v, -1);
  if (!size || *size % 2 != 0 || depth > 12) return false;
  if (v.is_constant()) return TwinsAreEqual(*v.constant(), *size, twins);
  const Node* n = v.producer();
  if (!n || n->inputs().empty() || !n->input(0)) return false;
  const Value& x = *n->input(0);
  const auto below = [&](const Value& from) {
    return StaticDim(from, -1) == size && TwinsAreEqualAt(from, twins, depth + 1);
  };
  if (n->Is(Trait::kUnary)) return below(x);
  if (n->Is("Mul") || n->Is("Div")) {
    const Value& y = *n->input(1);
    if (y.is_constant() && y.constant()->num_elements() == 1) return below(x);
    return n->Is("Mul") && x.is_constant() && x.constant()->num_elements() == 1 && below(y);
  }
  if (twins == Twins::kPairs && n->Is(Trait::kView) && StaticDim(x, -1) == 2)
    return StaticDim(x, -2) == *size / 2 && RepeatsEach(x);
  if (n->IsAny(Trait::kView | Trait::kStrided) || n->Is(Trait::kSliceLookup))
    return OperandAxis(CallOf(*n), 0, v.producer_index(), RankOf(v) - 1) == RankOf(x) - 1 &&
           below(x);
  if (twins != Twins::kHalves || !n->Is(Trait::kConcatenation) || n->inputs().size() != 2 ||
      n->input(0) != n->input(1))
    return false;
  const auto axis = n->Attr<int64_t>("axis");
  return axis == -1 || axis + 1 == RankOf(v);
}

/// Which axis of x [B,?,?,D] the heads are, by angles that are the same for all of them; 0: none.
int HeadAxis(const Value& x, const Value& angles) {
  if (RankOf(x) != 4) return 0;
  const int rank = RankOf(angles);
  if (rank == 4 && StaticDim(angles, 2) == 1 && SameDim(angles, 1, x, 1) && StaticDim(x, 1) != 1)
    return 2;
  if (rank < 2 || rank > 4 || !SameDim(angles, -2, x, 2)) return 0;
  return rank == 2 || StaticDim(angles, -3) == 1 ? 1 : 0;
}

/// Angles as [B,S,half]; the first `half` of their last axis.
Result<Value*> AngleTable(Value* angles, const Value& x, Value* batch_of, int head_axis,
                          int64_t half, PatchBuilder& b) {
  const int rank = RankOf(*angles);
  if (rank == 4) {
    INFER_ASSIGN(angles, b("Squeeze", {angles, b.Ints({head_axis})}));
  } else if (rank == 2) {
    INFER_ASSIGN(angles, b("Unsqueeze", {angles, b.Ints({0})}));
  }
  if (StaticDim(*angles, -1) != half) {
    INFER_ASSIGN(angles, b("Slice", {angles, b.Ints({0}), b.Ints({half}), b.Ints({2})}));
  }
  if (SameDim(*angles, 0, x, 0)) return angles;
  if (StaticDim(*angles, 0) != 1) return InvalidModel("needs angles of one batch or of all");
  INFER_ASSIGN(Value * batch, b("Shape", {batch_of}, {{"end", int64_t{1}}, {"start", int64_t{0}}}));
  INFER_ASSIGN(Value * shape, b("Concat", {batch, b.Ints({1, 1})}, {{"axis", int64_t{0}}}));
  return b("Expand", {angles, shape});
}

}  // namespace

bool TwinsAreEqual(const Value& v, Twins twins) { return TwinsAreEqualAt(v, twins, 0); }

Result<Value*> Rotated(Value* x, Value* cos, Value* sin, bool interleaved, PatchBuilder& b,
                       int64_t part) {
  const int axis = HeadAxis(*x, *cos);
  const auto whole = StaticDim(*x, -1);
  const auto size = part > 0 && whole && part <= *whole ? std::optional(part) : whole;
  if (axis == 0 || axis != HeadAxis(*x, *sin))
    return InvalidModel("needs four axes, and angles that are the same for all heads");
  if (!size || *size % 2 != 0) return InvalidModel("needs heads of a known, even size");
  for (const Value* angles : {cos, sin})
    if (const auto count = StaticDim(*angles, -1);
        count && *count != *size / 2 && (interleaved || *count != *size))
      return InvalidModel("needs an angle for each pair");
  Value* from = x;
  INFER_ASSIGN(cos, AngleTable(cos, *x, from, axis, *size / 2, b));
  INFER_ASSIGN(sin, AngleTable(sin, *x, from, axis, *size / 2, b));
  AttrMap attrs = {{"interleaved", int64_t{interleaved}}};
  if (size != whole) attrs["rotary_embedding_dim"] = *size;
  const bool turned =
      axis == 1 && x->producer() && x->producer()->Is(Trait::kPermutation) && ExchangesMiddle(*x);
  if (axis == 1 && !turned) return b("RotaryEmbedding", {x, cos, sin}, std::move(attrs));
  // Heads side by side, as the projection makes them.
  if (turned) from = x->producer()->input(0);
  const auto heads = StaticDim(*from, 2);
  if (!heads) return InvalidModel("needs a known number of heads");
  attrs["num_heads"] = *heads;
  INFER_ASSIGN(Value * flat, b("Reshape", {from, b.Ints({0, 0, *heads * *whole})}));
  INFER_ASSIGN(Value * y, b("RotaryEmbedding", {flat, cos, sin}, std::move(attrs)));
  INFER_ASSIGN(y, b("Reshape", {y, b.Ints({0, 0, *heads, *whole})}));
  if (!turned) return y;
  return b("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
}

Result<Value*> OneOfEachPair(Value* angles, PatchBuilder& b) {
  const Node* n = angles->producer();
  const auto size = StaticDim(*angles, -1);
  if (n && n->Is(Trait::kView) && size && RepeatsEach(*n->input(0))) {
    Value* once = n->input(0)->producer()->input(0);
    std::vector<Dim> dims = angles->shape().dims();
    dims.back() = *size / 2;
    if (const auto to = ReshapeTarget(once->shape(), Shape(std::move(dims))))
      return b("Reshape", {once, b.Ints(*to)});
  }
  return b("Slice",
           {angles, b.Ints({0}), b.Ints({INT64_MAX}), b.Ints({RankOf(*angles) - 1}), b.Ints({2})});
}

bool HoldsPairs(const Value& v, int rank, int64_t size) {
  return RankOf(v) == rank + 1 && StaticDim(v, -1) == 2 && StaticDim(v, -2) == size / 2;
}

bool SlicesLast(const Node& n, int64_t start, int64_t end, int64_t step, int64_t size) {
  const auto number = [&](size_t i, int64_t otherwise) -> std::optional<int64_t> {
    if (!n.input(i)) return otherwise;
    if (!n.input(i)->is_constant() || n.input(i)->constant()->num_elements() != 1)
      return std::nullopt;
    return n.input(i)->constant()->IntAt(0);
  };
  const auto from = number(1, 0), to = number(2, 0), axis = number(3, 0), by = number(4, 1);
  if (!from || !to || !axis || !by) return false;
  const int64_t last = RankOf(*n.input(0)) - 1;
  const int64_t stop = *to < 0 ? *to + size : std::min(*to, size);
  return *by == step && (*axis == -1 || *axis == last) && *from == start && stop == end;
}

bool IsLastAxis(const Node& n, const Value& of) {
  const auto axis = n.Attr<int64_t>("axis");
  return axis == -1 || axis + 1 == RankOf(of);
}

namespace {

bool SlicesPairs(const Node& even, const Node& odd, int64_t size) {
  return SlicesLast(even, 0, size, 2, size) && SlicesLast(odd, 1, size, 2, size);
}

constexpr const char* kHalves = R"(graph g(x: f32[2,3,S,8], a: f32[2,S,4]) -> (y) {
  z = const i64[1] {0}  h = const i64[1] {4}  e = const i64[1] {9223372036854775807}
  l = const i64[1] {-1}  one = const i64[1] {1}
  x1 = Slice(x, z, h, l)  x2 = Slice(x, h, e, l)  n = Neg(x2)  r = Concat(n, x1) {axis=-1}  )";

constexpr const char* kPairs = R"(graph g(x: f32[2,3,1,8], a: f32[2,1,4]) -> (y) {
  b = const i64[4] {2,3,1,8}  z = const i64[1] {0}  one = const i64[1] {1}  two = const i64[1] {2}
  m = const i64[1] {9223372036854775807}  l = const i64[1] {-1}  e = Slice(x, z, m, l, two)
  o = Slice(x, one, m, l, two)  n = Neg(o)  n1 = Unsqueeze(n, l)  e1 = Unsqueeze(e, l)
  t = Concat(n1, e1) {axis=-1}  r = Reshape(t, b)  )";

}  // namespace

Rule FuseRope() {
  Pattern x = Any(), cos = Any(), sin = Any();
  Pattern first = Op("Slice", x).MoreInputs(), second = Op("Slice", x).MoreInputs();
  const auto parts = OpResults("Split", {x, Any().OrOmitted()}, 2);
  Pattern sliced = Op("Concat", Op("Neg", second), first);
  Pattern split = Op("Concat", Op("Neg", parts[1]), parts[0]);
  Pattern turned = OneOf({sliced, split});
  return {
      .name = "fuse-rope",
      .doc = "x * cos + Concat(-x[D/2:], x[:D/2]) * sin => RotaryEmbedding(x, cos, sin)",
      .match = Op("Add", Op("Mul", x, cos), Op("Mul", turned, sin)),
      .when = {{"equal halves of the angles",
                [=](const Match& m) {
                  return TwinsAreEqual(*m[cos], Twins::kHalves) &&
                         TwinsAreEqual(*m[sin], Twins::kHalves);
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto size = StaticDim(*m[x], -1);
        const bool halves =
            size && *size % 2 == 0 && IsLastAxis(*m[turned]->producer(), *m[turned]) &&
            (m.Has(sliced)
                 ? SlicesLast(m.node(first), 0, *size / 2, 1, *size) &&
                       SlicesLast(m.node(second), *size / 2, *size, 1, *size)
                 : IsLastAxis(m.node(parts[0]), *m[x]) && StaticDim(*m[parts[0]], -1) == *size / 2);
        if (!halves) return InvalidModel("needs the two halves of the last axis");
        return Rotated(m[x], m[cos], m[sin], false, b);
      },
      .fires_on = {std::string(kHalves) + R"(f = Concat(a, a) {axis=-1}  c1 = Cos(f)  s1 = Sin(f)
             c = Unsqueeze(c1, one)  s = Unsqueeze(s1, one)  p = Mul(x, c)  q = Mul(r, s)
             y = Add(p, q) })",
                   R"(graph g(x: f32[N,5,24], pos: i64[1,5]) -> (y) { h = const i64[4] {0,0,3,8}
             w1 = const f32[7,4] ~1  w = Concat(w1, w1) {axis=1}  u = const f32[7,4] ~2
             v = Concat(u, u) {axis=1}  one = const i64[1] {1}
             x1 = Reshape(x, h)  x2 = Transpose(x1) {perm=[0,2,1,3]}
             c0 = Gather(w, pos)  s0 = Gather(v, pos)  c = Unsqueeze(c0, one)
             s = Unsqueeze(s0, one)  k1, k2 = Split(x2) {axis=-1, num_outputs=2}
             n = Neg(k2)  r = Concat(n, k1) {axis=3}  p = Mul(x2, c)  q = Mul(s, r)
             y = Add(q, p) })"},
      .silent_on = {{std::string(kHalves) + R"(b = Neg(a)  f = Concat(a, b) {axis=-1}  c1 = Cos(f)
              s1 = Sin(f)  c = Unsqueeze(c1, one)  s = Unsqueeze(s1, one)  p = Mul(x, c)
              q = Mul(r, s)  y = Add(p, q) })",
                     "equal halves of the angles"},
                    {std::string(kHalves) +
                         R"(c = const f32[3,1,8] {1,1,1,1,1,1,1,1,2,2,2,2,2,2,2,2,3,3,3,3,
              3,3,3,3}  p = Mul(x, c)  q = Mul(r, c)  y = Add(p, q) })",
                     "the same for all heads"},
                    {R"(graph g(x: f32[2,3,5,8]) -> (y) { c = const f32[1,8] {1,1,1,1,1,1,1,1}
              sizes = const i64[2] {2,6}  k1, k2 = Split(x, sizes) {axis=-1}  n = Neg(k2)
              r = Concat(n, k1) {axis=3}  p = Mul(x, c)  q = Mul(r, c)  y = Add(p, q) })",
                     "the two halves"}},
  };
}

Rule FuseSplitRope() {
  Pattern x = Any(), cos = Any(), sin = Any();
  Pattern first_slice = Op("Slice", x).MoreInputs(), second_slice = Op("Slice", x).MoreInputs();
  const auto parts = OpResults("Split", {x, Any().OrOmitted()}, 2);
  Pattern first = OneOf({parts[0], first_slice}), second = OneOf({parts[1], second_slice});
  Pattern real = Op("Sub", Op("Mul", first, cos), Op("Mul", second, sin));
  Pattern imaginary = Op("Add", Op("Mul", first, sin), Op("Mul", second, cos));
  Pattern root = Op("Concat", real, imaginary);
  return {
      .name = "fuse-split-rope",
      .doc =
          "halves (a, b) of x => Concat(a * cos - b * sin, a * sin + b * cos) => RotaryEmbedding",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto size = StaticDim(*m[x], -1);
        bool fits = size && *size % 2 == 0 && IsLastAxis(m.node(root), *m[root]) &&
                    SameKnownType(*m[x], *m[root]) && m.Has(first_slice) == m.Has(second_slice);
        if (fits && m.Has(first_slice)) {
          fits = SlicesLast(m.node(first_slice), 0, *size / 2, 1, *size) &&
                 SlicesLast(m.node(second_slice), *size / 2, *size, 1, *size);
        } else if (fits) {
          fits = IsLastAxis(m.node(parts[0]), *m[x]) && StaticDim(*m[parts[0]], -1) == *size / 2;
        }
        if (!fits) return InvalidModel("needs the two halves of the last axis");
        return Rotated(m[x], m[cos], m[sin], false, b);
      },
      .fires_on = {R"(graph g(x: f32[N,S,24], c: f32[N,S,4], s: f32[N,S,4]) -> (y) {
             h = const i64[4] {0,0,3,8}  a = const i64[1] {2}  x4 = Reshape(x, h)
             c4 = Unsqueeze(c, a)  s4 = Unsqueeze(s, a)
             a1, b1 = Split(x4) {axis=-1, num_outputs=2}  ca = Mul(c4, a1)  sb = Mul(s4, b1)
             r = Sub(ca, sb)  sa = Mul(s4, a1)  cb = Mul(c4, b1)  i = Add(sa, cb)
             y = Concat(r, i) {axis=-1} })",
                   R"(graph g(x: f32[2,3,5,8], c: f32[5,4], s: f32[5,4]) -> (y) {
             z = const i64[1] {0}  h = const i64[1] {4}  e = const i64[1] {8}  l = const i64[1] {-1}
             a1 = Slice(x, z, h, l)  b1 = Slice(x, h, e, l)  ca = Mul(a1, c)  sb = Mul(b1, s)
             r = Sub(ca, sb)  cb = Mul(b1, c)  sa = Mul(a1, s)  i = Add(cb, sa)
             y = Concat(r, i) {axis=3} })"},
      .silent_on = {{R"(graph g(x: f32[2,3,5,8], c: f32[5,4], s: f32[5,4]) -> (y) {
              z = const i64[1] {0}  h = const i64[1] {4}  e = const i64[1] {8}
              l = const i64[1] {-1}  a1 = Slice(x, h, e, l)  b1 = Slice(x, z, h, l)
              ca = Mul(a1, c)  sb = Mul(b1, s)  r = Sub(ca, sb)  cb = Mul(b1, c)
              sa = Mul(a1, s)  i = Add(cb, sa)  y = Concat(r, i) {axis=3} })",
                     "the two halves of the last axis"},
                    {R"(graph g(x: f32[2,8,5,8], c: f32[5,4], s: f32[5,4]) -> (y) {
              a1, b1 = Split(x) {axis=-1, num_outputs=2}  ca = Mul(a1, c)  sb = Mul(b1, s)
              r = Sub(ca, sb)  cb = Mul(b1, c)  sa = Mul(a1, s)  i = Add(cb, sa)
              y = Concat(r, i) {axis=1} })",
                     "the two halves of the last axis"}},
  };
}

Rule FuseInterleavedRope() {
  Pattern x = Any(), cos = Any(), sin = Any(), pairs = Op("Reshape", x, Any());
  const auto parts = OpResults("Split", {pairs, Any().OrOmitted()}, 2);
  Pattern even_part = Op("Squeeze|Reshape", parts[0], Any());
  Pattern odd_part = Op("Squeeze|Reshape", parts[1], Any());
  Pattern even_pick = Op("Gather", pairs, Number(0)), odd_pick = Op("Gather", pairs, Number(1));
  Pattern even_slice = Op("Slice", x).MoreInputs(), odd_slice = Op("Slice", x).MoreInputs();
  Pattern even = OneOf({even_part, even_pick, even_slice});
  Pattern odd = OneOf({odd_part, odd_pick, odd_slice});
  Pattern real = Op("Sub", Op("Mul", even, cos), Op("Mul", odd, sin));
  Pattern imaginary = Op("Add", Op("Mul", even, sin), Op("Mul", odd, cos));
  Pattern stack =
      Op("Concat", Op("Unsqueeze|Reshape", real, Any()), Op("Unsqueeze|Reshape", imaginary, Any()));
  Pattern root = Op("Reshape", stack, Any());
  return {
      .name = "fuse-interleaved-rope",
      .doc = "pairs (a, b) of x => (a * cos - b * sin, a * sin + b * cos) => RotaryEmbedding",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto size = StaticDim(*m[root], -1);
        const int rank = RankOf(*m[root]);
        bool fits = size && *size % 2 == 0 && rank == 4 && HoldsPairs(*m[stack], rank, *size) &&
                    IsLastAxis(m.node(stack), *m[stack]) && RankOf(*m[even]) == rank &&
                    StaticDim(*m[even], -1) == *size / 2 && m.Has(even_part) == m.Has(odd_part) &&
                    m.Has(even_pick) == m.Has(odd_pick);
        Value* heads = m[x];
        if (fits && (m.Has(even_part) || m.Has(even_pick))) {
          fits = HoldsPairs(*m[pairs], rank, *size) && StaticDim(*m[root], 2) &&
                 (m.Has(even_pick) ? IsLastAxis(m.node(even_pick), *m[pairs]) &&
                                         IsLastAxis(m.node(odd_pick), *m[pairs])
                                   : IsLastAxis(m.node(parts[0]), *m[pairs]) &&
                                         StaticDim(*m[parts[0]], -1) == 1);
          for (int i = 0; i < 3 && fits; ++i) fits = SameDim(*m[pairs], i, *m[root], i);
          for (int i = 0; i < 2 && fits; ++i)
            fits = RankOf(*m[x]) > 2 && SameDim(*m[x], i, *m[root], i);
          if (fits && RankOf(*heads) != 4) {
            INFER_ASSIGN(heads,
                         b("Reshape", {heads, b.Ints({0, 0, *StaticDim(*m[root], 2), *size})}));
          }
        } else if (fits) {
          INFER_ASSIGN(heads, WithThesePairs(*m[even_slice], *m[odd_slice], *size, b));
        }
        if (!fits) return InvalidModel("needs the pairs of the last axis");
        return Rotated(heads, m[cos], m[sin], true, b);
      },
      .fires_on = {R"(graph g(x: f32[N,S,24], pos: i64[N,S]) -> (y) { h = const i64[4] {0,0,3,8}
             g = const i64[5] {0,0,3,4,2}  w = const f32[7,4] ~1  v = const f32[7,4] ~2
             a2 = const i64[1] {2}  a4 = const i64[1] {4}
             c0 = Gather(w, pos)  s0 = Gather(v, pos)  c = Unsqueeze(c0, a2)  s = Unsqueeze(s0, a2)
             x2 = Reshape(x, g)  e1, o1 = Split(x2) {axis=4, num_outputs=2}
             e = Squeeze(e1, a4)  o = Squeeze(o1, a4)  p1 = Mul(e, c)  p2 = Mul(o, s)
             r = Sub(p1, p2)  p3 = Mul(e, s)  p4 = Mul(o, c)  i = Add(p3, p4)
             r1 = Unsqueeze(r, a4)  i1 = Unsqueeze(i, a4)  t = Concat(r1, i1) {axis=4}
             y = Reshape(t, h) })",
                   // Of a part, which Slices of Slices have become.
                   R"(graph g(x: f32[2,3,6,10], c: f32[5,4], s: f32[5,4]) -> (y) {
             b = const i64[4] {2,3,5,8}  l = const i64[1] {-1}  st = const i64[2] {1,2}
             ax = const i64[2] {2,3}  m = const i64[2] {6,9}  z = const i64[2] {1,1}
             w = const i64[2] {1,2}  e = Slice(x, z, m, ax, st)  o = Slice(x, w, m, ax, st)
             p1 = Mul(e, c)  p2 = Mul(o, s)  r = Sub(p1, p2)  p3 = Mul(e, s)  p4 = Mul(o, c)
             i = Add(p3, p4)  r1 = Unsqueeze(r, l)  i1 = Unsqueeze(i, l)
             t = Concat(r1, i1) {axis=-1}  y = Reshape(t, b) })",
                   R"(graph g(x: f32[S,N,3,8], c: f32[S,N,1,4], s: f32[S,N,1,4]) -> (y) {
             h = const i64[4] {0,0,3,8}  g = const i64[5] {0,0,3,4,2}  z = const i64[] {0}
             one = const i64[] {1}  l = const i64[1] {-1}  x2 = Reshape(x, g)
             e = Gather(x2, z) {axis=-1}  o = Gather(x2, one) {axis=4}  p1 = Mul(e, c)
             p2 = Mul(o, s)  r = Sub(p1, p2)  p3 = Mul(o, c)  p4 = Mul(e, s)  i = Add(p3, p4)
             r1 = Unsqueeze(r, l)  i1 = Unsqueeze(i, l)  t = Concat(r1, i1) {axis=-1}
             y = Reshape(t, h) })",
                   R"(graph g(x: f32[2,3,5,8], c: f32[5,4], s: f32[5,4]) -> (y) {
             b = const i64[4] {2,3,5,8}  z = const i64[1] {0}  one = const i64[1] {1}
             l = const i64[1] {-1}  two = const i64[1] {2}  m = const i64[1] {9223372036854775807}
             e = Slice(x, z, m, l, two)  o = Slice(x, one, m, l, two)  p1 = Mul(e, c)
             p2 = Mul(o, s)  r = Sub(p1, p2)  p3 = Mul(e, s)  p4 = Mul(o, c)  i = Add(p3, p4)
             r1 = Unsqueeze(r, l)  i1 = Unsqueeze(i, l)  t = Concat(r1, i1) {axis=-1}
             y = Reshape(t, b) })"},
      .silent_on = {{R"(graph g(x: f32[2,3,5,8], c: f32[5,4], s: f32[5,4]) -> (y) {
              b = const i64[4] {2,3,8,5}  z = const i64[1] {0}  one = const i64[1] {1}
              l = const i64[1] {-1}  two = const i64[1] {2}  m = const i64[1] {100}
              e = Slice(x, z, m, l, two)  o = Slice(x, one, m, l, two)  p1 = Mul(e, c)
              p2 = Mul(o, s)  r = Sub(p1, p2)  p3 = Mul(e, s)  p4 = Mul(o, c)  i = Add(p3, p4)
              r1 = Unsqueeze(r, l)  i1 = Unsqueeze(i, l)  t = Concat(r1, i1) {axis=-1}
              y = Reshape(t, b) })",
                     "the pairs of the last axis"},
                    {R"(graph g(x: f32[2,3,5,8], c: f32[5,4], s: f32[5,4]) -> (y) {
              b = const i64[4] {2,3,5,8}  z = const i64[1] {0}  h = const i64[1] {4}
              l = const i64[1] {-1}  m = const i64[1] {8}
              e = Slice(x, z, h, l)  o = Slice(x, h, m, l)  p1 = Mul(e, c)
              p2 = Mul(o, s)  r = Sub(p1, p2)  p3 = Mul(e, s)  p4 = Mul(o, c)  i = Add(p3, p4)
              r1 = Unsqueeze(r, l)  i1 = Unsqueeze(i, l)  t = Concat(r1, i1) {axis=-1}
              y = Reshape(t, b) })",
                     "the pairs of the last axis"}},
  };
}

Rule FuseTurnedPairsRope() {
  Pattern x = Any(), cos = Any(), sin = Any();
  Pattern even = Op("Slice", x).MoreInputs(), odd = Op("Slice", x).MoreInputs();
  Pattern stack = Op("Concat", Op("Unsqueeze|Reshape", Op("Neg", odd), Any()),
                     Op("Unsqueeze|Reshape", even, Any()));
  Pattern turned = Op("Reshape", stack, Any());
  return {
      .name = "fuse-turned-pairs-rope",
      .doc = "x * cos + pairs (-b, a) of x's (a, b) * sin => RotaryEmbedding(x, cos, sin)",
      .match = Op("Add", Op("Mul", x, cos), Op("Mul", turned, sin)),
      .when = {{"equal angles of a pair",
                [=](const Match& m) {
                  return TwinsAreEqual(*m[cos], Twins::kPairs) &&
                         TwinsAreEqual(*m[sin], Twins::kPairs);
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const auto size = StaticDim(*m[x], -1);
        const bool fits = size && *size % 2 == 0 && SameKnownType(*m[x], *m[turned]) &&
                          HoldsPairs(*m[stack], RankOf(*m[x]), *size) &&
                          IsLastAxis(m.node(stack), *m[stack]) &&
                          SlicesPairs(m.node(even), m.node(odd), *size);
        if (!fits) return InvalidModel("needs the pairs of the last axis");
        INFER_ASSIGN(Value * c, OneOfEachPair(m[cos], b));
        INFER_ASSIGN(Value * s, OneOfEachPair(m[sin], b));
        return Rotated(m[x], c, s, true, b);
      },
      .fires_on = {std::string(kPairs) + R"(u = Unsqueeze(a, l)  d = const i64[4] {2,1,4,2}
             v = Expand(u, d)  w = const i64[3] {2,1,8}  f = Reshape(v, w)  c1 = Cos(f)
             s1 = Sin(f)  c = Unsqueeze(c1, one)  s = Unsqueeze(s1, one)  p = Mul(x, c)
             q = Mul(r, s)  y = Add(p, q) })",
                   std::string(kPairs) + R"(u = Unsqueeze(a, l)  v = Concat(u, u) {axis=-1}
             w = const i64[4] {2,1,1,8}  c = Reshape(v, w)  s = Neg(c)  p = Mul(x, c)
             q = Mul(r, s)  y = Add(p, q) })",
                   std::string(kPairs) + R"(c = const f32[1,8] {1,1,2,2,3,3,4,4}
             s = const f32[1,1,1,8] {2,2,3,3,1,1,5,5}  p = Mul(c, x)  q = Mul(r, s)
             y = Add(q, p) })"},
      .silent_on = {{std::string(kPairs) + R"(c = const f32[1,8] {1,1,2,2,3,3,4,5}  p = Mul(x, c)
              q = Mul(r, c)  y = Add(p, q) })",
                     "equal angles of a pair"},
                    {R"(graph g(x: f32[2,3,1,8]) -> (y) { b = const i64[4] {2,3,1,8}
              z = const i64[1] {0}  h = const i64[1] {4}  e = const i64[1] {8}
              l = const i64[1] {-1}  x1 = Slice(x, z, h, l)  x2 = Slice(x, h, e, l)  n = Neg(x2)
              n1 = Unsqueeze(n, l)  e1 = Unsqueeze(x1, l)  t = Concat(n1, e1) {axis=-1}
              r = Reshape(t, b)  c = const f32[1,8] {1,1,2,2,3,3,4,4}  p = Mul(x, c)
              q = Mul(r, c)  y = Add(p, q) })",
                     "the pairs of the last axis"}},
  };
}

}  // namespace infer
