#include "tools/infer_bench/predict/generated.h"

#include <algorithm>
#include <cmath>

namespace infer::bench {
namespace {

struct Generator {
  std::string_view kind;
  void (*make)(Maker& m);
};

/// In turns, so that any stretch of the series has some of each.
constexpr Generator kTurns[] = {
    {"conv", [](Maker& m) { MakeConvNet(m, false); }},
    {"small", MakeSmallSteps},
    {"transformer", MakeTransformer},
    {"conv", [](Maker& m) { MakeConvNet(m, false); }},
    {"small", MakeSmallSteps},
    {"perceptron", MakePerceptron},
    {"recurrent", MakeRecurrent},
    {"conv", [](Maker& m) { MakeConvNet(m, false); }},
    {"small", MakeSmallSteps},
    {"qdq-conv", [](Maker& m) { MakeConvNet(m, true); }},
    {"decoder", MakeDecoder},
    {"conv-1d", MakeConvNet1d},
    {"conv-plain", MakePlainConvNet},
    {"recurrent", MakeRecurrent},
    {"conv-1d", MakeConvNet1d},
};

}  // namespace

int64_t Maker::Between(int64_t low, int64_t high) {
  const double l = std::log(static_cast<double>(low)), h = std::log(static_cast<double>(high) + 1);
  return std::clamp(static_cast<int64_t>(std::exp(random.Uniform(l, h))), low, high);
}

int64_t Maker::Channels(int64_t low, int64_t high) {
  const int64_t c = Between(low, high);
  const int64_t step = c >= 24 && Maybe(0.85) ? 8 : c >= 8 && Maybe(0.7) ? 4 : 1;
  return std::max<int64_t>(c / step * step, 1);
}

void Maker::Shuffle(std::span<int64_t> list) {
  for (size_t i = list.size(); i > 1; --i)
    std::swap(list[i - 1], list[random.Below(static_cast<uint32_t>(i))]);
}

Value* Maker::FloatInput(const char* name, const Ints& dims) {
  return net.Input(name, DType::kF32, std::vector<Dim>(dims.begin(), dims.end()));
}

Value* Maker::Activation(Value* x, int64_t which) {
  switch (which) {
    case 0:
    case 1: return net.Relu(x);
    case 2: return net.Relu6(x);
    case 3: return spelling::Silu(net, x);
    case 4: return spelling::HardSwish(net, x);
    case 5: return net.Op("LeakyRelu", {x}, {{"alpha", 0.1f}});
    case 6: return net.Op("Tanh", {x});
    case 7: return net.Op("Sigmoid", {x});
    case 8: return spelling::GeluErf(net, x);
    default: return x;
  }
}

Result<GeneratedProgram> MakeGenerated(uint64_t index, const OpRegistry& ops) {
  const Generator& g = kTurns[index % std::size(kTurns)];
  Random random(index + 1, 77);
  ZooOptions options;
  options.seed = index + 1;
  options.style = static_cast<ZooStyle>(random.Below(static_cast<uint32_t>(kZooStyles.size())));
  Maker m(options, ops, random);
  g.make(m);
  if (!m.net.status().ok())
    return Status(m.net.status()).In(Cat("generated program ", index, " (", g.kind, ")"));
  return GeneratedProgram{std::string(g.kind), m.net.Take()};
}

}  // namespace infer::bench
