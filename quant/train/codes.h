#pragma once
/// A quantized graph in the form that training moves: in the place of codes of weights stands
/// QuantizeLinear of latent f32 weights, so that every step rounds them anew by the
/// scales as they are, and gradients pass straight through (lib/ops/gradients/gradients_codes.cc).
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/ir/editor.h"
#include "quant/scheme/quant_params.h"
#include "quant/train/fine_tune.h"

namespace infer {

/// Forms of one quantized graph (quant/scheme/qdq.h). `graph` computes what the quantized graph
/// does until its constants are moved.
class LatentCodes {
 public:
  /// `prepared`: the f32 graph that was rewritten, for the weights behind the codes. A latent
  /// weight is the one there, moved into the interval that rounds to its code; where there is none,
  /// or it is further than a code away, the number that the code stands for. Weights that are 0
  /// there and by their codes stay. `grid`: the codes that weights may have. Unsupported: no layer
  /// has 8-bit weights, or an int32 bias that is not of one layer.
  static Result<LatentCodes> Of(const Graph& quantized, const Graph& prepared,
                                const QuantGrid& grid);

  const Graph& graph() const { return graph_; }
  /// Latent weights, scales of weights and activations, and what TrainableConstants finds: biases,
  /// layers that are f32. Zero points stay. A learning rate counts in codes: see ChoosePace.
  const std::vector<TrainedConstant>& constants() const { return constants_; }
  int64_t codes() const { return codes_; }  ///< of weights that are trained

  /// The quantized graph with the numbers of `trained`: graph() with other constants; inner values
  /// that are outputs there are outputs here. Biases get the scale of the activations times that of
  /// the weights.
  Result<Graph> Written(const Graph& trained) const;
  /// How many codes of weights differ in two forms that Written gave.
  int64_t Changed(const Graph& a, const Graph& b) const;

 private:
  struct Weights {
    std::string codes, latent, scale;
    QuantParams params;       ///< the scales are those before training
    int64_t lowest, highest;  ///< codes
  };
  struct Bias {
    std::string dequantized, latent;  ///< result of DequantizeLinear; f32 constant
    std::string x_scale, w_scale;
  };

  LatentCodes(const Graph& quantized, const QuantGrid& grid)
      : quantized_(quantized.Clone()), graph_(quantized.Clone()), grid_(grid) {}
  /// Results of Open.
  struct Rounded {
    Value* codes;
    Value* zero_point;
  };
  Status OpenWeights(Node& dequantize, const Graph& prepared);
  Status OpenStored(Node& product, const Graph& prepared);
  Result<Rounded> Open(const Node& place, Value* codes, const std::string& name, Value* scale,
                       Value* zero_point, QuantParams params, const Graph& prepared);
  static Result<Value*> Bounded(GraphEditor& editor, Value* weights, Value* scale,
                                const Weights& w);
  Status OpenBias(Node& dequantize);
  void ChooseConstants();
  void ChoosePace();
  static Tensor CodesOf(const Graph& trained, const Weights& w);
  static Status WriteBias(const Graph& trained, const Bias& b, Graph& to);

  Graph quantized_, graph_;
  QuantGrid grid_;
  std::vector<Weights> weights_;
  std::vector<Bias> biases_;
  std::vector<TrainedConstant> constants_, latent_;
  int64_t codes_ = 0;
};

}  // namespace infer
