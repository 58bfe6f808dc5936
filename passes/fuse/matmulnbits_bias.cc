#include "passes/fuse/fusions.h"
#include "passes/rewrite/queries.h"

namespace infer {

Rule FuseMatMulNBitsBias() {
  Pattern x = Any(), weights = Any(), scales = Any(), zeros = Any().OrOmitted(),
          groups = Any().OrOmitted();
  Pattern product = Op("com.microsoft::MatMulNBits", x, weights, scales, zeros, groups);
  Pattern bias = Any();
  const std::string begin = R"(graph g(x: f32[M,16], c: f32[3], s: f32[]) -> (y) {
    w = const u8[3,1,8] {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24}
    k = const f32[3] {0.5, 0.25, 0.125}  b = const f32[3] {1, 2, 3} )";
  const std::string attrs = " {K=16, N=3, bits=4, block_size=16} ";
  return {
      .name = "fuse-matmulnbits-bias",
      .doc = "MatMulNBits(x, W) + b => MatMulNBits(x, W, b)",
      .match = Op("Add", product, bias),
      .build = [=](const Match& m, PatchBuilder& make) -> Result<Value*> {
        if (RankOf(*m[bias]) != 1 || StaticDim(*m[bias], 0) != m.node(product).Attr<int64_t>("N"))
          return InvalidModel("needs one number per column");
        return make("com.microsoft::MatMulNBits",
                    {m[x], m[weights], m[scales], m[zeros], m[groups], m[bias]},
                    m.node(product).attrs());
      },
      .fires_on = {begin + "t = com.microsoft::MatMulNBits(x, w, k)" + attrs + "y = Add(b, t) }",
                   begin + "t = com.microsoft::MatMulNBits(x, w, k)" + attrs + "y = Add(t, c) }"},
      .silent_on = {{begin + "t = com.microsoft::MatMulNBits(x, w, k)" + attrs + "y = Add(t, s) }",
                     "needs one number per column"},
                    {begin + "t = com.microsoft::MatMulNBits(x, w, k, _, _, b)" + attrs +
                         "y = Add(t, c) }",
                     "made from 6 operands, the pattern has 5"}},
  };
}

}  // namespace infer
