/// Zero padding that the next layer can do itself.
#include "passes/fuse/pad.h"

#include <algorithm>

#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {

PadPattern::PadPattern(Pattern x_in, Pattern value_in)
    : x(std::move(x_in)),
      value(std::move(value_in)),
      node(Op("Pad", x, pads, value, axes).With("mode", std::string("constant"))) {}

Result<AttrMap> WithPads(const Match& m, const PadPattern& p, const Node& layer) {
  const std::string& auto_pad = layer.Attr<std::string>("auto_pad");
  if (auto_pad != "NOTSET" && auto_pad != "VALID")
    return InvalidModel("needs explicit pads: auto_pad depends on the size of the input");
  const int rank = RankOf(*m[p.x]);
  if (rank < 3) return InvalidModel("needs a known rank");
  const size_t spatial = static_cast<size_t>(rank - 2);
  std::vector<int64_t> own(2 * spatial, 0);
  if (layer.attrs().count("pads") && auto_pad == "NOTSET")
    own = layer.Attr<std::vector<int64_t>>("pads");
  const std::vector<int64_t> amounts = m.tensor(p.pads).ToInts();
  std::vector<int64_t> axes;
  if (m.Has(p.axes)) {
    axes = m.tensor(p.axes).ToInts();
  } else {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    const int64_t begin = amounts[i], end = amounts[i + axes.size()];
    if (begin < 0 || end < 0) return InvalidModel("needs pads that do not crop");
    if (axis < 2) {
      if (begin != 0 || end != 0) return InvalidModel("needs pads of spatial axes alone");
      continue;
    }
    own[static_cast<size_t>(axis - 2)] += begin;
    own[static_cast<size_t>(axis - 2) + spatial] += end;
  }
  AttrMap attrs = layer.attrs();
  attrs.erase("auto_pad");
  attrs["pads"] = std::move(own);
  return attrs;
}

Result<AttrMap> PoolWithPads(const Match& m, const PadPattern& p, const Node& pool) {
  INFER_ASSIGN(AttrMap attrs, WithPads(m, p, pool));
  const auto& pads = std::get<std::vector<int64_t>>(attrs.at("pads"));
  const auto& kernel = pool.Attr<std::vector<int64_t>>("kernel_shape");
  for (size_t i = 0; i < pads.size(); ++i)
    if (pads[i] >= kernel[i % kernel.size()])
      return InvalidModel("needs pads smaller than the kernel");
  return attrs;
}

Rule FusePadConv() {
  const PadPattern p;
  Pattern weight = Any(), conv = Op("Conv", p.node, weight).MoreInputs();
  return {
      .name = "fuse-pad-conv",
      .doc = "Conv(Pad(x, p, 0)) => Conv(x) with pads + p",
      .match = conv,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(conv);
        INFER_ASSIGN(AttrMap attrs, WithPads(m, p, n));
        return b("Conv", {m[p.x], m[weight], n.input(2)}, std::move(attrs));
      },
      .fires_on =
          {R"(graph g(x: f32[1,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
                     p = const i64[8] {0,0,1,2,0,0,0,3}  t = Pad(x, p)
                     y = Conv(t, w) {pads=[1,0,0,1]} })",
           R"(graph g(x: f32[N,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1  z = const f32[] {0}
                     p = const i64[4] {1,2,3,0}  a = const i64[2] {-1,2}  t = Pad(x, p, z, a)
                     y = Conv(t, w) {auto_pad="VALID"} })"},
      .silent_on =
          {{R"(graph g(x: f32[1,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1  z = const f32[] {1}
                       p = const i64[8] {0,0,1,1,0,0,1,1}  t = Pad(x, p, z)  y = Conv(t, w) })",
            "'z' is not = 0"},
           {R"(graph g(x: f32[1,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
                       p = const i64[8] {0,0,1,1,0,0,1,1}  t = Pad(x, p) {mode="reflect"}
                       y = Conv(t, w) })",
            "made with mode"},
           {R"(graph g(x: f32[1,1,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
                       p = const i64[8] {0,1,0,0,0,0,0,0}  t = Pad(x, p)  y = Conv(t, w) })",
            "pads of spatial axes alone"},
           {R"(graph g(x: f32[1,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
                       p = const i64[8] {0,0,-1,0,0,0,0,0}  t = Pad(x, p)  y = Conv(t, w) })",
            "pads that do not crop"},
           {R"(graph g(x: f32[1,2,5,5]) -> (y) { w = const f32[3,2,3,3] ~1
                       p = const i64[8] {0,0,1,1,0,0,1,1}  t = Pad(x, p)
                       y = Conv(t, w) {auto_pad="SAME_UPPER", strides=[2,2]} })",
            "auto_pad depends"}},
  };
}

Rule FusePadAveragePool() {
  const PadPattern p;
  Pattern pool = Op("AveragePool", p.node).With("ceil_mode", int64_t{0});
  return {
      .name = "fuse-pad-averagepool",
      .doc = "AveragePool(Pad(x, p, 0)) => AveragePool(x) with pads + p that count",
      .match = pool,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(pool);
        INFER_ASSIGN(AttrMap attrs, PoolWithPads(m, p, n));
        if (const auto own = n.attrs().find("pads"); own != n.attrs().end()) {
          const auto& values = std::get<std::vector<int64_t>>(own->second);
          const bool none =
              std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 0; });
          if (!none && n.Attr<int64_t>("count_include_pad") == 0)
            return InvalidModel("needs pads of its own that count, or none");
        }
        attrs["count_include_pad"] = int64_t{1};
        return b("AveragePool", {m[p.x]}, std::move(attrs));
      },
      .fires_on = {R"(graph g(x: f32[1,2,5,5]) -> (y) { p = const i64[8] {0,0,1,1,0,0,1,0}
                     t = Pad(x, p)  y = AveragePool(t) {kernel_shape=[3,3]} })"},
      .silent_on = {{R"(graph g(x: f32[1,2,5,5]) -> (y) { p = const i64[8] {0,0,1,1,0,0,1,1}
                       t = Pad(x, p)  y = AveragePool(t) {kernel_shape=[3,3], pads=[1,1,1,1]} })",
                     "pads of its own that count"},
                    {R"(graph g(x: f32[1,2,5,5]) -> (y) { p = const i64[8] {0,0,2,2,0,0,2,2}
                       t = Pad(x, p)  y = AveragePool(t) {kernel_shape=[2,2]} })",
                     "smaller than the kernel"},
                    {R"(graph g(x: f32[1,2,5,5]) -> (y) { p = const i64[8] {0,0,1,1,0,0,1,1}
                       t = Pad(x, p)
                       y = AveragePool(t) {kernel_shape=[2,2], strides=[2,2], ceil_mode=1} })",
                     "made with ceil_mode=0"}},
  };
}

}  // namespace infer
