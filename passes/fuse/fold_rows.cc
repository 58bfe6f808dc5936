/// Scales and normalizations behind linear layers that LinearPattern does not see: products of
/// activations of more than two axes with a matrix, and layers with a view of their result between
/// (LayerScale of "Going deeper with Image Transformers", Touvron et al. 2021; BatchNorm1d on
/// flattened tokens of "LeViT", Graham et al. 2021).
#include <algorithm>

#include "lib/support/strings.h"
#include "passes/fuse/fusions.h"
#include "passes/fuse/linear.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// MatMul(x, W) with a constant matrix, and the constant that is added to it, if any.
struct RowsPattern {
  RowsPattern()
      : weight(Constant().Where("a matrix of floats that nothing else reads",
                                [](const Value& v) {
                                  return IsFloat(v.constant()->dtype()) && RankOf(v) == 2 &&
                                         v.uses().size() == 1;
                                })),
        matmul(Op("MatMul", x, weight)),
        biased(Op("Add", matmul, bias)),
        result(OneOf({biased, matmul})) {}
  Pattern x, weight, bias = Constant(), matmul, biased, result;
};

/// MatMul(x, W*k) + (bias*k + c).
Result<Value*> WithAffineRows(const RowsPattern& rows, const Match& m, const ChannelAffine& a,
                              PatchBuilder& b) {
  const auto channels = static_cast<int64_t>(a.k.size());
  INFER_TRY(CheckFinite(a));
  std::vector<double> bias = a.c;
  if (m.choice(rows.result) == 0) {
    const int rank = RankOf(*m.node(rows.matmul).output());
    const auto old = PerIndex(m.tensor(rows.bias), rank, rank - 1, channels);
    if (!old) return InvalidModel("needs a bias that is the same in all rows");
    for (size_t i = 0; i < bias.size(); ++i) bias[i] += (*old)[i] * a.k[i];
  }
  const Tensor& w = m.tensor(rows.weight);
  INFER_ASSIGN(Value* const product,
               b("MatMul", {m.node(rows.matmul).input(0), b.Const(ScaledAlong(w, 1, a.k))}));
  const bool plain = std::all_of(bias.begin(), bias.end(), [](double v) { return v == 0; });
  if (plain) return product;
  return b("Add", {product, b.Const(FromDoubles(w.dtype(), {channels}, bias))});
}

/// Extents of the axes up to `axis` are the same before and behind a view, so that its channels
/// are.
bool KeepsAxes(const Value& before, const Value& behind, int axis) {
  if (RankOf(before) <= axis || RankOf(behind) <= axis) return false;
  for (int i = 0; i <= axis; ++i)
    if (before.shape()[i] != behind.shape()[i]) return false;
  return true;
}

/// Whether axis 1 of `view`'s result is the last axis of its operand, which has `channels`.
bool HasLastAxisSecond(const Node& view, int64_t channels) {
  const Value &before = *view.input(0), &behind = *view.output();
  if (StaticDim(before, -1) != channels || StaticDim(behind, 1) != channels) return false;
  if (!view.Is("Transpose")) return RankOf(behind) == 2;
  const auto& perm = view.Attr<std::vector<int64_t>>("perm");
  return perm.size() > 1 && perm[1] == RankOf(before) - 1;
}

constexpr const char* kNorm = R"(s = const f32[3] ~3  o = const f32[3] ~4  m = const f32[3] ~5
                                 v = const f32[3] {0.5, 1, 2} )";

std::string NormedExample(const char* begin, const char* rest) {
  return Cat("graph g(", begin, kNorm, rest, " }");
}

}  // namespace

Rule FoldRowScale() {
  const RowsPattern rows;
  Pattern c = Constant();
  Pattern root = OneOf({Op("Mul", rows.result, c), Op("Div", rows.result, c)});
  const char* x = "graph g(x: f32[N,5,4]) -> (y) { w = const f32[4,3] ~1  ";
  return {
      .name = "fold-row-scale",
      .doc =
          "(MatMul(x, W) + b) * k => MatMul(x, W*k) + b*k with a number for each column of W; "
          "also / k (LayerScale)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& matmul = m.node(rows.matmul);
        const int rank = RankOf(*matmul.output());
        const int64_t channels = m.tensor(rows.weight).dims()[1];
        if (rank < 3) return Unsupported("it is a product of two matrices");
        if (m.tensor(c).num_elements() == 1 && channels > 1)
          return InvalidModel("needs more than one number: attention takes a scale of queries");
        auto k = PerIndex(m.tensor(c), rank, rank - 1, channels);
        if (!k) return InvalidModel("needs a constant with one number per column of the matrix");
        if (m.choice(root) == 1)
          for (double& v : *k) v = 1 / v;
        const std::vector<double> none(k->size(), 0.0);
        return WithAffineRows(rows, m, {*std::move(k), none}, b);
      },
      .fires_on = {Cat(x, "b = const f32[3] ~2  k = const f32[3] ~3  t = MatMul(x, w) ",
                       "u = Add(b, t)  y = Mul(u, k) }"),
                   Cat(x, "k = const f32[1,1,3] {2, 4, 8}  t = MatMul(x, w)  y = Div(t, k) }")},
      .silent_on = {{Cat(x, "k = const f32[] {4}  t = MatMul(x, w)  y = Mul(t, k) }"),
                     "more than one number"},
                    {Cat(x, "k = const f32[5,1] ~3  t = MatMul(x, w)  y = Mul(t, k) }"),
                     "one number per column"},
                    {Cat(x, "k = const f32[3] {1, 0, 2}  t = MatMul(x, w)  y = Div(t, k) }"),
                     "finite factors"},
                    {Cat(x, "b = const f32[5,3] ~2  k = const f32[3] ~3  t = MatMul(x, w) ",
                         "u = Add(t, b)  y = Mul(u, k) }"),
                     "the same in all rows"},
                    {"graph g(x: f32[2,5,4], z: f32[2,5,4]) -> (y, q) { w = const f32[4,3] ~1 "
                     "k = const f32[3] ~3  t = MatMul(x, w)  y = Mul(t, k)  q = MatMul(z, w) }",
                     "nothing else reads"}},
  };
}

