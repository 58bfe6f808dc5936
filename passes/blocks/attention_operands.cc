/// What stands before the operands of Attention and belongs into it: heads that are repeated, a
/// cache, factors.
#include <algorithm>

#include "passes/blocks/attention.h"
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Keys or values whose heads are repeated: Unsqueeze, Expand|Tile|Concat, Reshape of [B,H,T,D], or
/// the same of [B,T,H,D] before a transposition; without the views where there is one head. Or a
/// Gather of [B,H,T,D] that picks each several times.
struct Repeated {
  Pattern x, lifted = Op("Unsqueeze|Reshape", x).MoreInputs();
  Pattern wide = Op("Expand|Tile|Concat", lifted).MoreInputs();
  Pattern merged = Op("Reshape", wide, Any());
  Pattern turned = Op("Transpose", merged).Where("a swap of the middle axes", ExchangesMiddle);
  Pattern one,
      wide_one = Op("Expand|Tile|Concat", one).MoreInputs().Where("more heads", [](const Value& v) {
        return v.producer()->input(0) && RankOf(v) == 4 &&
               StaticDim(*v.producer()->input(0), 1) == 1;
      });
  Pattern source, indices = Constant();
  Pattern picked = Op("Gather", source, indices).With("axis", int64_t{1});
  Pattern self = OneOf({turned, merged, wide_one, picked});
};

/// The indices are 0, 0, .., 1, 1, ..: each of `heads` as often.
bool PicksInPlace(const Tensor& indices, int64_t heads) {
  const int64_t count = indices.num_elements();
  if (indices.rank() != 1 || heads < 1 || count % heads != 0) return false;
  for (int64_t i = 0; i < count; ++i)
    if (indices.IntAt(i) != i / (count / heads)) return false;
  return true;
}

/// All operands of a Concat are the same.
bool RepeatsOne(const Node& n) {
  return !n.Is(Trait::kConcatenation) ||
         std::all_of(n.inputs().begin(), n.inputs().end(),
                     [&](const Value* v) { return v == n.input(0); });
}

/// The value before it was repeated, transposed where it was afterwards.
Result<Value*> BeforeRepeat(const Match& m, const Repeated& r, PatchBuilder& b) {
  const auto refuse = [] { return InvalidModel("needs each head repeated in its place"); };
  if (m.Has(r.picked)) {
    const auto heads = RankOf(*m[r.source]) == 4 ? StaticDim(*m[r.source], 1) : std::nullopt;
    if (!heads || !PicksInPlace(m.tensor(r.indices), *heads)) return refuse();
    return m[r.source];
  }
  if (m.Has(r.wide_one)) {
    const Value &one = *m[r.one], &wide = *m[r.wide_one];
    if (RankOf(one) != 4 || !RepeatsOne(*wide.producer())) return refuse();
    for (int i : {0, 2, 3})
      if (!SameDim(one, i, wide, i)) return refuse();
    return m[r.one];
  }
  const Value &x = *m[r.x], &wide = *m[r.wide], &lifted = *m[r.lifted], &merged = *m[r.merged];
  const int heads = m.Has(r.turned) ? 2 : 1;
  if (RankOf(lifted) != 5 || RankOf(wide) != 5 || RankOf(merged) != 4 ||
      !RepeatsOne(*wide.producer()) || StaticDim(lifted, heads + 1) != 1 ||
      !StaticDim(wide, heads + 1))
    return refuse();
  std::vector<Dim> once = lifted.shape().dims();
  once.erase(once.begin() + heads + 1);
  bool same = RankOf(x) == 4;  // else the heads were side by side in x
  for (int i = 0; i < 4; ++i) {
    const Dim& extent = once[static_cast<size_t>(i)];
    if (!extent.KnownEqual(wide.shape()[i > heads ? i + 1 : i])) return refuse();
    if (i != heads && !extent.KnownEqual(merged.shape()[i])) return refuse();
    same = same && extent.KnownEqual(x.shape()[i]);
  }
  if (!(once[static_cast<size_t>(heads)] * wide.shape()[heads + 1])
           .KnownEqual(merged.shape()[heads]))
    return refuse();
  Value* v = m[r.x];
  if (!same) {
    const auto target = ReshapeTarget(x.shape(), Shape(std::move(once)));
    if (!target) return refuse();
    INFER_ASSIGN(v, b("Reshape", {v, b.Ints(*target)}));
  }
  if (!m.Has(r.turned)) return v;
  return b("Transpose", {v}, m.node(r.turned).attrs());
}

