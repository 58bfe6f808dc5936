/// A small one-stage detector in the style of YOLOv5 (no published weights fit it): SiLU as
/// Sigmoid and Mul, residual bottlenecks, pooled pyramid, upsampling neck with concatenation, three
/// heads of 3 anchors and 80 classes with decoding in the graph.
#include "lib/support/strings.h"
#include "tools/zoo/spelling.h"

namespace infer {
namespace {

constexpr int64_t kAnchors = 3, kFields = 5 + 80;
/// Anchor boxes (width, height) in pixels per stride 8, 16 and 32.
constexpr float kBoxes[3][2 * kAnchors] = {
    {10, 13, 16, 30, 33, 23}, {30, 61, 62, 45, 59, 119}, {116, 90, 156, 198, 373, 326}};

Value* Concat(Net& net, Values inputs, int64_t axis) {
  return net.Op("Concat", std::move(inputs), {{"axis", axis}});
}

Value* ConvSilu(Net& net, Value* x, int64_t outputs, int64_t kernel, int64_t stride = 1) {
  x = net.Conv(x, outputs, kernel, {.stride = stride});
  x = net.BatchNorm(x, {.epsilon = 0.001f, .momentum = 0.97f});
  return spelling::Silu(net, x);
}

/// Halves the extents, then one bottleneck.
Value* Stage(Net& net, Value* x, int64_t width) {
  x = ConvSilu(net, x, width, 3, 2);
  return net.Add(x, ConvSilu(net, ConvSilu(net, x, width / 2, 1), width, 3));
}

/// nn.Upsample(scale_factor=2).
Value* Upsample(Net& net, Value* x) {
  Value* scales = net.Const(Tensor::Of<float>({4}, {1, 1, 2, 2}));
  return net.Op("Resize", {x, nullptr, scales},
                {{"coordinate_transformation_mode", std::string("asymmetric")},
                 {"cubic_coeff_a", -0.75f},
                 {"mode", std::string("nearest")},
                 {"nearest_mode", std::string("floor")}});
}

/// [batch, 255, h, w] -> boxes [batch, 3 h w, 85]: centre = (2 s(xy) + grid) * stride,
/// extents = (2 s(wh))^2 * anchor, the rest s(.), with s the sigmoid.
Value* Decode(Net& net, Value* x, int level) {
  const int64_t h = net.Extent(x, 2), w = net.Extent(x, 3), batch = net.batch();
  x = net.Reshape(x, {batch, kAnchors, kFields, h, w});
  x = net.Op("Sigmoid", {net.Transpose(x, {0, 1, 3, 4, 2})});
  const Values parts =
      net.OpN("Split", {x, net.List({2, 2, kFields - 4})}, 3, {{"axis", int64_t{4}}});
  Tensor grid(DType::kF32, {1, kAnchors, h, w, 2}), boxes(DType::kF32, {1, kAnchors, h, w, 2});
  for (int64_t i = 0; i < kAnchors * h * w; ++i) {
    const int64_t anchor = i / (h * w), y = i / w % h, column = i % w;
    grid.Set(2 * i, static_cast<double>(column) - 0.5);
    grid.Set(2 * i + 1, static_cast<double>(y) - 0.5);
    for (int64_t k = 0; k < 2; ++k)
      boxes.Set(2 * i + k, static_cast<double>(kBoxes[level][2 * anchor + k]));
  }
  Value* xy = net.Add(net.Mul(parts[0], net.JsonNumber(2)), net.Const(std::move(grid)));
  xy = net.Mul(xy, net.JsonNumber(static_cast<float>(8 << level)));
  Value* wh = net.Op("Pow", {net.Mul(parts[1], net.JsonNumber(2)), net.JsonNumber(2)});
  wh = net.Mul(wh, net.Const(std::move(boxes)));
  return net.Reshape(Concat(net, {xy, wh, parts[2]}, 4), {batch, kAnchors * h * w, kFields});
}

}  // namespace

void BuildYolo(Net& net) {
  if (net.options().resolution % 32 != 0)
    return net.Fail(InvalidArgument(Cat("yolo has strides up to 32: resolution ",
                                        net.options().resolution, " is no multiple")));
  Value* x = Stage(net, Stage(net, net.Image(), 16), 32);  // stride 4
  Value* p3 = Stage(net, x, 64);
  Value* p4 = Stage(net, p3, 128);
  Value* p5 = Stage(net, p4, 256);
  Values pyramid{ConvSilu(net, p5, 128, 1)};
  for (int i = 0; i < 3; ++i) pyramid.push_back(net.MaxPool(pyramid.back(), 5, 1, 2));
  p5 = ConvSilu(net, Concat(net, pyramid, 1), 256, 1);
  Value* n5 = ConvSilu(net, p5, 128, 1);
  Value* n4 = ConvSilu(net, Concat(net, {Upsample(net, n5), p4}, 1), 128, 3);
  Value* up = ConvSilu(net, n4, 64, 1);
  Value* n3 = ConvSilu(net, Concat(net, {Upsample(net, up), p3}, 1), 64, 3);
  Values boxes;
  for (Value* level : {n3, n4, p5}) {
    Value* raw = net.Conv(level, kAnchors * kFields, 1, {.bias = true, .gain = 1});
    boxes.push_back(Decode(net, raw, static_cast<int>(boxes.size())));
  }
  net.Output(Concat(net, boxes, 1), "output");
}

}  // namespace infer
