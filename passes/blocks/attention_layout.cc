/// Transpositions around Attention that its form of three axes does without: it reads and writes
/// the heads side by side, as projections make them.
#include "passes/blocks/attention.h"
#include "passes/blocks/blocks.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

Pattern Swapped(const Pattern& x) {
  return Op("Transpose", x).Where("a swap of the middle axes", ExchangesMiddle).Shared();
}
Pattern SwappedFirst(const Pattern& x) {
  return Op("Transpose", x)
      .Where("a swap of the first two axes of three",
             [](const Value& v) {
               return PermOf(*v.producer()) == std::vector<int64_t>{1, 0, 2};
             })
      .Shared();
}

/// x, seen in other axes and in its own again: heads that stood in groups.
Pattern SeenAgain(const Pattern& x) {
  return Op("Reshape", Op("Reshape", x, Any()), Any())
      .Where("a view of what it was", [](const Value& v) {
        const Node* n = v.producer()->input(0)->producer();
        return n && n->Is("Reshape") && SameKnownType(v, *n->input(0));
      });
}

/// A mask for scores [N,1,S,T] as one for [1,N,S,T].
Result<Value*> HeadsFromBatch(Value* mask, PatchBuilder& b) {
  if (!mask || RankOf(*mask) == 2 || (RankOf(*mask) == 3 && StaticDim(*mask, 0) == 1)) return mask;
  if (RankOf(*mask) != 4) return InvalidModel("needs a mask of known rank");
  if (StaticDim(*mask, 0) == 1) return mask;
  return b("Transpose", {mask}, {{"perm", std::vector<int64_t>{1, 0, 2, 3}}});
}

}  // namespace

Rule AttentionHeadsLast() {
  Pattern q = Any(), k = Any(), v = Any();
  Pattern attention = Op("Attention", Swapped(q), Swapped(k), Swapped(v)).MoreInputs().Shared();
  Pattern root = Op("Transpose", OneOf({SeenAgain(attention), attention}))
                     .Where("a swap of the middle axes", ExchangesMiddle);
  return {
      .name = "attention-heads-last",
      .doc =
          "Transpose(Attention(Transpose(q), Transpose(k), Transpose(v))) of [B,S,H,D] => "
          "Attention of [B,S,H*D]",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(attention);
        if (!m[attention]->has_one_use()) return InvalidModel("needs no other use of the result");
        const auto heads = StaticDim(*m[q], 2), kv_heads = StaticDim(*m[k], 2);
        if (!heads || !kv_heads) return InvalidModel("needs known numbers of heads");
        std::vector<Value*> inputs = n.inputs();
        size_t at = 0;
        for (Value* x : {m[q], m[k], m[v]}) {
          INFER_ASSIGN(inputs[at++], b("Reshape", {x, b.Ints({0, 0, -1})}));
        }
        AttrMap attrs = n.attrs();
        attrs["q_num_heads"] = *heads;
        attrs["kv_num_heads"] = *kv_heads;
        INFER_ASSIGN(Value * y, AttentionAgain(n, std::move(inputs), std::move(attrs), b));
        return b("Reshape", {y, b.Ints({0, 0, *heads, -1})});
      },
      .fires_on = {R"(graph g(x: f32[N,S,8], z: f32[N,T,8], m: f32[N,1,1,T]) -> (y) {
             h = const i64[4] {0,0,2,4}  f = const i64[3] {0,0,8}
             x1 = Reshape(x, h)  z1 = Reshape(z, h)  q = Transpose(x1) {perm=[0,2,1,3]}
             k = Transpose(z1) {perm=[0,2,1,3]}  a = Attention(q, k, k, m)
             t = Transpose(a) {perm=[0,2,1,3]}  y = Reshape(t, f) })",
                   R"(graph g(q: f32[2,3,4,8], k: f32[2,3,2,8], p: f32[2,2,5,8]) -> (y, pk, pv) {
             qt = Transpose(q) {perm=[0,2,1,3]}  kt = Transpose(k) {perm=[0,2,1,3]}
             a, pk, pv = Attention(qt, kt, kt, _, p, p)  y = Transpose(a) {perm=[0,2,1,3]} })",
                   R"(graph g(q: f32[2,S,4,8], k: f32[2,T,2,8]) -> (y) { h = const i64[4] {0,2,-1,0}
             i = const i64[4] {0,4,-1,0}  qt = Transpose(q) {perm=[0,2,1,3]}
             kt = Transpose(k) {perm=[0,2,1,3]}  a = Attention(qt, kt, kt)  b = Reshape(a, h)
             c = Reshape(b, i)  y = Transpose(c) {perm=[0,2,1,3]} })"},
      .silent_on = {{R"(graph g(q: f32[2,3,4,8], k: f32[2,4,3,8]) -> (y) {
              qt = Transpose(q) {perm=[0,2,1,3]}  a = Attention(qt, k, k)
              y = Transpose(a) {perm=[0,2,1,3]} })",
                     "'k' is a graph input, not a Transpose"},
                    {R"(graph g(q: f32[2,4,4,8]) -> (y) { t = Transpose(q) {perm=[0,2,1,3]}
              a = Attention(t, t, t)  y = Transpose(a) {perm=[0,1,3,2]} })",
                     "a swap of the middle axes"},
                    {R"(graph g(q: f32[2,3,4,8]) -> (y, a) { t = Transpose(q) {perm=[0,2,1,3]}
              a = Attention(t, t, t)  y = Transpose(a) {perm=[0,2,1,3]} })",
                     "no other use of the result"},
                    {R"(graph g(q: f32[2,3,H,8]) -> (y) { t = Transpose(q) {perm=[0,2,1,3]}
              a = Attention(t, t, t)  y = Transpose(a) {perm=[0,2,1,3]} })",
                     "known numbers of heads"}},
  };
}

