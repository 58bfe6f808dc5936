#pragma once
/// How InsertQdq (qdq.h) writes: values in qdq.cc, weights and other constants in qdq_weights.cc.
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/ir/editor.h"
#include "quant/scheme/qdq.h"

namespace infer {

/// What a pair reads beside the value.
struct Scaled {
  Value* scale = nullptr;
  Value* zero_point = nullptr;
};

/// The steps of InsertQdq, in the order in which they are declared.
class QdqWriter {
 public:
  QdqWriter(Graph& g, const QuantPlan& plan, const QuantScheme& scheme, QuantizeReport& report)
      : g_(g), plan_(plan), scheme_(scheme), report_(report), editor_(g) {
    for (const PlannedNode& p : plan.nodes)
      if (p.integer) integer_[p.node] = &p;
  }

  Status ChooseGroups(const CalibrationTable& table);
  Status WriteWeights();
  Status WriteConstants();
  Status WriteValues();

 private:
  Value* Constant(Tensor t, const std::string& name);
  Scaled ParamsOf(const std::string& name, const QuantParams& p);
  Scaled GroupParams(int group, const std::string& name);
  Result<Value*> AddDequantize(Value* q, const Scaled& s, int axis, const std::string& name);
  Status WriteLayerWeights(const PlannedNode& p, QuantizedLayer& layer);
  QuantParams WidenedForBias(const Tensor& w, const QuantParams& plain, int axis,
                             std::span<const float> bias, float x_scale) const;
  Result<Value*> DequantizedOf(const Value* original, Tensor codes, const QuantParams& params,
                               int axis, bool shared);
  const RoundedCodes* RoundedFor(const Node& node, const Tensor& w, const QuantParams& plain) const;
  /// The operand that is a layer's constant bias, of the layer or of an Add behind it; no node:
  /// there is none.
  struct BiasPlace {
    Node* node = nullptr;
    size_t operand = 0;
  };
  static BiasPlace PlaceOfBias(const PlannedNode& p, int64_t channels);
  static std::vector<float> BiasOf(const PlannedNode& p, const BiasPlace& at, int64_t channels);
  Result<Value*> WriteBias(const std::string& name, const std::vector<float>& bias, float x_scale,
                           const QuantParams& w);
  Status WriteValue(size_t i);
  Value* SkipActivation(size_t i, bool all_read_rounded);
  bool ReadsRounded(size_t i, const Use& use) const;
  float ScaleOf(const Value* v) const;
  bool IsPadded(const Value* v) const;
  double PreferZero(int group, const CalibrationTable& table, Interval& range) const;

  Graph& g_;
  const QuantPlan& plan_;
  const QuantScheme& scheme_;
  QuantizeReport& report_;
  GraphEditor editor_;
  std::unordered_map<const Node*, const PlannedNode*> integer_;
  std::vector<QuantParams> params_;   // by group
  std::vector<Scaled> group_scaled_;  // by group; made when first used
  std::map<const Value*, QuantParams> constant_params_;
  struct SharedWeights {
    QuantParams params;
    Value* dequantized;
  };
  std::multimap<const Value*, SharedWeights> weights_;   // by the f32 constant
  std::unordered_multimap<uint64_t, Value*> constants_;  // scales and zero points, by content
};

}  // namespace infer