Rule FoldBatchNormBehindView() {
  const RowsPattern rows;
  const LinearPattern l;
  const Pattern any;
  Pattern layer = OneOf({rows.result, l.node});
  Pattern view = OneOf({Op("Reshape", layer, any), Op("Flatten", layer), Op("Transpose", layer),
                        Op("Squeeze", layer, any), Op("Unsqueeze", layer, any)});
  Pattern scale = Constant(), shift = Constant(), mean = Constant(), var = Constant();
  Pattern bn =
      Op("BatchNormalization", view, scale, shift, mean, var).With("training_mode", int64_t{0});
  return {
      .name = "fold-batchnorm-behind-view",
      .doc =
          "BatchNormalization of a Reshape, Flatten, Transpose, Squeeze or Unsqueeze of "
          "MatMul(x, W) + b, Conv, ConvTranspose or Gemm, where the view keeps the channels => "
          "the view of the layer with W*k, (b-mean)*k+shift",
      .match = bn,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& old = *m.node(bn).input(0)->producer();
        const ChannelAffine a = AffineOf(m.node(bn));
        const auto channels = static_cast<int64_t>(a.k.size());
        Value* made = nullptr;
        if (m.choice(layer) == 0) {
          if (m.tensor(rows.weight).dims()[1] != channels || !HasLastAxisSecond(old, channels))
            return InvalidModel("needs a view whose channels are the columns of the matrix");
          INFER_ASSIGN(made, WithAffineRows(rows, m, a, b));
        } else {
          const Node& linear = m.node(l.node);
          INFER_ASSIGN(const int64_t outputs, OutputChannels(linear));
          if (old.Is("Transpose") || outputs != channels ||
              !KeepsAxes(*old.input(0), *old.output(), 1))
            return InvalidModel("needs a view that keeps the channels of the layer");
          INFER_ASSIGN(made, WithAffine(linear, a, b));
        }
        std::vector<Value*> operands = old.inputs();
        operands[0] = made;
        return b(old.op(), std::move(operands), old.attrs());
      },
      .fires_on =
          {NormedExample("x: f32[2,5,4]) -> (y) { w = const f32[4,3] ~1  b = const f32[3] ~2 ",
                         R"(t = MatMul(x, w)  u = Add(t, b)  r = Flatten(u) {axis=2}
                      y = BatchNormalization(r, s, o, m, v))"),
           NormedExample(
               "x: f32[N,5,4]) -> (y) { w = const f32[4,3] ~1  to = const i64[2] {-1, 3} ",
               "t = MatMul(x, w)  r = Reshape(t, to)  y = BatchNormalization(r, s, o, m, v)"),
           NormedExample("x: f32[N,5,4]) -> (y) { w = const f32[4,3] ~1 ",
                         R"(t = MatMul(x, w)  r = Transpose(t) {perm=[0,2,1]}
                      y = BatchNormalization(r, s, o, m, v))"),
           NormedExample(
               "x: f32[2,4,1,6]) -> (y) { w = const f32[3,4,1,3] ~1  at = const i64[1] {2} ",
               "t = Conv(x, w)  r = Squeeze(t, at)  y = BatchNormalization(r, s, o, m, v)")},
      .silent_on = {{NormedExample("x: f32[3,2,4]) -> (y) { w = const f32[4,3] ~1 ",
                                   R"(t = MatMul(x, w)  r = Transpose(t) {perm=[1,0,2]}
                       y = BatchNormalization(r, s, o, m, v))"),
                     "whose channels are the columns"},
                    {NormedExample(
                         "x: f32[2,4,1,6]) -> (y) { w = const f32[3,4,1,3] ~1 ",
                         R"(to = const i64[3] {4, 3, 2}  t = Conv(x, w)  r = Reshape(t, to)
                       y = BatchNormalization(r, s, o, m, v))"),
                     "keeps the channels of the layer"},
                    {NormedExample("x: f32[2,5,4]) -> (y, r) { w = const f32[4,3] ~1 ",
                                   R"(t = MatMul(x, w)  r = Flatten(t) {axis=2}
                       y = BatchNormalization(r, s, o, m, v))"),
                     "'r' has other uses"}},
  };
}

}  // namespace infer
