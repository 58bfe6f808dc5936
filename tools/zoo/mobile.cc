/// MobileNetV2 (Sandler et al., 2018) and MobileNetV3-Small (Howard et al., 2019) as torchvision
/// has them, EfficientNet-Lite0 (Tan and Le, 2019, without squeeze-and-excitation) as timm has it.
#include <algorithm>

#include "tools/zoo/spelling.h"

namespace infer {
namespace {

enum class Act : uint8_t { kNone, kRelu, kRelu6, kHardSwish };

Value* Activate(Net& net, Value* x, Act act) {
  switch (act) {
    case Act::kRelu: return net.Relu(x);
    case Act::kRelu6: return net.Relu6(x);
    case Act::kHardSwish: return spelling::HardSwish(net, x);
    case Act::kNone: break;
  }
  return x;
}

Value* ConvBn(Net& net, Value* x, int64_t outputs, int64_t kernel, int64_t stride, int64_t groups,
              Act act, BatchNormOptions bn) {
  const double gain = act == Act::kNone ? 1 : 2;
  x = net.Conv(x, outputs, kernel, {.stride = stride, .groups = groups, .gain = gain});
  return Activate(net, net.BatchNorm(x, bn), act);
}

/// x * hardsigmoid(W2 relu(W1 mean(x)))
Value* SqueezeExcite(Net& net, Value* x, int64_t squeezed) {
  Value* s = net.Op("GlobalAveragePool", {x});
  s = net.Relu(net.Conv(s, squeezed, 1, {.bias = true}));
  s = net.Conv(s, net.Extent(x, 1), 1, {.bias = true, .gain = 1});
  return net.Mul(spelling::HardSigmoid(net, s), x);
}

struct Block {
  int64_t kernel, stride, expanded, outputs;
  Act act = Act::kRelu6;
  int64_t squeezed = 0;  ///< 0: no squeeze-and-excitation
};

/// Expand (unless it would not widen), depthwise, squeeze-and-excitation, project; x added where
/// the extents stay.
Value* InvertedResidual(Net& net, Value* x, const Block& b, BatchNormOptions bn) {
  const int64_t inputs = net.Extent(x, 1);
  const bool residual = b.stride == 1 && inputs == b.outputs;
  Value* y = x;
  if (b.expanded != inputs) y = ConvBn(net, y, b.expanded, 1, 1, 1, b.act, bn);
  y = ConvBn(net, y, b.expanded, b.kernel, b.stride, b.expanded, b.act, bn);
  if (b.squeezed > 0) y = SqueezeExcite(net, y, b.squeezed);
  BatchNormOptions end = bn;
  end.scale = residual ? 0.5 : 1;
  y = ConvBn(net, y, b.outputs, 1, 1, 1, Act::kNone, end);
  return residual ? net.Add(x, y) : y;
}

/// A row of the papers' tables: `repeat` blocks, the first with the stride.
struct Stage {
  int64_t kernel, stride, expansion, outputs;
  int repeat;
};

/// Stem of 32 channels, stages, 1x1 to 1280 and the classifier: all of them with ReLU6.
void BuildRelu6Net(Net& net, std::span<const Stage> stages) {
  Value* x = ConvBn(net, net.Image(), 32, 3, 2, 1, Act::kRelu6, {});
  for (const Stage& s : stages)
    for (int i = 0; i < s.repeat; ++i)
      x = InvertedResidual(
          net, x, {s.kernel, i == 0 ? s.stride : 1, s.expansion * net.Extent(x, 1), s.outputs}, {});
  x = ConvBn(net, x, 1280, 1, 1, 1, Act::kRelu6, {});
  net.Output(net.Classifier(x, 1000), "output");
}

}  // namespace

void BuildMobilenetV2(Net& net) {
  constexpr Stage kStages[] = {{3, 1, 1, 16, 1}, {3, 2, 6, 24, 2}, {3, 2, 6, 32, 3},
                               {3, 2, 6, 64, 4}, {3, 1, 6, 96, 3}, {3, 2, 6, 160, 3},
                               {3, 1, 6, 320, 1}};
  BuildRelu6Net(net, kStages);
}

void BuildEfficientnetLite0(Net& net) {
  constexpr Stage kStages[] = {{3, 1, 1, 16, 1}, {3, 2, 6, 24, 2},  {5, 2, 6, 40, 2},
                               {3, 2, 6, 80, 3}, {5, 1, 6, 112, 3}, {5, 2, 6, 192, 4},
                               {3, 1, 6, 320, 1}};
  BuildRelu6Net(net, kStages);
}

void BuildMobilenetV3Small(Net& net) {
  constexpr Block kBlocks[] = {
      {3, 2, 16, 16, Act::kRelu, 8},        {3, 2, 72, 24, Act::kRelu},
      {3, 1, 88, 24, Act::kRelu},           {5, 2, 96, 40, Act::kHardSwish, 24},
      {5, 1, 240, 40, Act::kHardSwish, 64}, {5, 1, 240, 40, Act::kHardSwish, 64},
      {5, 1, 120, 48, Act::kHardSwish, 32}, {5, 1, 144, 48, Act::kHardSwish, 40},
      {5, 2, 288, 96, Act::kHardSwish, 72}, {5, 1, 576, 96, Act::kHardSwish, 144},
      {5, 1, 576, 96, Act::kHardSwish, 144}};
  const BatchNormOptions bn{.epsilon = 0.001f, .momentum = 0.99f};
  Value* x = ConvBn(net, net.Image(), 16, 3, 2, 1, Act::kHardSwish, bn);
  for (const Block& b : kBlocks) x = InvertedResidual(net, x, b, bn);
  x = ConvBn(net, x, 576, 1, 1, 1, Act::kHardSwish, bn);
  x = net.Flatten(net.Op("GlobalAveragePool", {x}));
  x = spelling::HardSwish(net, net.Gemm(x, 1024));
  net.Output(net.Gemm(x, 1000), "output");
}

}  // namespace infer