Rule AttentionSequenceFirst() {
  Pattern q = Any(), k = Any(), v = Any();
  Pattern attention = Op("Attention", SwappedFirst(q), SwappedFirst(k), SwappedFirst(v))
                          .MoreInputs()
                          .With("q_num_heads", int64_t{1});
  Pattern root = SwappedFirst(attention);
  return {
      .name = "attention-sequence-first",
      .doc =
          "Transpose(Attention(Transpose(q), Transpose(k), Transpose(v))) of [S,N,D] => "
          "Attention of [1,S,N*D], N heads",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(attention);
        const auto heads = StaticDim(*m[q], 1), size = StaticDim(*m[q], 2),
                   v_size = StaticDim(*m[v], 2);
        if (!heads || !size || !v_size) return InvalidModel("needs known numbers of heads");
        if (StaticDim(*m[k], 1) != heads || StaticDim(*m[v], 1) != heads || n.input(4))
          return InvalidModel("needs as many heads of queries, keys and values");
        std::vector<Value*> inputs = n.inputs();
        size_t at = 0;
        for (Value* x : {m[q], m[k], m[v]}) {
          const int64_t width = *heads * (at == 2 ? *v_size : *size);
          INFER_ASSIGN(inputs[at++], b("Reshape", {x, b.Ints({1, -1, width})}));
        }
        if (inputs.size() > 3) {
          INFER_ASSIGN(inputs[3], HeadsFromBatch(inputs[3], b));
        }
        AttrMap attrs = n.attrs();
        attrs["q_num_heads"] = attrs["kv_num_heads"] = *heads;
        INFER_ASSIGN(Value * y, b("Attention", std::move(inputs), std::move(attrs)));
        return b("Reshape", {y, b.Ints({-1, *heads, *v_size})});
      },
      .fires_on = {R"(graph g(x: f32[S,1,8], z: f32[T,1,8]) -> (y) { h = const i64[3] {0,2,4}
             x1 = Reshape(x, h)  z1 = Reshape(z, h)  q = Transpose(x1) {perm=[1,0,2]}
             k = Transpose(z1) {perm=[1,0,2]}
             a = Attention(q, k, k) {q_num_heads=1, kv_num_heads=1}
             y = Transpose(a) {perm=[1,0,2]} })",
                   R"(graph g(q: f32[3,2,4], v: f32[3,2,5], m: f32[2,1,3,3]) -> (y) {
             qt = Transpose(q) {perm=[1,0,2]}  vt = Transpose(v) {perm=[1,0,2]}
             a = Attention(qt, qt, vt, m) {q_num_heads=1, kv_num_heads=1}
             y = Transpose(a) {perm=[1,0,2]} })"},
      .silent_on = {{R"(graph g(q: f32[3,2,4]) -> (y) { t = Transpose(q) {perm=[1,0,2]}
              a = Attention(t, t, t) {q_num_heads=2, kv_num_heads=2}
              y = Transpose(a) {perm=[1,0,2]} })",
                     "made with q_num_heads=1"},
                    {R"(graph g(q: f32[3,N,4]) -> (y) { t = Transpose(q) {perm=[1,0,2]}
              a = Attention(t, t, t) {q_num_heads=1, kv_num_heads=1}
              y = Transpose(a) {perm=[1,0,2]} })",
                     "known numbers of heads"}},
  };
}