bool HasCache(const Node& n) { return n.input(4) || n.input(5) || n.input(6); }

/// past and next of Concat(past, next) over the keys; for keys also with the last axes exchanged.
struct Cached {
  Pattern past, next, joined = Op("Concat", past, next).With("axis", int64_t{2}).Shared();
  Pattern joined_back = Op("Concat", past, next).With("axis", int64_t{-2}).Shared();
  Pattern past_t, next_t, wide = Op("Concat", past_t, next_t).With("axis", int64_t{3}).Shared();
  Pattern wide_back = Op("Concat", past_t, next_t).With("axis", int64_t{-1}).Shared();
  Pattern any_wide = OneOf({wide, wide_back});
  Pattern turned = Op("Transpose", any_wide)
                       .Where("a swap of the last axes",
                              [](const Value& v) {
                                return PermOf(*v.producer()) == std::vector<int64_t>{0, 1, 3, 2};
                              })
                       .Shared();
  Pattern self = OneOf({joined, joined_back, turned});
};

Result<std::pair<Value*, Value*>> PastAndNext(const Match& m, const Cached& c, PatchBuilder& b) {
  if (!m.Has(c.turned)) return std::pair(m[c.past], m[c.next]);
  INFER_ASSIGN(Value * past, WithLastTwoExchanged(m[c.past_t], b));
  INFER_ASSIGN(Value * next, WithLastTwoExchanged(m[c.next_t], b));
  return std::pair(past, next);
}

/// How many keys or values [batch, head, length, size] there are.
Dim LengthOf(const Value& v) { return RankOf(v) == 4 ? v.shape()[2] : Dim(); }

/// Whoever else reads what was joined reads the present that Attention gives.
Status ReplaceJoined(const Match& m, const Cached& c, Value* present, PatchBuilder& b) {
  Value* joined = m[c.self];
  if (!m.Has(c.turned)) b.HasExtentsOf(present, *joined);
  if (!joined->has_one_use()) b.Replace(joined, present);
  if (!m.Has(c.turned) || m[c.any_wide]->has_one_use()) return {};
  INFER_ASSIGN(Value * wide,
               b("Transpose", {present}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}}));
  b.Replace(m[c.any_wide], wide);
  return {};
}

}  // namespace

