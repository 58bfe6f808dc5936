/// Blocks of pixels that become channels, and back.
#include <algorithm>

#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"
#include "passes/simplify/slice_ranges.h"

namespace infer {
namespace {

/// A Concat over the channels of all s*s strided Slices of one image.
struct Focus {
  Value* image = nullptr;
  int64_t block = 0;
  std::vector<int64_t> order;  ///< operand i is block row * s + column = order[i]
};

/// The offsets of a Slice x[.., row::s, column::s]; nullopt for any other.
std::optional<std::pair<int64_t, int64_t>> Offsets(const Node& slice, int64_t s) {
  const auto ranges = SliceRangesOf(slice);
  if (!ranges || ranges->size() != 2) return std::nullopt;
  std::optional<int64_t> at[2];
  for (const SliceRange& r : *ranges) {
    if (r.axis < 2 || r.axis > 3 || r.step != s || r.start < 0 || r.start >= s) return std::nullopt;
    const auto extent = StaticDim(*slice.input(0), static_cast<int>(r.axis));
    const bool whole = r.end == INT64_MAX || r.end == INT32_MAX || (extent && r.end >= *extent);
    if (!whole) return std::nullopt;
    at[r.axis - 2] = r.start;
  }
  if (!at[0] || !at[1]) return std::nullopt;
  return std::pair(*at[0], *at[1]);
}

std::optional<Focus> FocusOf(const Value& root) {
  const Node& n = *root.producer();
  if (RankOf(root) != 4 || (n.Attr<int64_t>("axis") != 1 && n.Attr<int64_t>("axis") != -3))
    return std::nullopt;
  const size_t parts = n.inputs().size();
  Focus f;
  for (f.block = 2; static_cast<size_t>(f.block * f.block) < parts;) ++f.block;
  if (static_cast<size_t>(f.block * f.block) != parts) return std::nullopt;
  std::vector<bool> seen(parts, false);
  for (const Value* v : n.inputs()) {
    const Node* slice = v->producer();
    if (!slice || !slice->Is("Slice")) return std::nullopt;
    if (f.image && slice->input(0) != f.image) return std::nullopt;
    f.image = slice->input(0);
    const auto at = Offsets(*slice, f.block);
    if (!at) return std::nullopt;
    const int64_t index = at->first * f.block + at->second;
    if (seen[static_cast<size_t>(index)]) return std::nullopt;
    seen[static_cast<size_t>(index)] = true;
    f.order.push_back(index);
  }
  return f;
}

bool Divides(const Value& image, int64_t s) {
  for (const int axis : {2, 3}) {
    const auto extent = StaticDim(image, axis);
    if (!extent || *extent % s != 0) return false;
  }
  return true;
}

/// Reshape(Transpose(Reshape(x))) with the shape in between.
struct Shuffle {
  Pattern x, first = Op("Reshape", x, Any());
  Pattern transpose = Op("Transpose", first), root = Op("Reshape", transpose, Any());
};

using Perm = std::vector<int64_t>;
const Perm kDcr = {0, 3, 4, 1, 5, 2}, kCrd = {0, 1, 4, 2, 5, 3}, kToDepth = {0, 3, 5, 1, 2, 4};

bool IsKnown(const Dim& a, const Dim& b) { return a.KnownEqual(b); }

/// The block of a DepthToSpace with this perm; 0 where the shapes are others.
int64_t BlockOfDepthToSpace(const Match& m, const Shuffle& p, const Perm& perm) {
  if (PermOf(m.node(p.transpose)) != perm) return 0;
  const Shape &x = m[p.x]->shape(), &mid = m[p.first]->shape(), &y = m[p.root]->shape();
  if (!x.has_rank() || x.rank() != 4 || !mid.has_rank() || mid.rank() != 6 || !y.has_rank() ||
      y.rank() != 4)
    return 0;
  const int s_at = perm == kDcr ? 1 : 2, c_at = perm == kDcr ? 3 : 1;
  if (!mid[s_at].is_static() || !(mid[s_at] == mid[s_at + 1])) return 0;
  const Dim s = mid[s_at];
  const bool fits = IsKnown(x[0], mid[0]) && IsKnown(mid[4], x[2]) && IsKnown(mid[5], x[3]) &&
                    IsKnown(x[1], s * s * mid[c_at]) && IsKnown(y[0], x[0]) &&
                    IsKnown(y[1], mid[c_at]) && IsKnown(y[2], s * x[2]) && IsKnown(y[3], s * x[3]);
  return fits ? s.value() : 0;
}

}  // namespace

Rule FuseSpaceToDepth() {
  Pattern root = Op("Concat", {})
                     .MoreInputs()
                     .Where("a Concat of all strided Slices of one image over the channels",
                            [](const Value& v) { return FocusOf(v).has_value(); });
  return {
      .name = "fuse-space-to-depth",
      .doc =
          "Concat(x[.., 0::2, 0::2], x[.., 1::2, 0::2], ...) => SpaceToDepth(x), channels in the "
          "order of the Concat",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Focus f = *FocusOf(*m[root]);
        if (!Divides(*f.image, f.block))
          return InvalidModel("needs extents that the block divides");
        for (const Value* v : m.node(root).inputs())
          if (v->has_one_use()) b.Cover(v->producer());
        INFER_ASSIGN(Value * deep, b("SpaceToDepth", {f.image}, {{"blocksize", f.block}}));
        if (std::is_sorted(f.order.begin(), f.order.end())) return deep;
        const auto channels = StaticDim(*f.image, 1);
        if (!channels) return InvalidModel("needs a known number of channels");
        std::vector<int64_t> from;
        for (const int64_t block : f.order)
          for (int64_t c = 0; c < *channels; ++c) from.push_back(block * *channels + c);
        return b("Gather", {deep, b.Ints(from)}, {{"axis", int64_t{1}}});
      },
      .fires_on =
          {R"(graph g(x: f32[N,3,4,6]) -> (y) { a = const i64[2] {0,0}  b = const i64[2] {1,0}
              c = const i64[2] {0,1}  d = const i64[2] {1,1}  i = const i64[2] {2,3}
              s = const i64[2] {2,2}  e = const i64[2] {9223372036854775807,9223372036854775807}
              p = Slice(x, a, e, i, s)  q = Slice(x, b, e, i, s)  r = Slice(x, c, e, i, s)
              t = Slice(x, d, e, i, s)  y = Concat(p, q, r, t) {axis=1} })",
           R"(graph g(x: f32[N,3,4,6]) -> (y) { a = const i64[2] {0,0}  b = const i64[2] {1,0}
              c = const i64[2] {0,1}  d = const i64[2] {1,1}  i = const i64[2] {-2,-1}
              s = const i64[2] {2,2}  e = const i64[2] {4,6}
              p = Slice(x, a, e, i, s)  q = Slice(x, b, e, i, s)  r = Slice(x, c, e, i, s)
              t = Slice(x, d, e, i, s)  y = Concat(p, r, q, t) {axis=1} })"},
      .silent_on =
          {{R"(graph g(x: f32[N,3,H,6]) -> (y) { a = const i64[2] {0,0}  b = const i64[2] {1,0}
              c = const i64[2] {0,1}  d = const i64[2] {1,1}  i = const i64[2] {2,3}
              s = const i64[2] {2,2}  e = const i64[2] {9223372036854775807,9223372036854775807}
              p = Slice(x, a, e, i, s)  q = Slice(x, b, e, i, s)  r = Slice(x, c, e, i, s)
              t = Slice(x, d, e, i, s)  y = Concat(p, q, r, t) {axis=1} })",
            "extents that the block divides"},
           {R"(graph g(x: f32[N,3,4,6]) -> (y) { a = const i64[2] {0,0}  b = const i64[2] {1,0}
              d = const i64[2] {1,1}  i = const i64[2] {2,3}
              s = const i64[2] {2,2}  e = const i64[2] {9223372036854775807,9223372036854775807}
              p = Slice(x, a, e, i, s)  q = Slice(x, b, e, i, s)
              t = Slice(x, d, e, i, s)  y = Concat(p, q, q, t) {axis=1} })",
            "all strided Slices of one image"}},
  };
}

