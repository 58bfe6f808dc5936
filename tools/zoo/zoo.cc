#include "tools/zoo/zoo.h"

#include <algorithm>

#include "lib/support/similar.h"
#include "lib/support/strings.h"
#include "tools/zoo/net.h"

namespace infer {
namespace {

constexpr ZooModel kModels[] = {
    {"resnet18", "residual CNN, 11.7 M parameters (torchvision)", 224},
    {"resnet50", "residual bottleneck CNN, 25.6 M parameters (torchvision)", 224},
    {"mobilenetv2", "inverted residuals, ReLU6, 3.5 M parameters (torchvision)", 224},
    {"mobilenetv3-small", "squeeze-and-excitation, HardSwish, 2.5 M parameters (torchvision)", 224},
    {"efficientnet-lite0", "inverted residuals up to 5x5, ReLU6, 4.7 M parameters (timm)", 224},
    {"vgg16", "plain CNN with large Gemm, 138 M parameters (torchvision)", 224},
    {"squeezenet1.1", "fire modules, no BatchNormalization, 1.2 M parameters (torchvision)", 224},
    {"yolo", "detector with SiLU, neck, three heads and decoding, 1.5 M parameters", 416},
    {"bert-base", "post-norm encoder, erf Gelu, 109 M parameters (transformers)", 0, 128},
    {"vit-b16", "vision transformer, 86 M parameters (torchvision)", 224},
    {"gpt2-small", "causal decoder, tanh Gelu, 124 M parameters (transformers)", 0, 128},
    {"gpt2-small-kv", "the same, one step with cached keys and values", 0, 1},
    {"gpt2-small-kv-int4", "gpt2-small-kv with weights of 4 bits (MatMulNBits)", 0, 1},
    {"gpt2-small-gqa-int4", "the same, GroupQueryAttention on caches of fixed length", 0, 1},
    {"tinyllama-1.1b-int4", "Llama decoder with grouped queries, 1.1 B parameters of 4 bits", 0, 0,
     true},
    {"qwen2-0.5b-int4", "the same with a large vocabulary, 0.5 B parameters (Qwen2)", 0, 0, true},
};

/// In the order of kModels.
constexpr void (*kBuilders[])(Net&) = {
    BuildResnet18,          BuildResnet50,
    BuildMobilenetV2,       BuildMobilenetV3Small,
    BuildEfficientnetLite0, BuildVgg16,
    BuildSqueezenet11,      BuildYolo,
    BuildBertBase,          BuildVitB16,
    BuildGpt2Small,         BuildGpt2SmallKv,
    BuildGpt2SmallKvInt4,   BuildGpt2SmallGqaInt4,
    BuildTinyLlamaInt4,     BuildQwen2SmallInt4,
};
static_assert(std::size(kModels) == std::size(kBuilders));

/// Bounds that keep every extent product far from overflow.
constexpr int64_t kMaxBatch = 65536, kMaxResolution = 8192, kMaxSequence = 65536, kMaxLayers = 1000;

Status CheckOptions(const ZooModel& m, const ZooOptions& o) {
  struct {
    std::string_view name;
    int64_t value, max;
    bool used;
  } const checks[] = {{"batch", o.batch, kMaxBatch, true},
                      {"resolution", o.resolution, kMaxResolution, m.resolution > 0},
                      {"sequence", o.sequence, kMaxSequence, m.sequence > 0 || m.open_sequence},
                      {"past", o.past, kMaxSequence, true},
                      {"layers", o.layers, kMaxLayers, true},
                      {"accuracy level", o.accuracy_level, 4, m.name.ends_with("-int4")}};
  if (o.style != ZooStyle::kPytorch && m.name.ends_with("-int4"))
    return InvalidArgument(Cat(m.name, " is written in one style only"));
  for (const auto& c : checks) {
    if (c.value < 0 || c.value > c.max)
      return InvalidArgument(Cat(c.name, " ", c.value, " is not in 0 ... ", c.max));
    if (c.value > 0 && !c.used) return InvalidArgument(Cat(m.name, " has no ", c.name));
  }
  return {};
}

}  // namespace

std::span<const ZooModel> ZooModels() { return kModels; }

Result<Model> MakeZooModel(std::string_view name, const ZooOptions& options,
                           const OpRegistry& ops) {
  const auto m = std::find_if(std::begin(kModels), std::end(kModels),
                              [&](const ZooModel& z) { return z.name == name; });
  if (m == std::end(kModels)) {
    std::vector<std::string> names;
    for (const ZooModel& z : kModels) names.emplace_back(z.name);
    return InvalidArgument(Cat("no architecture '", name, "'; there are ", Join(names, ", "),
                               DidYouMean(name, names)));
  }
  Status checked = CheckOptions(*m, options);
  if (!checked.ok()) return checked;
  ZooOptions o = options;
  if (o.resolution == 0) o.resolution = m->resolution;
  if (o.sequence == 0) o.sequence = m->sequence;
  Net net(o, ops, name);
  kBuilders[m - std::begin(kModels)](net);
  if (!net.status().ok()) {
    Status s = net.status();
    return std::move(s).In(name);
  }
  Model model(net.Take());
  constexpr std::array<int, kZooStyles.size()> kOpsets = {14, 18, 15, 15};
  model.info.opsets[""] = kOpsets[static_cast<size_t>(o.style)];
  if (m->name.ends_with("-int4")) model.info.opsets["com.microsoft"] = 1;
  model.info.ir_version = 7;
  model.info.producer_name = "infer-bench zoo";
  return model;
}

}  // namespace infer