Rule AttentionHeads() {
  Pattern q = Any();
  const Repeated k, v;
  Pattern root = Op("Attention", q, k.self, v.self).MoreInputs().Shared();
  return {
      .name = "attention-repeated-heads",
      .doc = "Attention(q, k and v with repeated heads) => Attention(q, k, v), grouped queries",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        std::vector<Value*> inputs = m.node(root).inputs();
        INFER_ASSIGN(inputs[1], BeforeRepeat(m, k, b));
        INFER_ASSIGN(inputs[2], BeforeRepeat(m, v, b));
        return AttentionAgain(m.node(root), std::move(inputs), m.node(root).attrs(), b);
      },
      .fires_on = {R"(graph g(q: f32[N,4,S,8], k: f32[N,2,T,8], v: f32[N,2,T,8]) -> (y) {
             a = const i64[1] {2}  e = const i64[5] {1,1,2,1,1}  r = const i64[4] {0,4,-1,8}
             k1 = Unsqueeze(k, a)  k2 = Expand(k1, e)  k3 = Reshape(k2, r)
             v1 = Unsqueeze(v, a)  v2 = Expand(v1, e)  v3 = Reshape(v2, r)
             y = Attention(q, k3, v3) {scale=0.5} })",
                   R"(graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,8]) -> (y) {
             l = const i64[5] {2,2,1,5,8}  e = const i64[5] {1,1,2,1,1}  r = const i64[4] {0,4,-1,8}
             k1 = Reshape(k, l)  k2 = Tile(k1, e)  k3 = Reshape(k2, r)
             v1 = Reshape(v, l)  v2 = Concat(v1, v1) {axis=2}  v3 = Reshape(v2, r)
             y = Attention(q, k3, v3) })",
                   R"(graph g(q: f32[2,4,3,8], k: f32[2,5,2,8], v: f32[2,5,2,8]) -> (y) {
             a = const i64[1] {3}  e = const i64[5] {1,1,1,2,1}  r = const i64[4] {2,5,4,8}
             k1 = Unsqueeze(k, a)  k2 = Expand(k1, e)  k3 = Reshape(k2, r)
             v1 = Unsqueeze(v, a)  v2 = Expand(v1, e)  v3 = Reshape(v2, r)
             kt = Transpose(k3) {perm=[0,2,1,3]}  vt = Transpose(v3) {perm=[0,2,1,3]}
             y = Attention(q, kt, vt) })",
                   R"(graph g(q: f32[N,4,S,8], k: f32[N,5,16], v: f32[N,5,16]) -> (y) {
             l = const i64[5] {0,5,2,1,8}  e = const i64[5] {1,1,1,2,1}
             r = const i64[4] {0,5,4,8}  k1 = Reshape(k, l)  k2 = Tile(k1, e)
             k3 = Reshape(k2, r)  v1 = Reshape(v, l)  v2 = Tile(v1, e)  v3 = Reshape(v2, r)
             kt = Transpose(k3) {perm=[0,2,1,3]}  vt = Transpose(v3) {perm=[0,2,1,3]}
             y = Attention(q, kt, vt) })",
                   R"(graph g(q: f32[2,4,3,8], k: f32[2,1,5,8], v: f32[2,1,5,8]) -> (y) {
             e = const i64[4] {1,4,1,1}  k2 = Expand(k, e)  v2 = Tile(v, e)
             y = Attention(q, k2, v2) })",
                   R"(graph g(q: f32[N,4,S,8], k: f32[N,2,T,8], v: f32[N,2,T,8]) -> (y) {
             i = const i64[4] {0,0,1,1}  k2 = Gather(k, i) {axis=1}  v2 = Gather(v, i) {axis=1}
             y = Attention(q, k2, v2) })"},
      .silent_on =
          {{R"(graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,8]) -> (y) {
              a = const i64[1] {1}  e = const i64[5] {1,2,1,1,1}  r = const i64[4] {0,4,-1,8}
              k1 = Unsqueeze(k, a)  k2 = Expand(k1, e)  k3 = Reshape(k2, r)
              v1 = Unsqueeze(v, a)  v2 = Expand(v1, e)  v3 = Reshape(v2, r)
              y = Attention(q, k3, v3) })",
            "each head repeated in its place"},
           {R"(graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,8]) -> (y) {
              i = const i64[4] {0,1,0,1}  k2 = Gather(k, i) {axis=1}  v2 = Gather(v, i) {axis=1}
              y = Attention(q, k2, v2) })",
            "each head repeated in its place"},
           {R"(graph g(q: f32[2,4,3,8], k: f32[2,2,5,8], v: f32[2,2,5,8], p: f32[2,4,2,8]) -> (y) {
              a = const i64[1] {2}  e = const i64[5] {1,1,2,1,1}  r = const i64[4] {0,4,-1,8}
              k1 = Unsqueeze(k, a)  k2 = Expand(k1, e)  k3 = Reshape(k2, r)
              v1 = Unsqueeze(v, a)  v2 = Expand(v1, e)  v3 = Reshape(v2, r)
              y = Attention(q, k3, v3, _, p, p) })",
            "do not fit K and V"}},
  };
}

