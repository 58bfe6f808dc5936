#include "tools/common/preprocess_hint.h"

#include <optional>

namespace infer {
namespace {

using Layout = Preprocess::Layout;
using Order = Preprocess::Order;

constexpr int kBatchedImage = 4;  // its rank

bool Fits(const Dataset& data, const Preprocess& p, const Value& input) {
  const auto batch = data.With(p).ReadRange(0, 1);
  return batch.ok() && batch->inputs.size() == 1 &&
         Meet(Shape(batch->inputs[0].second.dims()), input.shape()).ok();
}

/// Height and width that the input fixes.
std::optional<Preprocess::Size> SizeOf(const Shape& want, Layout layout) {
  const int row = layout == Layout::kHwc ? 1 : 2;
  const Dim &height = want[row], &width = want[row + 1];
  if (!height.is_static() || !width.is_static()) return std::nullopt;
  return Preprocess::Size{height.value(), width.value()};
}

/// The scale as people write it.
std::string Readable(std::string text) {
  Preprocess p;
  p.scale = 1.0 / 255;
  p.normalise = true;
  const std::string number = p.ToString();
  if (const size_t at = text.find(number); at != std::string::npos)
    text.replace(at, number.size(), "scale=1/255");
  return text;
}

}  // namespace

std::string PreprocessThatFits(const Dataset& data, const Value& input) {
  if (data.input_names().size() != 1 || data.size() == 0 || !input.type().is_tensor() ||
      !input.shape().has_rank() || input.shape().rank() != kBatchedImage)
    return "";
  const Preprocess& given = data.preprocess();
  for (const bool resized : {false, true})
    for (const Order order : {given.order, Order::kRgb, Order::kGrey})
      for (const Layout layout : {given.layout, Layout::kChw, Layout::kHwc}) {
        Preprocess p = given;
        p.order = order;
        p.layout = layout;
        if (resized) {
          p.resize = SizeOf(input.shape(), layout);
          p.crop.reset();
          if (!p.resize) continue;
        }
        // Types are cast anyway: bytes as they are stored would be 255 times too large for most
        // models.
        const bool to_float = IsFloat(input.tensor_type().dtype);
        if (to_float && !p.normalise) {
          p.scale = 1.0 / 255;
          p.normalise = true;
        }
        if (Fits(data, p, input)) return Readable(p.ToString());
      }
  return "";
}

}  // namespace infer
