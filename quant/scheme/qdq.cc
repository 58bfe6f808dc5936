#include "quant/scheme/qdq.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "lib/ir/editor.h"
#include "lib/support/strings.h"
#include "quant/scheme/names.h"

namespace infer {
namespace {

/// Bias codes stay within 2^30, so that the sum of products has room in int32.
constexpr double kBiasReach = 0x1p30;

/// How much of its squared error a value may gain for zero point 0: 0.2 dB.
constexpr double kMostForZero = 1.05;

struct Scaled {
  Value* scale = nullptr;
  Value* zero_point = nullptr;
};

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
  QuantParams WidenedForBias(const Tensor& w, int axis, std::span<const float> bias, float x_scale,
                             QuantizedLayer& layer) const;
  Result<Value*> DequantizedOf(const Value* original, Tensor codes, const QuantParams& params,
                               int axis, bool shared);
  const RoundedCodes* RoundedFor(const Node& node, const Tensor& w, const QuantParams& plain) const;
  std::vector<float> BiasOf(const PlannedNode& p, int64_t channels) const;
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

Status QdqWriter::ChooseGroups(const CalibrationTable& table) {
  std::vector<std::optional<Interval>> range(static_cast<size_t>(plan_.num_groups));
  const auto widen = [&](int group, const Interval& r) {
    auto& slot = range[static_cast<size_t>(group)];
    slot = slot ? slot->Union(r) : r;
  };
  for (const size_t i : plan_.observed) {
    const auto it = table.find(plan_.values[i]->name());
    if (it == table.end())
      return InvalidArgument(
          Cat("the calibration table lacks value '", plan_.values[i]->name(), "'"));
    widen(plan_.group[i], it->second.range);
  }
  for (const auto& [v, group] : plan_.constants) {
    const Interval r = FiniteRange(v->constant()->data<float>());
    if (group >= 0)
      widen(group, r);
    else
      constant_params_[v] = ChooseParams(r, scheme_.activations);
  }
  std::vector<double> zero_point_cost(range.size(), 0);
  for (size_t group = 0; group < range.size(); ++group) {
    INFER_CHECK(range[group]);
    zero_point_cost[group] = PreferZero(static_cast<int>(group), table, *range[group]);
    params_.push_back(ChooseParams(*range[group], scheme_.activations));
  }
  group_scaled_.resize(params_.size());
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    const QuantParams& p = params_[static_cast<size_t>(plan_.group[i])];
    QuantizedValue q{plan_.values[i]->name(),
                     {},
                     *range[static_cast<size_t>(plan_.group[i])],
                     p.dtype,
                     p.scale[0],
                     p.zero_point[0],
                     0};
    q.seen = q.range;
    if (const auto it = table.find(q.name); it != table.end()) {
      q.seen = it->second.seen;
      q.non_finite = it->second.non_finite;
      // A group's range, or one that was changed since, is none of the observer's.
      const CalibratedValue& c = it->second;
      q.candidates = c.candidates;
      if (q.range == c.range) {
        q.observer = c.observer;
        q.error = c.error;
      } else if (c.from_zero && q.range == c.from_zero->range) {
        q.observer = c.observer;
        q.error = c.from_zero->error;
      }
    }
    q.padded = IsPadded(plan_.values[i]);
    q.zero_point_cost_db = zero_point_cost[static_cast<size_t>(plan_.group[i])];
    report_.values.push_back(std::move(q));
  }
  return {};
}

/// Whether an integer convolution reads `v` and pads it. Padding holds the zero point, and where
/// that is 0 the kernels need not correct for what they multiply it with.
bool QdqWriter::IsPadded(const Value* v) const {
  return std::any_of(v->uses().begin(), v->uses().end(), [&](const Use& use) {
    if (use.operand != 0 || !use.user->Is("Conv") || !integer_.count(use.user)) return false;
    if (use.user->Attr<std::string>("auto_pad").starts_with("SAME")) return true;
    const auto it = use.user->attrs().find("pads");
    if (it == use.user->attrs().end()) return false;
    const auto* pads = std::get_if<std::vector<int64_t>>(&it->second);
    return pads && std::any_of(pads->begin(), pads->end(), [](int64_t pad) { return pad != 0; });
  });
}

/// Cuts the range of a group that a padded convolution reads at 0 where that costs at most
/// kMostForZero of the error of its numbers. Returns the cost in dB.
double QdqWriter::PreferZero(int group, const CalibrationTable& table, Interval& range) const {
  const QuantGrid& grid = scheme_.activations;
  if (range.lo >= 0 || range.hi <= 0 || grid.symmetric || grid.qmin() != 0) return 0;
  if (ChooseParams(range, grid).zero_point[0] == 0) return 0;
  const CalibratedValue* only = nullptr;
  bool padded = false;
  for (size_t i = 0; i < plan_.values.size(); ++i) {
    if (plan_.group[i] != group) continue;
    padded = padded || IsPadded(plan_.values[i]);
    const auto it = table.find(plan_.values[i]->name());
    if (it == table.end()) continue;
    if (only) return 0;  // the error of several together is not known
    only = &it->second;
  }
  if (!padded || !only || only->range != range || !only->error || !only->from_zero) return 0;
  const double ratio = only->from_zero->error / std::max(*only->error, 1e-300);
  if (ratio > kMostForZero) return 0;
  range = only->from_zero->range;
  return 10 * std::log10(std::max(ratio, 1e-30));
}

float QdqWriter::ScaleOf(const Value* v) const {
  const int i = plan_.FindValue(v);
  if (i >= 0) return params_[static_cast<size_t>(plan_.group[static_cast<size_t>(i)])].scale[0];
  return constant_params_.at(v).scale[0];
}

/// One for all that are equal: most zero points are.
Value* QdqWriter::Constant(Tensor t, const std::string& name) {
  const uint64_t hash = HashOf(t);
  for (auto [it, end] = constants_.equal_range(hash); it != end; ++it)
    if (BitEqual(*it->second->constant(), t)) return it->second;
  return constants_.emplace(hash, editor_.AddConstant(std::move(t), name))->second;
}

Scaled QdqWriter::ParamsOf(const std::string& name, const QuantParams& p) {
  const auto n = static_cast<int64_t>(p.scale.size());
  const Dims dims = p.axis < 0 ? Dims{} : Dims{n};
  Tensor zero_point(p.dtype, dims);
  for (int64_t i = 0; i < n; ++i) zero_point.SetInt(i, p.zero_point[static_cast<size_t>(i)]);
  return {Constant(Tensor::Of<float>(dims, p.scale), NameBeside(name, "scale")),
          Constant(std::move(zero_point), NameBeside(name, "zero_point"))};
}

Scaled QdqWriter::GroupParams(int group, const std::string& name) {
  Scaled& s = group_scaled_[static_cast<size_t>(group)];
  if (!s.scale) s = ParamsOf(name, params_[static_cast<size_t>(group)]);
  return s;
}

Result<Value*> QdqWriter::AddDequantize(Value* q, const Scaled& s, int axis,
                                        const std::string& name) {
  std::vector<Value*> inputs{q, s.scale};
  if (s.zero_point) inputs.push_back(s.zero_point);
  AttrMap attrs;
  if (axis >= 0) attrs["axis"] = static_cast<int64_t>(axis);
  NodeOptions options;
  options.output_names = {name};
  return editor_.Add("DequantizeLinear", std::move(inputs), std::move(attrs), "",
                     std::move(options));
}

/// The codes that an algorithm chose for weights `w`, where their scales are not below those that
/// the bias needs.
const RoundedCodes* QdqWriter::RoundedFor(const Node& node, const Tensor& w,
                                          const QuantParams& plain) const {
  const auto it = scheme_.rounded.find(node.output(0)->name());
  if (it == scheme_.rounded.end()) return nullptr;
  const QuantParams& p = it->second.params;
  const bool fits =
      p.axis == plain.axis && p.scale.size() == plain.scale.size() && p.dtype == plain.dtype &&
      it->second.codes.dims() == w.dims() &&
      (!node.Is("Gemm") || node.Attr<float>("alpha") == 1.0f) &&
      std::equal(p.scale.begin(), p.scale.end(), plain.scale.begin(), std::greater_equal<>());
  return fits ? &it->second : nullptr;
}

/// The bias per channel with Gemm's beta; empty when there is none.
std::vector<float> QdqWriter::BiasOf(const PlannedNode& p, int64_t channels) const {
  const auto operand = BiasOperand(*p.node);
  if (!operand) return {};
  std::vector<float> b = p.node->input(*operand)->constant()->ToFloats();
  if (b.size() == 1) b.resize(static_cast<size_t>(channels), b[0]);
  if (p.node->Is("Gemm"))
    for (float& v : b) v *= p.node->Attr<float>("beta");
  return b;
}

Result<Value*> QdqWriter::WriteBias(const std::string& name, const std::vector<float>& bias,
                                    float x_scale, const QuantParams& w) {
  const auto n = static_cast<int64_t>(bias.size());
  QuantParams p{DType::kI32, 0, {}, std::vector<int32_t>(bias.size(), 0)};
  Tensor q(DType::kI32, {n});
  for (size_t c = 0; c < bias.size(); ++c) {
    p.scale.push_back(x_scale * w.scale[w.axis < 0 ? 0 : c]);
    const double code = std::isfinite(bias[c])
                            ? static_cast<double>(bias[c]) / static_cast<double>(p.scale[c])
                            : 0.0;
    q.SetInt(static_cast<int64_t>(c),
             static_cast<int64_t>(std::nearbyint(std::clamp(code, -kBiasReach, kBiasReach))));
  }
  Value* codes = editor_.AddConstant(std::move(q), name + "_quantized");
  // A zero point of 0 may be left out, and integer kernels expect that for the bias.
  const Scaled s{Constant(Tensor::Of<float>({n}, p.scale), NameBeside(name, "scale")), nullptr};
  return AddDequantize(codes, s, 0, NameBeside(name, "dequantized"));
}

/// Parameters of weights whose scales are wide enough for the bias in int32. Counts those that
/// became wider for it.
QuantParams QdqWriter::WidenedForBias(const Tensor& w, int axis, std::span<const float> bias,
                                      float x_scale, QuantizedLayer& layer) const {
  const QuantParams plain = ChooseWeightParams(w, axis, scheme_.weights);
  std::vector<double> least(plain.scale.size(), 0.0);
  for (size_t c = 0; c < bias.size(); ++c) {
    double& l = least[axis < 0 ? 0 : c];
    const double reach = std::fabs(static_cast<double>(bias[c])) / static_cast<double>(x_scale);
    if (std::isfinite(reach)) l = std::max(l, reach / kBiasReach);
  }
  QuantParams bounded = ChooseWeightParams(w, axis, scheme_.weights, least);
  for (size_t c = 0; c < bounded.scale.size(); ++c)
    layer.widened_channels += bounded.scale[c] > plain.scale[c] ? 1 : 0;
  return bounded;
}

/// DequantizeLinear of the codes of `original`; of equal ones once, where they are `shared`.
Result<Value*> QdqWriter::DequantizedOf(const Value* original, Tensor codes,
                                        const QuantParams& params, int axis, bool shared) {
  for (auto [it, end] = weights_.equal_range(original); it != end && shared; ++it)
    if (it->second.params == params) return it->second.dequantized;
  const std::string& name = original->name();
  Value* const constant = editor_.AddConstant(std::move(codes), name + "_quantized");
  INFER_ASSIGN(Value * made, AddDequantize(constant, ParamsOf(name, params), axis,
                                           NameBeside(name, "dequantized")));
  if (shared) weights_.emplace(original, SharedWeights{params, made});
  return made;
}

Status QdqWriter::WriteLayerWeights(const PlannedNode& p, QuantizedLayer& layer) {
  Node& node = *p.node;
  const auto operand = WeightOperand(*p.op, node);
  if (!operand) return {};
  Value* const original = node.input(*operand);
  Tensor w = *original->constant();
  const bool gemm = node.Is("Gemm");
  if (gemm && node.Attr<float>("alpha") != 1.0f) {
    w = w.Clone();
    for (float& v : w.mutable_data<float>()) v *= node.Attr<float>("alpha");
  }
  // Channels of the result; the bias has one element for each.
  const int channel_axis = WeightAxis(node, *operand);
  const int axis = scheme_.per_channel ? channel_axis : -1;
  int64_t channels = channel_axis >= 0 ? w.dim(channel_axis) : 1;
  if (node.Is("ConvTranspose")) channels = w.dim(1) * node.Attr<int64_t>("group");
  const std::vector<float> bias = BiasOf(p, channels);
  const Value* x = node.input(*operand == 0 ? 1 : 0);
  const float x_scale = ScaleOf(x);
  // No kernel sums 16-bit activations in int32, and their fine scale would leave int32 too small
  // for many a bias: it stays f32.
  const bool integer_bias = !bias.empty() && BitWidth(scheme_.activations.dtype) == 8;
  QuantParams params = integer_bias ? WidenedForBias(w, axis, bias, x_scale, layer)
                                    : ChooseWeightParams(w, axis, scheme_.weights);
  const RoundedCodes* const rounded = RoundedFor(node, w, params);
  if (rounded) params = rounded->params;
  layer.per_channel = axis >= 0;
  layer.weight_bytes_before += original->constant()->byte_size();
  layer.weight_bytes_after +=
      w.num_elements() + static_cast<int64_t>(params.scale.size()) * 5;  // f32 scale, 8-bit zero

  Tensor q = rounded ? rounded->codes : QuantizeTensor(w, params);
  layer.lost_channels = LostChannels(w, q, channel_axis, params.zero_point[0]);
  const bool shared = (!gemm || node.Attr<float>("alpha") == 1.0f) && !rounded;
  editor_.InsertBefore(node);
  INFER_ASSIGN(Value * dequantized, DequantizedOf(original, std::move(q), params, axis, shared));
  editor_.SetOperand(node, *operand, dequantized);
  if (integer_bias) {
    const size_t at = *BiasOperand(node);
    const int64_t bytes = static_cast<int64_t>(bias.size()) * 4;
    layer.weight_bytes_before += node.input(at)->constant()->byte_size();
    layer.weight_bytes_after += 2 * bytes;
    INFER_ASSIGN(Value * b, WriteBias(node.input(at)->name(), bias, x_scale, params));
    editor_.SetOperand(node, at, b);
  }
  if (gemm) {
    editor_.SetAttr(node, "alpha", 1.0f);
    if (integer_bias || bias.empty()) editor_.SetAttr(node, "beta", 1.0f);
  }
  return {};
}

Status QdqWriter::WriteWeights() {
  for (const PlannedNode& p : plan_.nodes) {
    QuantizedLayer layer;
    layer.name = !p.node->name().empty() ? p.node->name()
                 : p.node->output(0)     ? p.node->output(0)->name()
                                         : std::string(p.node->op());
    layer.op = p.node->op();
    for (const Node* f : p.followers) layer.op += Cat("+", f->op());
    layer.precision = p.integer ? "int8" : "f32";
    layer.reason = p.reason;
    layer.quantizable = p.op != nullptr;
    if (p.integer)
      if (Status s = WriteLayerWeights(p, layer); !s.ok()) return std::move(s).In(layer.name);
    report_.layers.push_back(std::move(layer));
  }
  return {};
}

Status QdqWriter::WriteConstants() {
  for (const auto& [constant, group] : plan_.constants) {
    Value* v = g_.FindValue(constant->name());
    const QuantParams& p =
        group >= 0 ? params_[static_cast<size_t>(group)] : constant_params_.at(constant);
    editor_.InsertBefore(*g_.nodes().front());
    Value* codes = editor_.AddConstant(QuantizeTensor(*v->constant(), p), v->name() + "_quantized");
    const Scaled s = group >= 0 ? GroupParams(group, v->name()) : ParamsOf(v->name(), p);
    INFER_ASSIGN(Value * dequantized,
                 AddDequantize(codes, s, -1, NameBeside(v->name(), "dequantized")));
    const std::vector<Use> uses = v->uses();
    for (const Use& use : uses) {
      const auto it = integer_.find(use.user);
      if (it != integer_.end() && IsQuantizedOperand(*it->second->op, *use.user, use.operand))
        editor_.SetOperand(*use.user, use.operand, dequantized);
    }
  }
  return {};
}

bool QdqWriter::ReadsRounded(size_t i, const Use& use) const {
  if (plan_.integer_result[i]) return true;
  const auto it = integer_.find(use.user);
  return it != integer_.end() && IsQuantizedOperand(*it->second->op, *use.user, use.operand);
}

/// What QuantizeLinear may read instead of value i: the operand of the Relu or Clip that makes it,
/// where saturation gives the same integers.
Value* QdqWriter::SkipActivation(size_t i, bool all_read_rounded) {
  Value* const v = plan_.values[i];
  Node* const n = v->producer();
  const auto owner = std::find_if(plan_.nodes.begin(), plan_.nodes.end(), [&](const auto& p) {
    return p.integer && !p.followers.empty() && p.followers.back() == n;
  });
  if (!all_read_rounded || owner == plan_.nodes.end() || n->Is("Add")) return v;
  const QuantParams& p = params_[static_cast<size_t>(plan_.group[i])];
  const auto code = [&](double bound) {
    return QuantizeValue(bound, p.scale[0], p.zero_point[0], p.dtype);
  };
  const auto bound = [&](size_t operand) -> std::optional<double> {
    if (n->Is("Relu")) return operand == 1 ? std::optional<double>(0.0) : std::nullopt;
    return n->input(operand) ? std::optional<double>(n->input(operand)->constant()->At(0))
                             : std::nullopt;
  };
  const auto low = bound(1), high = bound(2);
  if (low && code(*low) != IntegerMin(p.dtype)) return v;
  if (high && code(*high) != IntegerMax(p.dtype)) return v;
  std::vector<std::string> from = owner->node->fused_from();
  from.insert(from.end(), n->fused_from().begin(), n->fused_from().end());
  editor_.SetFusedFrom(*owner->node, std::move(from));
  return n->input(0);
}

Status QdqWriter::WriteValue(size_t i) {
  Value* const v = plan_.values[i];
  const std::string name = v->name();
  const std::vector<Use> uses = v->uses();
  const bool all_rounded = !v->is_output() && std::all_of(uses.begin(), uses.end(), [&](auto& u) {
    return ReadsRounded(i, u);
  });
  Value* const source = SkipActivation(i, all_rounded);
  if (source->producer())
    editor_.InsertAfter(*source->producer());
  else
    editor_.InsertBefore(*g_.nodes().front());
  const Scaled s = GroupParams(plan_.group[i], name);
  NodeOptions options;
  options.output_names = {NameBeside(name, "quantized")};
  INFER_ASSIGN(Value * q, editor_.Add("QuantizeLinear", {source, s.scale, s.zero_point}, {}, "",
                                      std::move(options)));
  INFER_ASSIGN(Value * dq, AddDequantize(q, s, -1, name + "_dequantized"));
  for (const Use& use : uses)
    if (ReadsRounded(i, use)) editor_.SetOperand(*use.user, use.operand, dq);
  const bool takes_name = all_rounded && !v->is_input();
  if (source != v)
    editor_.Erase(*v->producer());  // and v with it
  else if (takes_name)
    editor_.Rename(v, editor_.FreshName(NameBeside(name, "float")));
  if (takes_name) editor_.Rename(dq, name);
  return {};
}

Status QdqWriter::WriteValues() {
  for (size_t i = 0; i < plan_.values.size(); ++i) INFER_TRY(WriteValue(i));
  return {};
}

}  // namespace

Status InsertQdq(Graph& g, const QuantPlan& plan, const CalibrationTable& table,
                 const QuantScheme& scheme, QuantizeReport& report) {
  QdqWriter writer(g, plan, scheme, report);
  INFER_TRY(writer.ChooseGroups(table));
  INFER_TRY(writer.WriteWeights());
  INFER_TRY(writer.WriteConstants());
  INFER_TRY(writer.WriteValues());
  CountLayers(report);
  GraphEditor(g).Sweep();
  return {};
}

}  // namespace infer
