/// ResNet (He et al., 2015), VGG (Simonyan and Zisserman, 2014) and SqueezeNet (Iandola et al.,
/// 2016) as torchvision has them.
#include "lib/support/strings.h"
#include "tools/zoo/net.h"

namespace infer {
namespace {

/// gamma at the end of a residual branch: sums of many branches stay near variance 1.
constexpr BatchNormOptions kBranchEnd{.scale = 0.3};

/// Two 3x3 convolutions.
Value* BasicBranch(Net& net, Value* x, int64_t width, int64_t stride) {
  Value* a = net.Relu(net.BatchNorm(net.Conv(x, width, 3, {.stride = stride})));
  return net.BatchNorm(net.Conv(a, width, 3), kBranchEnd);
}

/// 1x1, 3x3 (with the stride), 1x1 to four times the width.
Value* BottleneckBranch(Net& net, Value* x, int64_t width, int64_t stride) {
  Value* a = net.Relu(net.BatchNorm(net.Conv(x, width, 1)));
  Value* b = net.Relu(net.BatchNorm(net.Conv(a, width, 3, {.stride = stride})));
  return net.BatchNorm(net.Conv(b, 4 * width, 1), kBranchEnd);
}

void BuildResnet(Net& net, Value* (*branch)(Net&, Value*, int64_t, int64_t), int64_t expansion,
                 std::initializer_list<int> depths) {
  Value* x = net.Relu(net.BatchNorm(net.Conv(net.Image(), 64, 7, {.stride = 2})));
  x = net.MaxPool(x, 3, 2, 1);
  int64_t width = 64;
  for (const int depth : depths) {
    for (int i = 0; i < depth; ++i) {
      const int64_t stride = i == 0 && width > 64 ? 2 : 1;
      Value* residual = branch(net, x, width, stride);
      if (i == 0 && (stride == 2 || expansion > 1))
        x = net.BatchNorm(net.Conv(x, width * expansion, 1, {.stride = stride, .gain = 1}));
      x = net.Relu(net.Add(residual, x));
    }
    width *= 2;
  }
  net.Output(net.Classifier(x, 1000), "output");
}

}  // namespace

void BuildResnet18(Net& net) { BuildResnet(net, BasicBranch, 1, {2, 2, 2, 2}); }
void BuildResnet50(Net& net) { BuildResnet(net, BottleneckBranch, 4, {3, 4, 6, 3}); }

void BuildVgg16(Net& net) {
  if (net.options().resolution % 224 != 0)
    return net.Fail(
        InvalidArgument("vgg16 averages to 7 x 7: the resolution must be a multiple of "
                        "224"));
  constexpr int64_t kPool = 0;
  Value* x = net.Image();
  for (const int64_t width :
       {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0})
    x = width == kPool ? net.MaxPool(x, 2, 2) : net.Relu(net.Conv(x, width, 3, {.bias = true}));
  const int64_t window = net.options().resolution / 224;
  x = net.Op("AveragePool", {x},
             {{"kernel_shape", Ints{window, window}}, {"strides", Ints{window, window}}});
  x = net.Flatten(x);
  x = net.Relu(net.Gemm(x, 4096));
  x = net.Relu(net.Gemm(x, 4096));
  net.Output(net.Gemm(x, 1000), "output");
}

void BuildSqueezenet11(Net& net) {
  Value* x = net.Image();
  x = net.Relu(net.Conv(x, 64, 3, {.stride = 2, .pad = 0, .bias = true}));
  x = net.MaxPool(x, 3, 2, 0, true);
  for (const int64_t squeeze : {16, 16, 0, 32, 32, 0, 48, 48, 64, 64}) {
    if (squeeze == 0) {
      x = net.MaxPool(x, 3, 2, 0, true);
      continue;
    }
    Value* s = net.Relu(net.Conv(x, squeeze, 1, {.bias = true}));
    Value* a = net.Relu(net.Conv(s, 4 * squeeze, 1, {.bias = true}));
    Value* b = net.Relu(net.Conv(s, 4 * squeeze, 3, {.bias = true}));
    x = net.Op("Concat", {a, b}, {{"axis", int64_t{1}}});
  }
  x = net.Relu(net.Conv(x, 1000, 1, {.bias = true, .gain = 1}));
  net.Output(net.Flatten(net.Op("GlobalAveragePool", {x})), "output");
}

}  // namespace infer