Rule AttentionFoldedHeads() {
  Pattern q = Any(), k = Any(), v = Any();
  const auto folded = [](const Pattern& x) {
    return Op("Reshape", x, Any())
        .Where("a fold of batch and heads",
               [](const Value& y) { return BeforeHeadsWereFolded(y) != nullptr; })
        .Shared();
  };
  Pattern fold_q = folded(q);
  Pattern root =
      Op("Attention", fold_q, folded(k), folded(v)).MoreInputs().With("q_num_heads", int64_t{1});
  return {
      .name = "attention-folded-heads",
      .doc = "Attention of [B*H,S,D], one head => Attention of [B,H,S,D]",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(root);
        const Value& q4 = *m[q];
        for (const Value* x : {m[k], m[v]})
          for (int i : {0, 1})
            if (!SameDim(*x, i, q4, i))
              return InvalidModel("needs as many heads of queries, keys and values");
        if (!SameDim(*m[k], 3, *m[v], 3)) return InvalidModel("needs values of the queries' size");
        if (Value* mask = n.input(3);
            mask && RankOf(*mask) != 2 &&
            (RankOf(*mask) != 4 || StaticDim(*mask, 0) != 1 || StaticDim(*mask, 1) != 1))
          return InvalidModel("needs one mask for all heads");
        if (n.input(4)) return InvalidModel("needs no cache");
        AttrMap attrs = n.attrs();
        attrs.erase("q_num_heads");
        attrs.erase("kv_num_heads");
        INFER_ASSIGN(Value * y, b("Attention", {m[q], m[k], m[v], n.input(3)}, std::move(attrs)));
        return b("Reshape", {y, m.node(fold_q).input(1)}, m.node(fold_q).attrs());
      },
      .fires_on = {R"(graph g(q: f32[2,3,5,4], k: f32[2,3,6,4], m: f32[5,6]) -> (y) {
             f = const i64[3] {6,-1,4}  q3 = Reshape(q, f)  k3 = Reshape(k, f)
             y = Attention(q3, k3, k3, m) {q_num_heads=1, kv_num_heads=1} })"},
      .silent_on =
          {{R"(graph g(q: f32[2,3,5,4], k: f32[3,2,5,4]) -> (y) { f = const i64[3] {6,-1,4}
              q3 = Reshape(q, f)  k3 = Reshape(k, f)
              y = Attention(q3, k3, k3) {q_num_heads=1, kv_num_heads=1} })",
            "as many heads"},
           {R"(graph g(q: f32[2,3,5,4], m: f32[6,1,5,5]) -> (y) { f = const i64[3] {6,-1,4}
              q3 = Reshape(q, f)  y = Attention(q3, q3, q3, m) {q_num_heads=1, kv_num_heads=1} })",
            "one mask for all heads"},
           {R"(graph g(q: f32[2,3,5,4]) -> (y) { f = const i64[3] {5,6,4}  q3 = Reshape(q, f)
              y = Attention(q3, q3, q3) {q_num_heads=1, kv_num_heads=1} })",
            "a fold of batch and heads"}},
  };
}

}  // namespace infer
