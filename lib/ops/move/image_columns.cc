#include "lib/ops/move/image_columns.h"

#include <algorithm>

#include "lib/support/strings.h"

namespace infer {
namespace {

/// An INTS attribute with one entry per spatial axis (times `per_axis`).
Result<std::vector<int64_t>> PerAxis(const OpCall& call, std::string_view attr, size_t count,
                                     int64_t absent) {
  if (!call.HasAttr(attr)) return std::vector<int64_t>(count, absent);
  const auto& v = call.Ints(attr);
  if (v.size() != count || std::any_of(v.begin(), v.end(), [&](int64_t i) { return i < absent; }))
    return InvalidModel(Cat(attr, " needs ", count, " entries of at least ", absent));
  return v;
}

}  // namespace

Result<ImageColumns> ImageColumns::Of(const OpCall& call, const Dims& columns, const Dims& image,
                                      const Dims& block) {
  const size_t r = image.size();
  ImageColumns c;
  c.image = image;
  c.block = block;
  c.blocks = Dims(r);
  INFER_ASSIGN(c.strides, PerAxis(call, "strides", r, 1));
  INFER_ASSIGN(c.dilations, PerAxis(call, "dilations", r, 1));
  INFER_ASSIGN(c.pads, PerAxis(call, "pads", 2 * r, 0));
  for (size_t i = 0; i < r && block.size() == r; ++i) {
    if (block[i] < 1 || image[i] < 1 || block[i] > INT32_MAX || c.dilations[i] > INT32_MAX)
      return InvalidModel("image_shape and block_shape must be positive");
    const int64_t span = image[i] + c.pads[i] + c.pads[i + r] - c.dilations[i] * (block[i] - 1) - 1;
    c.blocks[i] = span < 0 ? 0 : span / c.strides[i] + 1;
  }
  const auto entries = CheckedNumElements(block);
  if (r < 1 || block.size() != r || columns.size() != 3 || !entries || columns[1] % *entries != 0 ||
      CheckedNumElements(c.blocks) != columns[2])
    return InvalidModel(Cat("columns ", ToString(columns), " do not fit image ", ToString(image),
                            " in blocks ", ToString(block)));
  c.entries = *entries;
  return c;
}

int64_t ImageColumns::PixelOf(int64_t entry, int64_t column) const {
  int64_t at = 0, scale = 1;
  bool inside = true;
  for (size_t k = image.size(); k-- > 0;) {
    const int64_t p = column % blocks[k] * strides[k] + entry % block[k] * dilations[k] - pads[k];
    inside &= p >= 0 && p < image[k];
    at += p * scale;
    scale *= image[k];
    column /= blocks[k];
    entry /= block[k];
  }
  return inside ? at : -1;
}

}  // namespace infer
