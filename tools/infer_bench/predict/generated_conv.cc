/// Convolutional networks: stems, plain, separable, residual and squeezed blocks, pooling,
/// branches, classifiers.
#include <algorithm>

#include "tools/infer_bench/predict/generated.h"

namespace infer::bench {
namespace {

constexpr double kMostOps = 0.6e9;            // of one network, operations
constexpr int64_t kMostElements = 2'500'000;  // of one activation

class ConvMaker {
 public:
  ConvMaker(Maker& m, bool quantized) : m_(m), net_(m.net), quantized_(quantized) {}

  void Make() {
    const int64_t resolution =
        m_.Maybe(0.3)
            ? m_.Of({4, 6, 7, 8, 10, 12, 14, 16, 24})
            : m_.Of({16, 20, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320});
    const int64_t width = m_.Maybe(0.7) ? resolution : resolution * m_.Of({3, 4, 5}) / 4;
    act_ = static_cast<int64_t>(m_.random.Below(10));
    batch_norm_ = m_.Maybe(0.3);
    most_channels_ = m_.Of({32, 64, 128, 256, 512, 1024});
    Value* x = m_.FloatInput(
        "input", {m_.Of({1, 1, 1, 1, 2, 4}), m_.Of({1, 3, 3, 3, 8, 16}), resolution, width});
    if (m_.Maybe(0.75))
      x = Conv(x, m_.Channels(8, 64), m_.Of({3, 3, 3, 5, 7}), m_.Of({1, 2, 2}));
    else if (m_.Maybe(0.5))
      x = Conv(x, m_.Channels(16, most_channels_), 1, 1);
    for (int64_t blocks = m_.Between(3, 14); blocks > 0 && ops_ < kMostOps; --blocks) x = Block(x);
    if (m_.Maybe(0.4)) {
      x = net_.Classifier(x, m_.Between(2, 1500));
      if (m_.Maybe(0.5)) x = net_.Op("Softmax", {x}, {{"axis", int64_t{-1}}});
    }
    net_.Output(Quantize(x), "output");
  }

 private:
  int64_t Side(const Value* x) const { return std::min(net_.Extent(x, 2), net_.Extent(x, 3)); }

  /// Channels that keep the next layer within what is left.
  int64_t NextChannels(Value* x) {
    const int64_t room =
        kMostElements /
        std::max<int64_t>(net_.Extent(x, 0) * net_.Extent(x, 2) * net_.Extent(x, 3), 1);
    return m_.Channels(8, std::clamp<int64_t>(room, 8, most_channels_));
  }

  Value* Quantize(Value* x) {
    if (!quantized_) return x;
    Value *scale = net_.JsonNumber(0.02f), *zero = net_.Const(Tensor::Scalar<uint8_t>(128));
    return net_.Op("DequantizeLinear", {net_.Op("QuantizeLinear", {x, scale, zero}), scale, zero});
  }

  Value* Weight(const Dims& dims) {
    if (!quantized_) return net_.Weight(dims, 0.05);
    Tensor codes(DType::kI8, dims);
    for (int8_t& c : codes.mutable_data<int8_t>())
      c = static_cast<int8_t>(static_cast<int>(m_.random.Below(255)) - 127);
    Tensor scales(DType::kF32, {dims[0]}), zeros = Tensor::Zeros(DType::kI8, {dims[0]});
    for (float& s : scales.mutable_data<float>()) s = 0.001f;
    return net_.Op(
        "DequantizeLinear",
        {net_.Const(std::move(codes)), net_.Const(std::move(scales)), net_.Const(std::move(zeros))},
        {{"axis", int64_t{0}}});
  }

  Value* RawConv(Value* x, int64_t outputs, int64_t kernel, int64_t stride, int64_t groups) {
    const int64_t inputs = net_.Extent(x, 1) / groups, pad = kernel / 2;
    Values operands{Quantize(x), Weight({outputs, inputs, kernel, kernel})};
    if (!batch_norm_) operands.push_back(net_.Weight({outputs}, 0.05));
    const int64_t dilation = kernel == 3 && stride == 1 && m_.Maybe(0.04) ? 2 : 1;
    const int64_t p = pad * dilation;
    Value* y = net_.Op("Conv", std::move(operands),
                       {{"dilations", Ints{dilation, dilation}},
                        {"group", groups},
                        {"kernel_shape", Ints{kernel, kernel}},
                        {"pads", Ints{p, p, p, p}},
                        {"strides", Ints{stride, stride}}});
    ops_ += 2.0 * static_cast<double>(inputs * kernel * kernel * outputs * net_.Extent(y, 0) *
                                      net_.Extent(y, 2) * net_.Extent(y, 3));
    return batch_norm_ ? net_.BatchNorm(y) : y;
  }