Rule AttentionCache() {
  Pattern q = Any();
  const Cached k, v;
  Pattern root = Op("Attention", q, k.self, v.self).MoreInputs();
  return {
      .name = "attention-cache",
      .doc =
          "Attention(q, Concat(past_k, k), Concat(past_v, v)) => "
          "Attention(q, k, v, past_k, past_v), present keys and values from it",
      .match = root,
      .when = {{"no cache yet, and keys counted from the first",
                [=](const Match& m) {
                  return !HasCache(m.node(root)) && m.node(root).Attr<int64_t>("is_causal") == 0 &&
                         RankOf(*m[q]) == 4;
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        INFER_ASSIGN(const auto keys, PastAndNext(m, k, b));
        INFER_ASSIGN(const auto values, PastAndNext(m, v, b));
        // Concat(pv, v) and Concat(k, pk) are as long as each other, too.
        const Dim new_keys = LengthOf(*keys.second), new_values = LengthOf(*values.second);
        if (!new_keys.is_unknown() && !new_values.is_unknown() && !new_keys.KnownEqual(new_values))
          return InvalidModel("needs as many new keys as new values");
        for (const char* window : {"left_window_size", "right_window_size"})
          if (m.node(root).attrs().count(window))
            return InvalidModel("needs no window: it would be counted behind the cache");
        INFER_ASSIGN(Node * made, b.Add("Attention",
                                        {m[q], keys.second, values.second, m.node(root).input(3),
                                         keys.first, values.first},
                                        m.node(root).attrs(), {.num_outputs = 3}));
        INFER_TRY(ReplaceJoined(m, k, made->output(1), b));
        INFER_TRY(ReplaceJoined(m, v, made->output(2), b));
        return made->output();
      },
      .fires_on = {R"(graph g(q: f32[2,4,S,8], k: f32[2,4,S,8], v: f32[2,4,S,8], pk: f32[2,4,P,8],
                pv: f32[2,4,P,8]) -> (y, nk, nv) { nk = Concat(pk, k) {axis=2}
             nv = Concat(pv, v) {axis=-2}  y = Attention(q, nk, nv) })",
                   R"(graph g(q: f32[2,4,1,8], k: f32[2,4,1,8], v: f32[2,4,1,8], pk: f32[2,4,P,8],
                pv: f32[2,4,P,8]) -> (y, nk) { kt = Transpose(k) {perm=[0,1,3,2]}
             pt = Transpose(pk) {perm=[0,1,3,2]}  j = Concat(pt, kt) {axis=-1}
             nk = Neg(j)  t = Transpose(j) {perm=[0,1,3,2]}
             nv = Concat(pv, v) {axis=-2}  y = Attention(q, t, nv) })",
                   // PyTorch reads the returns of both before the mask is there.
                   R"(graph g(q: f32[2,4,S,8], k: f32[2,4,S,8], v: f32[2,4,S,8], pk: f32[2,4,P,8],
                pv: f32[2,4,P,8], w: f32[S,1]) -> (y, n) { nk = Concat(pk, k) {axis=2}
             nv = Concat(pv, v) {axis=2}  a = const i64[1] {0}  uk = Unsqueeze(nk, a)
             uv = Unsqueeze(nv, a)  n = Concat(uk, uv) {axis=0}  m = Neg(w)
             y = Attention(q, nk, nv, m) })"},
      .silent_on = {{R"(graph g(q: f32[2,4,3,8], k: f32[2,4,3,8], v: f32[2,4,3,8], p: f32[2,4,2,8])
                -> (y) { nk = Concat(p, k) {axis=2}  nv = Concat(p, v) {axis=2}
              y = Attention(q, nk, nv) {is_causal=1} })",
                     "no cache yet, and keys counted from the first"},
                    {R"(graph g(q: f32[2,8,3,8], k: f32[2,4,3,8], v: f32[2,4,3,8], p: f32[2,4,3,8])
                -> (y) { nk = Concat(p, k) {axis=1}  nv = Concat(p, v) {axis=1}
              y = Attention(q, nk, nv) })",
                     "'nk' is not made with axis=2"},
                    {R"(graph g(q: f32[2,4,3,8], k: f32[2,4,3,8], v: f32[2,4,3,8], p: f32[2,4,2,8])
                -> (y) { nk = Concat(p, k) {axis=2}  nv = Concat(v, p) {axis=2}
              y = Attention(q, nk, nv) })",
                     "as many new keys as new values"},
                    {R"(graph g(q: f32[2,4,3,8], k: f32[2,4,3,8], v: f32[2,4,3,8], p: f32[2,4,2,8])
                -> (y) { nk = Concat(p, k) {axis=2}  nv = Concat(p, v) {axis=2}
              y = Attention(q, nk, nv) {left_window_size=0} })",
                     "no window"},
                    {R"(graph g(q: f32[2,4,3,8], k: f32[2,4,3,8], v: f32[2,4,3,8], p: f32[2,4,2,8])
                -> (y) { nk = Concat(p, k) {axis=2}  nv = Concat(p, v) {axis=2}
              m = ReduceSum(nk)  y = Attention(q, nk, nv, m) })",
                     "'m' reads what it takes the place of"},
                    {R"(graph g(k: f32[2,4,S,8], v: f32[2,4,S,8], pk: f32[2,4,P,8],
                pv: f32[2,4,P,8]) -> (y) { nk = Concat(pk, k) {axis=2}
             nv = Concat(pv, v) {axis=2}  y = Attention(nv, nk, nv) })",
                     "is read by what takes its place"}},
  };
}

