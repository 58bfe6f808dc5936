#include "tools/zoo/net.h"

#include <algorithm>
#include <cmath>

#include "lib/support/parallel.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "tools/zoo/spelling.h"

namespace infer {

namespace {

constexpr int64_t kBlock = 32;  // weights of 4 bits that share a scale

}  // namespace

Dim Net::BatchDim() const {
  return options_.batch > 0 ? Dim(options_.batch) : Dim::Symbol("batch");
}

int64_t Net::Extent(const Value* v, int axis) const {
  if (!status_.ok()) return 1;
  const Dim& d = v->shape()[axis];
  return d.is_static() ? d.value() : 1;
}

Value* Net::Input(std::string_view name, DType dtype, std::vector<Dim> dims) {
  return editor_.AddInput(std::string(name), TensorType{dtype, Shape(std::move(dims))});
}

Value* Net::Image(int64_t channels) {
  return Input("input", DType::kF32,
               {BatchDim(), channels, options_.resolution, options_.resolution});
}

void Net::Output(Value* v, std::string_view name) {
  if (!status_.ok()) return;
  editor_.Rename(v, std::string(name));
  editor_.MarkOutput(v);
}

Values Net::OpN(std::string_view op, Values inputs, size_t outputs, AttrMap attrs) {
  Value* first = inputs.front();
  if (!status_.ok()) return Values(outputs, first);
  const size_t colons = op.find("::");
  const std::string_view domain = colons == op.npos ? "" : op.substr(0, colons);
  if (colons != op.npos) op = op.substr(colons + 2);
  const OpDef* def = graph_.ops().Find(domain, op);
  if (!def) {
    Fail(Internal(Cat("no operator ", op)));
    return Values(outputs, first);
  }
  NodeOptions options;
  options.name = Cat(op, "_", nodes_++);
  options.num_outputs = outputs;
  Result<Node*> node =
      editor_.AddNode(*def, std::move(inputs), std::move(attrs), std::move(options));
  if (!node.ok()) {
    Fail(node.status());
    return Values(outputs, first);
  }
  return (*node)->outputs();
}

Value* Net::Op(std::string_view op, Values inputs, AttrMap attrs) {
  return OpN(op, std::move(inputs), 1, std::move(attrs)).front();
}

Tensor Net::WeightTensor(Dims dims, double std, double mean) {
  const uint64_t index = weights_;
  // After a failure nothing is read any more, so nothing large is made.
  if (!status_.ok()) return Tensor::Scalar<float>(0);
  Tensor t(DType::kF32, std::move(dims));
  const std::span<float> out = t.mutable_data<float>();
  // Irwin-Hall: the sum of four uniform numbers has mean 2 and variance 1/3, and is near normal.
  const double factor = std * std::sqrt(3.0) / 65536, shift = mean - 2 * std * std::sqrt(3.0);
  constexpr int64_t kBlock = 1 << 16;  // one generator each: the same bits for any thread count
  const int64_t n = t.num_elements();
  ParallelFor((n + kBlock - 1) / kBlock, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      Random random(options_.seed, index << 20 | static_cast<uint64_t>(b));
      for (int64_t i = b * kBlock; i < std::min(n, (b + 1) * kBlock); ++i) {
        const uint64_t r = random.NextU64();
        const uint64_t sum = (r & 65535) + (r >> 16 & 65535) + (r >> 32 & 65535) + (r >> 48);
        out[static_cast<size_t>(i)] =
            static_cast<float>((static_cast<double>(sum) + 2) * factor + shift);
      }
    }
  });
  return t;
}

Value* Net::Conv(Value* x, int64_t outputs, int64_t kernel, const ConvOptions& o) {
  const int64_t inputs = Extent(x, 1) / o.groups, pad = o.pad < 0 ? kernel / 2 : o.pad;
  const double fan_in = static_cast<double>(inputs * kernel * kernel);
  Values operands{x, Weight({outputs, inputs, kernel, kernel}, std::sqrt(o.gain / fan_in))};
  if (o.bias) operands.push_back(Weight({outputs}, 0.05));
  return Op("Conv", std::move(operands),
            {{"dilations", Ints{1, 1}},
             {"group", o.groups},
             {"kernel_shape", Ints{kernel, kernel}},
             {"pads", Ints{pad, pad, pad, pad}},
             {"strides", Ints{o.stride, o.stride}}});
}