  Value* Conv(Value* x, int64_t outputs, int64_t kernel, int64_t stride, int64_t groups = 1) {
    return m_.Activation(RawConv(x, outputs, kernel, stride, groups), act_);
  }

  Value* Squeeze(Value* x) {
    const int64_t channels = net_.Extent(x, 1),
                  inside = std::max<int64_t>(channels / m_.Of({4, 4, 8, 16}), 4);
    Value* s = net_.Op("GlobalAveragePool", {x});
    s = net_.Relu(net_.Conv(s, inside, 1, {.bias = true}));
    s = net_.Conv(s, channels, 1, {.bias = true, .gain = 1});
    return net_.Mul(x, m_.Maybe(0.5) ? net_.Op("Sigmoid", {s}) : spelling::HardSigmoid(net_, s));
  }

  Value* Separable(Value* x) {
    const int64_t inputs = net_.Extent(x, 1), stride = Side(x) >= 8 && m_.Maybe(0.25) ? 2 : 1;
    const int64_t kernel = m_.Of({3, 3, 3, 5, 5, 7});
    const bool keeps = stride == 1 && m_.Maybe(0.6);
    Value* y = x;
    if (m_.Maybe(0.5)) y = Conv(y, std::min(NextChannels(x), inputs * m_.Of({2, 3, 4, 6})), 1, 1);
    y = Conv(y, net_.Extent(y, 1), kernel, stride, net_.Extent(y, 1));
    if (m_.Maybe(0.25)) y = Squeeze(y);
    if (m_.Maybe(0.15)) return y;
    y = RawConv(y, keeps ? inputs : NextChannels(y), 1, 1, 1);
    return keeps ? net_.Add(x, y) : m_.Activation(y, m_.Maybe(0.5) ? act_ : 9);
  }

  Value* Residual(Value* x) {
    const int64_t inputs = net_.Extent(x, 1);
    Value* y = Conv(x, m_.Maybe(0.5) ? inputs : std::max<int64_t>(inputs / 4, 4),
                    m_.Maybe(0.5) ? 3 : 1, 1);
    if (m_.Maybe(0.5)) y = Conv(y, net_.Extent(y, 1), 3, 1);
    y = RawConv(y, inputs, m_.Maybe(0.5) ? 3 : 1, 1, 1);
    return m_.Activation(net_.Add(y, x), act_);
  }

  Value* Pool(Value* x) {
    const char* op = m_.Maybe(0.7) ? "MaxPool" : "AveragePool";
    const int64_t kernel = m_.Of({2, 2, 3, 3, 5}), stride = m_.Of({1, 2, 2}),
                  pad = kernel > 2 ? kernel / 2 : 0;
    if (Side(x) < kernel) return x;
    return net_.Op(op, {x},
                   {{"kernel_shape", Ints{kernel, kernel}},
                    {"pads", Ints{pad, pad, pad, pad}},
                    {"strides", Ints{stride, stride}}});
  }

  Value* Branches(Value* x) {
    Values parts{Conv(x, NextChannels(x) / 2 + 1, 1, 1), Conv(x, NextChannels(x) / 2 + 1, 3, 1)};
    if (m_.Maybe(0.3)) parts.push_back(x);
    return net_.Op("Concat", std::move(parts), {{"axis", int64_t{1}}});
  }