Rule AttentionGroups() {
  Pattern q = Any(), grouped = Op("Reshape", q, Any()).Shared(), k = Any(), v = Any();
  Pattern attention = Op("Attention", grouped, k, v), root = Op("Reshape", attention, Any());
  return {
      .name = "attention-groups",
      .doc =
          "Attention whose queries are those of several heads, one behind the other => the heads "
          "share keys and values",
      .match = root,
      .when = {{"no query before another",
                [=](const Match& m) {
                  const Node& n = m.node(attention);
                  return n.Attr<int64_t>("is_causal") == 0 &&
                         !n.attrs().count("left_window_size") &&
                         !n.attrs().count("right_window_size");
                }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Value &four = *m[q], &groups = *m[grouped], &y = *m[root];
        const auto heads = StaticDim(four, 1), kv_heads = StaticDim(groups, 1);
        bool fits = RankOf(four) == 4 && RankOf(groups) == 4 && RankOf(y) == 4 && heads &&
                    kv_heads && *kv_heads > 0 && *heads % *kv_heads == 0 &&
                    StaticDim(*m[k], 1) == kv_heads;
        for (int i : {0, 3}) fits = fits && SameDim(four, i, groups, i);
        for (int i : {0, 1, 2}) fits = fits && SameDim(four, i, y, i);
        if (!fits) return InvalidModel("needs heads of one number, in groups of equal ones");
        return b("Attention", {m[q], m[k], m[v]}, m.node(attention).attrs());
      },
      .fires_on = {R"(graph g(q: f32[N,4,S,8], k: f32[N,2,T,8]) -> (y) { g = const i64[4] {0,2,-1,0}
             h = const i64[4] {0,4,-1,0}  x = Reshape(q, g)  a = Attention(x, k, k)
             y = Reshape(a, h) })"},
      .silent_on = {{R"(graph g(q: f32[N,4,S,8], k: f32[N,2,T,8]) -> (y) {
              g = const i64[4] {0,2,-1,0}  h = const i64[4] {0,4,-1,0}  x = Reshape(q, g)
              a = Attention(x, k, k) {is_causal=1}  y = Reshape(a, h) })",
                     "no query before another"},
                    {R"(graph g(q: f32[2,4,3,8], k: f32[2,2,5,8]) -> (y) {
              g = const i64[4] {2,2,6,8}  h = const i64[4] {2,6,2,8}  x = Reshape(q, g)
              a = Attention(x, k, k)  y = Reshape(a, h) })",
                     "heads of one number"}},
  };
}

