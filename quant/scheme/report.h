#pragma once
/// What a quantization did, as plain data. Tools print it or write it as JSON.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quant/calibrate/observer.h"

namespace infer {

struct QuantizedLayer {
  std::string name;  ///< node name, or its first result's
  std::string op;    ///< with what is computed along: "Conv+Relu"
  /// "int8" (computed in integers), "f16", "bf16" (computed in them) or "f32". Weights only, else
  /// computed in f32: "int2", "int4", "int8-weights", "f16-weights", "int4-weights" and
  /// "int4-weights-256" (blocks of 64 and 256). "int8-nbits", "int4-nbits": MatMulNBits, whose
  /// kernels may round activations.
  std::string precision;
  bool quantizable = false;  ///< the mode covers the operator
  /// Why f32; why "int8-weights" where the mode would compute in integers; of a policy why this
  /// precision, where something was decided. "" for all else.
  std::string reason;
  int64_t weight_bytes_before = 0;  ///< weights and bias as constants of the node
  int64_t weight_bytes_after = 0;   ///< the same with scales and zero points
  bool per_channel = false;
  /// Channels whose scale was raised so that the int32 bias does not overflow.
  int64_t widened_channels = 0;
  /// Output channels whose weights are not zero and whose codes all are.
  int64_t lost_channels = 0;
  // Of weights-only precisions:
  std::string method;        ///< how the weights were rounded: "nearest", "mse", ...
  double weight_error = 0;   ///< |w - q| / |w|, root of the squares
  double nearest_error = 0;  ///< the same after rounding to nearest
  /// Of methods that know calibration data: error of the layer's outputs relative to them, on rows
  /// that the method has not seen; before is that of rounding to nearest. -1: not measured.
  double output_error = -1, nearest_output_error = -1;
  std::string note;  ///< such as which layer holds the weights that it shares
};

struct QuantizedValue {
  std::string name;  ///< in the graph before the rewrite
  Interval seen;     ///< exact range over the calibration data
  Interval range;    ///< covered by the integers
  DType dtype = DType::kUndefined;
  float scale = 0;
  int32_t zero_point = 0;
  int64_t non_finite = 0;     ///< NaN and infinities seen
  std::string observer = {};  ///< whose range it is, where the observer had a choice
  std::vector<RangeCandidate> candidates = {};  ///< what that was chosen from
  std::optional<double> error = {};             ///< mean squared, with scale and zero_point
  bool padded = false;  ///< read by a convolution with padding, which is faster with zero point 0
  /// The range was cut at 0 for it: by how much the error grew, in dB of SQNR; 0 where it was not.
  double zero_point_cost_db = 0;
};

struct QuantizeReport {
  std::vector<QuantizedLayer> layers;  ///< topological order
  std::vector<QuantizedValue> values;
  int64_t calibration_samples = 0;
  int64_t weight_bytes_before = 0;  ///< all constants of the graph as it came
  int64_t weight_bytes_after = 0;   ///< all constants of the result
  int64_t integer_layers = 0;       ///< layers with another precision than f32
  /// Layers whose operator the mode covers, and those that it only stores in another precision.
  int64_t quantizable_layers = 0;
  /// Of dynamic INT8: some layers multiply uint8 by int8 weights of 8 bits where ONNX Runtime adds
  /// pairs in 16 bits on processors without VNNI.
  bool has_wide_pairs = false;
  std::vector<std::string> warnings;
};

/// Sets the numbers of layers: the last step of whoever writes `report.layers`.
inline void CountLayers(QuantizeReport& report) {
  report.integer_layers = report.quantizable_layers = 0;
  for (const QuantizedLayer& l : report.layers) {
    const bool changed = l.precision != "f32";
    report.integer_layers += changed ? 1 : 0;
    report.quantizable_layers += changed || l.quantizable ? 1 : 0;
  }
}

}  // namespace infer