Rule FoldChannelOrder() {
  Pattern x = Any(), order = Constant(), gather = Op("Gather", x, order).With("axis", int64_t{1});
  Pattern weight = Constant(), bias = Any().OrOmitted();
  Pattern root = Op("Conv", gather, weight, bias).With("group", int64_t{1});
  return {
      .name = "fold-channel-order",
      .doc = "Conv(Gather(x, order, axis=1), W) => Conv(x, W with its input channels put back)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Tensor &w = m.tensor(weight), &from = m.tensor(order);
        const auto channels = StaticDim(*m[x], 1);
        if (!channels || from.rank() != 1 || from.num_elements() != *channels)
          return InvalidModel("needs each channel once");
        std::vector<int64_t> back(static_cast<size_t>(*channels), -1);
        for (int64_t i = 0; i < *channels; ++i) {
          const int64_t c = from.IntAt(i) < 0 ? from.IntAt(i) + *channels : from.IntAt(i);
          if (c < 0 || c >= *channels || back[static_cast<size_t>(c)] >= 0)
            return InvalidModel("needs each channel once");
          back[static_cast<size_t>(c)] = i;
        }
        Tensor turned(w.dtype(), w.dims());
        const int64_t inner = w.num_elements() / (w.dim(0) * w.dim(1));
        for (int64_t o = 0; o < w.dim(0); ++o)
          for (int64_t c = 0; c < w.dim(1); ++c)
            for (int64_t k = 0; k < inner; ++k)
              turned.Set((o * w.dim(1) + c) * inner + k,
                         w.At((o * w.dim(1) + back[static_cast<size_t>(c)]) * inner + k));
        return b("Conv", {m[x], b.Const(turned), m[bias]}, m.node(root).attrs());
      },
      .fires_on = {R"(graph g(x: f32[N,3,4,4]) -> (y) { i = const i64[3] {2,0,-2}
                     w = const f32[2,3,3,3] ~1  t = Gather(x, i) {axis=1}  y = Conv(t, w) })"},
      .silent_on = {{R"(graph g(x: f32[N,3,4,4]) -> (y) { i = const i64[3] {2,0,0}
                       w = const f32[2,3,3,3] ~1  t = Gather(x, i) {axis=1}  y = Conv(t, w) })",
                     "each channel once"},
                    {R"(graph g(x: f32[N,3,4,4]) -> (y) { i = const i64[2] {2,0}
                       w = const f32[2,2,3,3] ~1  t = Gather(x, i) {axis=1}  y = Conv(t, w) })",
                     "each channel once"},
                    {R"(graph g(x: f32[N,2,4,4]) -> (y) { i = const i64[2] {1,0}
                       w = const f32[2,1,3,3] ~1  t = Gather(x, i) {axis=1}
                       y = Conv(t, w) {group=2} })",
                     "made with group=1"}},
  };
}