Rule AttentionScale() {
  Pattern x = Any(), times = Scalar(), over = Scalar();
  Pattern product = Op("Mul", x, times), quotient = Op("Div", x, over);
  Pattern scaled = OneOf({product, quotient});
  Pattern reshaped = Op("Reshape", scaled, Any()), view = OneOf({reshaped, scaled});
  Pattern turned = Op("Transpose", view), operand = OneOf({turned, view});
  Pattern first = Op("Attention", operand, Any(), Any()).MoreInputs().Shared();
  Pattern second = Op("Attention", Any(), operand, Any()).MoreInputs().Shared();
  Pattern root = OneOf({first, second});
  return {
      .name = "attention-scale",
      .doc = "Attention(c * q, k, v) => Attention(q, k, v) with c in its scale, also of k or k / c",
      .match = root,
      .when = {{"the keys' factor on no cache",
                [=](const Match& m) { return m.Has(first) || !HasCache(m.node(root)); }}},
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(root);
        AttrMap attrs = n.attrs();
        if (!attrs.count("scale")) return InvalidModel("needs a scale that is written down");
        if (RankOf(*m[x]) < 0 || RankOf(*m[x]) != RankOf(*m[scaled]))
          return InvalidModel("needs a factor that adds no axes");
        const double factor = m.Has(product) ? m.scalar(times) : 1 / m.scalar(over);
        attrs["scale"] = static_cast<float>(n.Attr<float>("scale") * factor);
        Value* bare = m[x];
        if (m.Has(reshaped)) {
          const Node& view_node = m.node(reshaped);
          INFER_ASSIGN(bare, b("Reshape", {bare, view_node.input(1)}, view_node.attrs()));
        }
        if (m.Has(turned)) {
          INFER_ASSIGN(bare, b("Transpose", {bare}, m.node(turned).attrs()));
        }
        std::vector<Value*> inputs = n.inputs();
        inputs[m.Has(first) ? 0 : 1] = bare;
        return AttentionAgain(n, std::move(inputs), std::move(attrs), b);
      },
      .fires_on = {R"(graph g(q: f32[2,4,S,8], k: f32[2,4,S,8]) -> (y) { c = const f32[] {0.5}
                     t = Mul(q, c)  y = Attention(t, k, k) {scale=0.25} })",
                   R"(graph g(q: f32[2,S,32], k: f32[2,4,S,8]) -> (y) { c = const f32[1] {0.5}
                     t = Mul(q, c)  h = const i64[4] {0,0,4,8}  r = Reshape(t, h)
                     u = Transpose(r) {perm=[0,2,1,3]}  y = Attention(u, k, k) {scale=0.25} })",
                   R"(graph g(q: f32[2,4,S,8], k: f32[2,4,S,8]) -> (y) { c = const f32[] {3}
                     t = Div(k, c)  y = Attention(q, t, k) {scale=1.0} })"},
      .silent_on = {{R"(graph g(q: f32[2,4,3,8], k: f32[2,4,3,8]) -> (y, p) { c = const f32[] {3}
              t = Mul(k, c)  y, p, _ = Attention(q, t, k, _, k, k) {scale=1.0} })",
                     "the keys' factor on no cache"},
                    {R"(graph g(q: f32[2,4,3,8], k: f32[2,4,3,8]) -> (y) { c = const f32[] {3}
              t = Mul(q, c)  y = Attention(t, k, k) })",
                     "a scale that is written down"},
                    {R"(graph g(q: f32[4,3,8], k: f32[1,4,3,8]) -> (y) { c = const f32[1,1,1,1] {3}
              t = Mul(q, c)  y = Attention(t, k, k) {scale=1.0} })",
                     "a factor that adds no axes"},
                    {R"(graph g(q: f32[2,4,3,8], k: f32[2,4,3,8]) -> (y, t) { c = const f32[] {3}
              t = Mul(q, c)  y = Attention(t, k, k) {scale=1.0} })",
                     "'t' has other uses"}},
  };
}

}  // namespace infer
