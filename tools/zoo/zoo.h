#pragma once
/// The zoo: standard architectures with seeded random weights, node for node as torch 1.13 exports
/// the torchvision, timm and transformers models (torch.onnx.export, opset 14,
/// TrainingMode.PRESERVE, so that BatchNormalization is not folded; LayerNormalization, Gelu and
/// attention decomposed); those with -int4 have MatMulNBits for their products. In another style
/// the same network with the same weights is spelled as other exporters do (spelling.h). For speed
/// and rewriting work without downloads; the outputs mean nothing.
#include <array>
#include <span>
#include <string_view>

#include "lib/onnx/model.h"

namespace infer {

enum class ZooStyle : uint8_t { kPytorch, kOnnxscript, kTf, kJax };
/// The styles as words; the index is the style.
inline constexpr std::array<const char*, 4> kZooStyles = {"pytorch", "onnxscript", "tf", "jax"};

struct ZooOptions {
  int64_t batch = 1;       ///< 0: a symbolic dimension "batch", where the model allows it
  int64_t resolution = 0;  ///< height and width of images; 0: the model's own
  int64_t sequence = 0;    ///< tokens; 0: the model's own
  /// Cached tokens of gpt2-small-kv...; 0 with gpt2-small-kv-int4: any, a symbolic dimension
  /// "past". Of models with GroupQueryAttention the length of the caches.
  int64_t past = 128;
  int64_t accuracy_level = 0;  ///< of ...-int4: 4 lets the activations be quantized, too
  int64_t layers = 0;          ///< of transformers; 0: as published
  ZooStyle style = ZooStyle::kPytorch;
  uint64_t seed = 1;
};

struct ZooModel {
  std::string_view name;
  std::string_view doc;
  int64_t resolution = 0;  ///< default; 0: no images
  int64_t sequence = 0;    ///< default; 0: no tokens, or an open number of them
  bool open_sequence = false;
};

/// Every architecture, in the order of help texts.
std::span<const ZooModel> ZooModels();

/// InvalidArgument for an unknown name (all names are listed) and for options that the architecture
/// cannot take, such as an image that is too small.
Result<Model> MakeZooModel(std::string_view name, const ZooOptions& options, const OpRegistry& ops);

}  // namespace infer
