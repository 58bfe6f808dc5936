#include "runtime/vulkan/kernels/conv_product.h"

#include "lib/support/strings.h"

namespace infer::vulkan {
namespace {

bool IsPoint(const WindowAxis& a) {
  return a.kernel == 1 && a.stride == 1 && a.pad_begin == 0 && a.pad_end == 0;
}

}  // namespace

std::string ConvTiles::Name(std::string_view family) const {
  return Cat(family, subgroup ? "_subgroup" : tiling.suffix());
}

ConvTiles TilesOf(const DeviceFacts& facts, const ConvProduct& p, bool may_split) {
  const int64_t columns = p.batch * p.pixels();
  ConvTiles tiles;
  tiles.subgroup = facts.subgroup && SubgroupRounds(p.k, p.taps()) <= facts.max_iterations;
  if (!tiles.subgroup) {
    tiles.tiling = TilingOf(facts, p.m, columns, p.k, p.groups, may_split, 128);
    return tiles;
  }
  tiles.tiling.tiles_m = (p.m + kSubgroupRows - 1) / kSubgroupRows;
  tiles.tiling.tiles_n = (columns + kSubgroupColumns - 1) / kSubgroupColumns;
  return tiles;
}

void AddConvProduct(const ConvProduct& p, const ConvTiles& tiles, const Tail& tail, bool has_bias,
                    ConvArgs args, LaunchBuilder& b) {
  const Tiling& t = tiles.tiling;
  Push push;
  push.U(p.m).U(p.k).U(t.tiles_m).U(t.tiles_n).U(p.batch).U(p.groups);
  push.U(p.in_h).U(p.in_w).U(p.out_h).U(p.out_w).U(p.h.kernel).U(p.w.kernel);
  push.U(p.h.stride | p.w.stride << 16).U(p.h.dilation | p.w.dilation << 16);
  push.U(p.h.pad_begin).U(p.w.pad_begin).U(p.in_channels);
  if (!tiles.subgroup) push.U(t.k_part);
  push.U(p.out_channels).U(p.first);
  tail.Add(push);
  b.Iterations(tiles.subgroup ? SubgroupRounds(p.k, p.taps()) : TileRounds(t.tile, t.k_part));
  std::vector<int32_t> constants = tail.Constants();
  constants.push_back(has_bias);
  constants.push_back(IsPoint(p.h) && IsPoint(p.w));
  constants.push_back((tiles.subgroup ? p.k : t.k_part) > kLongSum);
  if (!tiles.subgroup) constants.push_back(t.parts > 1);
  b.Dispatch(tiles.shader(), std::move(constants), std::move(args), push, t.groups() * p.groups);
}

}  // namespace infer::vulkan
