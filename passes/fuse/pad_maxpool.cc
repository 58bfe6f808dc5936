/// Padding before MaxPool, which pads with -infinity itself.
#include <algorithm>

#include "passes/fuse/fusions.h"
#include "passes/fuse/pad.h"
#include "passes/rewrite/queries.h"

namespace infer {
namespace {

/// Zeros decide nothing where no element is below zero.
bool IsNeverNegative(const Value& v) {
  const Node* n = v.producer();
  if (!n) return false;
  if (const auto clamp = ClampOf(*n)) return std::min(clamp->low, clamp->high) >= 0;
  return n->Is(Trait::kNonNegative);
}

bool IsLowest(const Value& v) {
  const Tensor& t = *v.constant();
  return t.num_elements() == 1 && IsFloat(t.dtype()) && t.At(0) <= -3.4e38;
}

constexpr const char* kPadPoolBegin =
    "graph g(x: f32[1,2,5,5]) -> (y) { p = const i64[8] {0,0,1,1,0,0,1,0} "
    "l = const f32[] {-inf}  z = const f32[] {0} ";
std::string PadPoolText(const char* rest) { return std::string(kPadPoolBegin) + rest + " }"; }

}  // namespace

Rule FusePadMaxPool() {
  const PadPattern low(Any(), Constant().Where("-infinity or the lowest number", IsLowest));
  const PadPattern zero(Any().Where("never below zero: a Relu or the like", IsNeverNegative),
                        Number(0).OrOmitted());
  Pattern pool = Op("MaxPool", OneOf({zero.node, low.node})).With("ceil_mode", int64_t{0});
  return {
      .name = "fuse-pad-maxpool",
      .doc = "MaxPool(Pad(x, p, -inf)), or of zeros where x >= 0 => MaxPool(x) with pads + p",
      .match = pool,
      .build = [=](const Match& m, PatchBuilder& b) -> Result<Value*> {
        const Node& n = m.node(pool);
        const PadPattern& p = m.Has(zero.node) ? zero : low;
        INFER_ASSIGN(AttrMap attrs, PoolWithPads(m, p, n));
        if (const auto d = attrs.find("dilations"); d != attrs.end())
          for (const int64_t dilation : std::get<std::vector<int64_t>>(d->second))
            if (dilation != 1) return InvalidModel("needs a pool without dilations");
        return b("MaxPool", {m[p.x]}, std::move(attrs));
      },
      .fires_on =
          {PadPoolText("t = Pad(x, p, l) y = MaxPool(t) {kernel_shape=[3,3], strides=[2,2]}"),
           PadPoolText("r = Relu(x) t = Pad(r, p) y = MaxPool(t) {kernel_shape=[2,2]}"),
           PadPoolText("r = Sigmoid(x) t = Pad(r, p, z) y = MaxPool(t) {kernel_shape=[3,2]}")},
      // Zeros beside negative numbers are larger: ONNX Runtime 1.30 gets this wrong.
      .silent_on = {{PadPoolText("t = Pad(x, p) y = MaxPool(t) {kernel_shape=[3,3]}"),
                     "is not never below zero"},
                    {PadPoolText("t = Pad(x, p, z) y = MaxPool(t) {kernel_shape=[3,3]}"),
                     "is not never below zero"},
                    // Everything is -5: the lower bound says nothing below a lower upper one.
                    {PadPoolText("h = const f32[] {-5} c = Clip(x, z, h) t = Pad(c, p) "
                                 "y = MaxPool(t) {kernel_shape=[3,3]}"),
                     "is not never below zero"},
                    {PadPoolText("q = const i64[8] {0,0,2,2,0,0,2,2} t = Pad(x, q, l) "
                                 "y = MaxPool(t) {kernel_shape=[2,2]}"),
                     "smaller than the kernel"},
                    {PadPoolText(
                         "t = Pad(x, p, l) y = MaxPool(t) {kernel_shape=[3,3], dilations=[2,1]}"),
                     "without dilations"}},
  };
}

}  // namespace infer