  Value* Larger(Value* x) {
    const int64_t channels = net_.Extent(x, 1);
    if (net_.Extent(x, 0) * channels * net_.Extent(x, 2) * net_.Extent(x, 3) * 4 > kMostElements)
      return x;
    if (m_.Maybe(0.3)) {
      const int64_t outputs = std::max<int64_t>(channels / 2, 1);
      ops_ += 8.0 * static_cast<double>(channels * outputs * net_.Extent(x, 2) * net_.Extent(x, 3));
      return net_.Op("ConvTranspose", {x, net_.Weight({channels, outputs, 2, 2}, 0.05)},
                     {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
    }
    Tensor scales = Tensor::Of<float>({4}, {1, 1, 2, 2});
    const bool nearest = m_.Maybe(0.6);
    return net_.Op(
        "Resize", {x, nullptr, net_.Const(std::move(scales))},
        {{"mode", std::string(nearest ? "nearest" : "linear")},
         {"coordinate_transformation_mode", std::string(nearest ? "asymmetric" : "half_pixel")},
         {"nearest_mode", std::string("floor")}});
  }

  Value* Shuffled(Value* x) {
    const int64_t n = net_.Extent(x, 0), c = net_.Extent(x, 1), h = net_.Extent(x, 2),
                  w = net_.Extent(x, 3);
    if (c % 2 != 0) return x;
    Value* y = net_.Transpose(net_.Reshape(x, {n, 2, c / 2, h, w}), {0, 2, 1, 3, 4});
    return net_.Reshape(y, {n, c, h, w});
  }

  Value* Block(Value* x) {
    const int64_t side = Side(x);
    switch (m_.random.Below(16)) {
      case 0:
      case 1:
      case 2: return Conv(x, NextChannels(x), 3, side >= 8 && m_.Maybe(0.4) ? 2 : 1);
      case 3:
      case 4: return Conv(x, NextChannels(x), 1, 1);
      case 5:
      case 6:
      case 7: return Separable(x);
      case 8:
      case 9:
      case 10: return Residual(x);
      case 11: return Pool(x);
      case 12: return Branches(x);
      case 13: return quantized_ ? Conv(x, NextChannels(x), 3, 1) : Larger(x);
      case 14: {
        const int64_t c = net_.Extent(x, 1), groups = c % 4 == 0 ? 4 : c % 2 == 0 ? 2 : 1;
        return m_.Maybe(0.4) ? Conv(x, c, 3, 1, groups)
                             : Conv(x, NextChannels(x), m_.Of({5, 7}), 1);
      }
      default: return quantized_ ? Conv(x, NextChannels(x), 1, 1) : Shuffled(x);
    }
  }

  Maker& m_;
  Net& net_;
  const bool quantized_;
  bool batch_norm_ = false;
  int64_t act_ = 0, most_channels_ = 64;
  double ops_ = 0;
};

}  // namespace

void MakeConvNet(Maker& m, bool quantized) { ConvMaker(m, quantized).Make(); }

void MakePlainConvNet(Maker& m) {
  Net& net = m.net;
  const int64_t side = m.Between(6, 112), most = m.Of({16, 32, 64, 128, 256}),
                act = m.Of({0, 0, 3, 5, 9});
  Value* x = m.FloatInput("input", {1, m.Of({1, 3, 16, 32, 64}), side, side * m.Of({2, 2, 3}) / 2});
  double ops = 0;
  for (int64_t left = m.Between(2, 6); left > 0 && ops < kMostOps; --left) {
    const int64_t inputs = net.Extent(x, 1), height = net.Extent(x, 2), width = net.Extent(x, 3);
    const bool is_residual = m.Maybe(0.3);
    const int64_t outputs = is_residual ? inputs : m.Channels(8, most);
    Value* y = net.Conv(x, outputs, 3, {.bias = true});
    if (is_residual) y = net.Add(y, x);
    x = m.Activation(y, act);
    ops += 18.0 * static_cast<double>(inputs * outputs * height * width);
  }
  net.Output(x, "output");
}

void MakeConvNet1d(Maker& m) {
  Net& net = m.net;
  const int64_t act = static_cast<int64_t>(m.random.Below(10)),
                most = m.Of({32, 64, 128, 256, 512});
  const int64_t batch = m.Of({1, 1, 1, 4});
  const double kind = m.random.Uniform();  // a stream's few moments, a stretch, a signal
  const int64_t moments = kind < 0.35  ? m.Between(1, 4)
                          : kind < 0.6 ? m.Between(4, 64)
                                       : m.Between(16, 4000);
  Value* x = m.FloatInput("input", {batch, m.Channels(1, kind < 0.35 ? 512 : 128), moments});
  double ops = 0;
  for (int64_t left = m.Between(2, 8); left > 0 && ops < kMostOps / 4; --left) {
    const int64_t inputs = net.Extent(x, 1), kernel = m.Of({1, 1, 3, 5, 9, 15}),
                  length = net.Extent(x, 2);
    if (m.Maybe(0.08) && length < 1000) {
      const int64_t outputs = m.Channels(4, 128), wide = m.Of({2, 3, 4});
      x = net.Op("ConvTranspose", {x, net.Weight({inputs, outputs, wide}, 0.05)},
                 {{"kernel_shape", Ints{wide}}, {"strides", Ints{m.Of({1, 2})}}});
      continue;
    }
    const int64_t groups = m.Maybe(0.3) ? inputs : 1,
                  outputs = groups > 1 ? inputs : m.Channels(4, most);
    const int64_t stride = length > 64 && m.Maybe(0.3) ? 2 : 1, pad = kernel / 2;
    x = net.Op(
        "Conv",
        {x, net.Weight({outputs, inputs / groups, kernel}, 0.05), net.Weight({outputs}, 0.05)},
        {{"dilations", Ints{1}},
         {"group", groups},
         {"kernel_shape", Ints{kernel}},
         {"pads", Ints{pad, pad}},
         {"strides", Ints{stride}}});
    ops += 2.0 * static_cast<double>(inputs / groups * outputs * kernel * net.Extent(x, 2));
    x = m.Activation(x, act);
  }
  net.Output(x, "output");
}

}  // namespace infer::bench