Rule FuseDepthToSpace() {
  const Shuffle p;
  return {
      .name = "fuse-depth-to-space",
      .doc =
          "Reshape(Transpose(Reshape(x))) that makes pixels of channels => DepthToSpace(x), DCR "
          "or CRD (PixelShuffle)",
      .match = p.root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        for (const Perm& perm : {kDcr, kCrd})
          if (const int64_t s = BlockOfDepthToSpace(m, p, perm); s > 0)
            return b("DepthToSpace", {m[p.x]},
                     {{"blocksize", s}, {"mode", std::string(perm == kDcr ? "DCR" : "CRD")}});
        return InvalidModel("needs the shapes and the order of axes of a DepthToSpace");
      },
      .fires_on = {R"(graph g(x: f32[N,12,4,5]) -> (y) { a = const i64[6] {-1,2,2,3,4,5}
                     b = const i64[4] {-1,3,8,10}  t = Reshape(x, a)
                     u = Transpose(t) {perm=[0,3,4,1,5,2]}  y = Reshape(u, b) })",
                   R"(graph g(x: f32[N,12,4,5]) -> (y) { a = const i64[6] {0,3,2,2,4,5}
                     b = const i64[4] {0,3,8,10}  t = Reshape(x, a)
                     u = Transpose(t) {perm=[0,1,4,2,5,3]}  y = Reshape(u, b) })"},
      .silent_on = {{R"(graph g(x: f32[N,12,4,4]) -> (y) { a = const i64[6] {0,3,2,2,4,4}
                       b = const i64[4] {0,3,8,8}  t = Reshape(x, a)
                       u = Transpose(t) {perm=[0,1,2,4,5,3]}  y = Reshape(u, b) })",
                     "the order of axes of a DepthToSpace"},
                    {R"(graph g(x: f32[N,12,4,4]) -> (y) { a = const i64[6] {0,3,2,2,4,4}
                       b = const i64[4] {0,6,4,8}  t = Reshape(x, a)
                       u = Transpose(t) {perm=[0,1,4,2,5,3]}  y = Reshape(u, b) })",
                     "needs the shapes"}},
  };
}

Rule FuseReshapedSpaceToDepth() {
  const Shuffle p;
  return {
      .name = "fuse-reshaped-space-to-depth",
      .doc = "Reshape(Transpose(Reshape(x))) that makes channels of pixels => SpaceToDepth(x)",
      .match = p.root,
      .quiet = true,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Shape &x = m[p.x]->shape(), &mid = m[p.first]->shape(), &y = m[p.root]->shape();
        const bool ranks = x.has_rank() && x.rank() == 4 && mid.has_rank() && mid.rank() == 6 &&
                           y.has_rank() && y.rank() == 4;
        if (!ranks || PermOf(m.node(p.transpose)) != kToDepth || !mid[3].is_static() ||
            !(mid[3] == mid[5]))
          return InvalidModel("needs the shapes and the order of axes of a SpaceToDepth");
        const Dim s = mid[3];
        const bool fits = IsKnown(x[0], mid[0]) && IsKnown(x[1], mid[1]) &&
                          IsKnown(x[2], s * mid[2]) && IsKnown(x[3], s * mid[4]) &&
                          IsKnown(y[0], x[0]) && IsKnown(y[1], s * s * x[1]) &&
                          IsKnown(y[2], mid[2]) && IsKnown(y[3], mid[4]);
        if (!fits) return InvalidModel("needs the shapes and the order of axes of a SpaceToDepth");
        return b("SpaceToDepth", {m[p.x]}, {{"blocksize", s.value()}});
      },
      .fires_on = {R"(graph g(x: f32[N,3,4,6]) -> (y) { a = const i64[6] {0,3,2,2,3,2}
                     b = const i64[4] {0,12,2,3}  t = Reshape(x, a)
                     u = Transpose(t) {perm=[0,3,5,1,2,4]}  y = Reshape(u, b) })"},
      .silent_on = {{R"(graph g(x: f32[N,3,4,6]) -> (y) { a = const i64[6] {0,3,2,2,3,2}
                       b = const i64[4] {0,12,2,3}  t = Reshape(x, a)
                       u = Transpose(t) {perm=[0,1,3,5,2,4]}  y = Reshape(u, b) })",
                     "the order of axes of a SpaceToDepth"}},
  };
}

}  // namespace infer
