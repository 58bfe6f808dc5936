#pragma once
/// A policy: the precision of every layer that multiplies with constant weights. Layers are named
/// by the value that they make in the prepared graph, which is unique and does not depend on what
/// exporters call nodes.
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace infer {

enum class Precision : uint8_t {
  kF32,
  kInt8,         ///< static: weights and activations, integer kernels
  kF16Weights,   ///< stored in f16; computed in f32
  kInt8Weights,  ///< stored in 8 bits, a scale per output channel; computed in f32
  kInt8NBits,    ///< MatMulNBits of com.microsoft, 8 bits, blocks of 64
  kInt4NBits,    ///< the same with 4 bits
  kInt4Weights,  ///< stored in 4 bits, symmetric blocks of 64; computed in f32
  kInt4Wide,     ///< the same with blocks of 256
};
inline constexpr std::array kPrecisions = {
    Precision::kF32,       Precision::kInt8,      Precision::kF16Weights,  Precision::kInt8Weights,
    Precision::kInt8NBits, Precision::kInt4NBits, Precision::kInt4Weights, Precision::kInt4Wide};
/// "f32", "int8", "f16-weights", "int8-weights", "int8-nbits", "int4-nbits", "int4-weights",
/// "int4-weights-256".
std::string_view Name(Precision p);
std::optional<Precision> ParsePrecision(std::string_view name);
inline bool IsNBits(Precision p) {
  return p == Precision::kInt8NBits || p == Precision::kInt4NBits;
}
/// Whether weights are rounded in blocks.
inline bool IsBlocks(Precision p) { return p >= Precision::kInt8NBits; }

struct LayerPolicy {
  Precision precision = Precision::kF32;
  std::string reason = {};  ///< why this one, where something was decided
};
/// By layer; layers that it does not name are f32.
using Policy = std::map<std::string, LayerPolicy>;

}  // namespace infer
