/// One group of a channel shuffle: PyTorch's ShuffleNet and its relatives cut channels apart by
/// their index modulo the number of groups.
#include "passes/rewrite/queries.h"
#include "passes/simplify/simplify.h"
#include "passes/simplify/slice_ranges.h"

namespace infer {
namespace {

/// The number of groups where x [B, C*g, ...] was seen as `flat` [B*C, g, rest] and one of its
/// groups is `part` [B, C, ...].
std::optional<int64_t> GroupsOf(const Value& x, const Value& flat, const Value& part) {
  const int rank = RankOf(x);
  if (rank < 2 || RankOf(part) != rank || RankOf(flat) != 3) return std::nullopt;
  const auto groups = StaticDim(flat, 1);
  if (!groups || *groups < 2) return std::nullopt;
  Dim rest = 1;
  for (int i = 2; i < rank; ++i) rest = rest * x.shape()[i];
  if (!rest.KnownEqual(flat.shape()[2])) return std::nullopt;
  for (int i = 0; i < rank; ++i) {
    const Dim& d = part.shape()[i];
    if (!(i == 1 ? d * Dim(*groups) : d).KnownEqual(x.shape()[i])) return std::nullopt;
  }
  return groups;
}

}  // namespace

Rule SliceOfShuffle() {
  Pattern x = Any(), index = Scalar().Where(
                         "without axes", [](const Value& v) { return v.constant()->rank() == 0; });
  Pattern flat = Op("Reshape", x, Any());
  Pattern turned = Op("Transpose", flat);
  Pattern apart = Op("Reshape", turned, Any()).Shared();
  Pattern root = Op("Gather", apart, index);
  return {
      .name = "slice-of-shuffle",
      .doc =
          "Gather(Reshape(Transpose(Reshape(x))), j) of every g-th channel => Slice(x, j, step g)",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        if (PermOf(m.node(turned)) != std::vector<int64_t>{1, 0, 2} ||
            m.node(root).Attr<int64_t>("axis") != 0)
          return InvalidModel("needs groups that become the first axis, which is read there");
        const auto groups = GroupsOf(*m[x], *m[flat], *m[root]);
        if (!groups || StaticDim(*m[apart], 0) != groups)
          return InvalidModel("needs groups of channels, axis 1 of x");
        int64_t at = m.tensor(index).IntAt(0);
        if (at < 0) at += *groups;
        if (at < 0 || at >= *groups) return InvalidModel("needs an index of a group");
        const auto extent = StaticDim(*m[x], 1);
        if (!extent) return InvalidModel("needs a known number of channels");
        return BuildSlice(b, m[x], {{1, at, *extent, *groups}});
      },
      .fires_on = {R"(graph g(x: f32[1,6,4,5]) -> (y) { s = const i64[3] {3,2,20}
             t = const i64[5] {2,-1,3,4,5}  i = const i64[] {1}  a = Reshape(x, s)
             b = Transpose(a) {perm=[1,0,2]}  c = Reshape(b, t)  y = Gather(c, i) })",
                   R"(graph g(x: f32[N,6,4]) -> (y, c) { s = const i64[3] {-1,3,4}
             t = const i64[4] {3,-1,2,4}  i = const i64[] {-1}  a = Reshape(x, s)
             b = Transpose(a) {perm=[1,0,2]}  c = Reshape(b, t)  y = Gather(c, i) })"},
      .silent_on = {{R"(graph g(x: f32[1,6,4,5]) -> (y) { s = const i64[3] {3,2,20}
             t = const i64[5] {3,-1,2,4,5}  i = const i64[] {1}  a = Reshape(x, s)
             b = Transpose(a) {perm=[0,1,2]}  c = Reshape(b, t)  y = Gather(c, i) })",
                     "groups that become the first axis"},
                    {R"(graph g(x: f32[1,6,4,5]) -> (y) { s = const i64[3] {12,2,5}
             t = const i64[5] {2,-1,3,4,5}  i = const i64[] {1}  a = Reshape(x, s)
             b = Transpose(a) {perm=[1,0,2]}  c = Reshape(b, t)  y = Gather(c, i) })",
                     "groups of channels"},
                    {R"(graph g(x: f32[1,6,4,5]) -> (y) { s = const i64[3] {3,2,20}
             t = const i64[5] {2,-1,3,4,5}  i = const i64[1] {1}  a = Reshape(x, s)
             b = Transpose(a) {perm=[1,0,2]}  c = Reshape(b, t)  y = Gather(c, i) })",
                     "without axes"}},
  };
}

}  // namespace infer