Value* Net::BatchNorm(Value* x, const BatchNormOptions& o) {
  const Dims c{Extent(x, 1)};
  Value* gamma = Weight(c, 0.1 * o.scale, o.scale);
  Value* beta = Weight(c, 0.1);
  Value* mean = Weight(c, 0.1);
  return spelling::BatchNorm(*this, x, {gamma, beta, mean, Weight(c, 0.1, 1)}, o);
}

Value* Net::MaxPool(Value* x, int64_t kernel, int64_t stride, int64_t pad, bool ceil) {
  return Op("MaxPool", {x},
            {{"ceil_mode", int64_t{ceil}},
             {"kernel_shape", Ints{kernel, kernel}},
             {"pads", Ints{pad, pad, pad, pad}},
             {"strides", Ints{stride, stride}}});
}

Value* Net::Gemm(Value* x, int64_t outputs) {
  const int64_t k = Extent(x, -1);
  Value* w = Weight({outputs, k}, std::sqrt(1.0 / static_cast<double>(k)));
  return Op("Gemm", {x, w, Weight({outputs}, 0.05)},
            {{"alpha", 1.0f}, {"beta", 1.0f}, {"transB", int64_t{1}}});
}

Value* Net::Linear(Value* x, int64_t outputs, double gain) {
  const int64_t k = Extent(x, -1);
  Value* w = Weight({k, outputs}, std::sqrt(gain / static_cast<double>(k)));
  return spelling::Linear(*this, x, w, Weight({outputs}, 0.02));
}

std::pair<Tensor, Tensor> Net::CodesInt4(int64_t rows, int64_t width, double std) {
  if (status_.ok() && width % kBlock != 0) Fail(InvalidArgument(Cat("K is ", width)));
  if (!status_.ok()) return {};
  const int64_t blocks = width / kBlock;
  const Tensor w = WeightTensor({rows, width}, std, 0);
  Tensor codes(DType::kU8, {rows, blocks, kBlock / 2}), scales(DType::kF32, {rows * blocks});
  const auto from = w.data<float>();
  const auto code = codes.mutable_data<uint8_t>();
  const auto scale = scales.mutable_data<float>();
  ParallelFor(rows * blocks, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const std::span<const float> block = from.subspan(static_cast<size_t>(b * kBlock), kBlock);
      const float most = *std::max_element(
          block.begin(), block.end(), [](float l, float r) { return std::abs(l) < std::abs(r); });
      const float s = most / -8;
      scale[static_cast<size_t>(b)] = s;
      for (size_t i = 0; i < kBlock; i += 2) {
        const auto at = [&](float v) {
          return static_cast<int>(std::clamp(s != 0 ? std::nearbyint(v / s) + 8 : 8, 0.0f, 15.0f));
        };
        code[static_cast<size_t>(b * kBlock) / 2 + i / 2] =
            static_cast<uint8_t>(at(block[i]) | at(block[i + 1]) << 4);
      }
    }
  });
  return {std::move(codes), std::move(scales)};
}

Value* Net::LinearInt4(Value* x, int64_t outputs, double gain, bool bias) {
  const int64_t k = Extent(x, -1);
  auto [codes, scales] = CodesInt4(outputs, k, std::sqrt(gain / static_cast<double>(k)));
  if (!status_.ok()) return x;
  Values operands{x, Named(std::move(codes)), Named(std::move(scales))};
  if (bias) operands.insert(operands.end(), {nullptr, nullptr, Weight({outputs}, 0.02)});
  return Op("com.microsoft::MatMulNBits", std::move(operands),
            {{"K", k},
             {"N", outputs},
             {"accuracy_level", options_.accuracy_level},
             {"bits", int64_t{4}},
             {"block_size", kBlock}});
}

Value* Net::EmbeddingInt4(Value* indices, int64_t rows, int64_t width, double std) {
  auto [codes, scales] = CodesInt4(rows, width, std);
  if (!status_.ok()) return indices;
  codes = codes.Reshaped({rows, width / 2});
  scales = scales.Reshaped({rows, width / kBlock});
  return Op("com.microsoft::GatherBlockQuantized",
            {Named(std::move(codes)), indices, Named(std::move(scales))}, {{"block_size", kBlock}});
}

Value* Net::Classifier(Value* x, int64_t classes) {
  return Gemm(Flatten(Op("GlobalAveragePool", {x})), classes);
}

Value* Net::LayerNorm(Value* x, float epsilon) {
  const Dims c{Extent(x, -1)};
  Value* gamma = Weight(c, 0.1, 1);
  return spelling::LayerNorm(*this, x, gamma, Weight(c, 0.05), epsilon);
}

}  // namespace infer
