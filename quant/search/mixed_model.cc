#include "quant/search/mixed_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/ir/editor.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/algorithm/data_rounder.h"
#include "quant/convert/cast_and_mul.h"
#include "quant/convert/layers.h"
#include "quant/search/weights.h"
#include "quant/weight_only/plan.h"
#include "quant/weight_only/round.h"

namespace infer {
namespace {

constexpr int64_t kHessianBytes = int64_t{256} << 20;
constexpr float kMostF16 = 65504;
/// Time of a run that sums second moments, in runs that calibrate.
constexpr double kOverCalibration = 2;

Instant Now() { return std::chrono::steady_clock::now(); }
/// Of any instants, the least and the last included.
double SecondsBetween(Instant from, Instant to) {
  using Seconds = std::chrono::duration<double>;
  return (Seconds(to.time_since_epoch()) - Seconds(from.time_since_epoch())).count();
}

float Largest(const Tensor& t) {  ///< magnitude; infinite where an element is NaN
  float most = 0;
  for (const float x : t.data<float>())
    most = std::max(most, std::isfinite(x) ? std::fabs(x) : std::numeric_limits<float>::infinity());
  return most;
}

/// By node: why MatMulNBits cannot stand in its place.
Result<std::map<const Node*, std::string>> RefusedNBits(const Graph& g) {
  WeightScheme scheme;
  scheme.lookups = scheme.layers = false;
  INFER_ASSIGN(const WeightPlan plan, PlanWeights(g, g, scheme));
  std::map<const Node*, std::string> refused;
  for (const WeightReader& r : plan.readers) {
    std::string& why = refused[r.node] = r.reason;
    const Value& w = *r.node->input(r.operand);
    if (why.empty() && (!w.is_constant() || w.uses().size() != 1))
      why = "its weights are shared or turned round";
  }
  return refused;
}

/// Weights and bias of a layer.
int64_t LayerConstantBytes(const Node& node) {
  int64_t bytes = 0;
  for (const Value* v : node.inputs())
    if (v && v->is_constant() && v->dtype() == DType::kF32) bytes += v->constant()->byte_size();
  return bytes;
}

std::string NameOf(const Node& n) { return n.name().empty() ? n.output(0)->name() : n.name(); }

}  // namespace

int64_t ConstantBytesOf(const Graph& g) {
  int64_t bytes = 0;
  for (const auto& v : g.values())
    if (v->is_constant()) bytes += v->constant()->byte_size();
  return bytes;
}

Status MixedModel::FindLayers(const QuantPlan& plan) {
  INFER_ASSIGN(const NodeFilter include, NodeFilter::Compile(options_.scheme.include, &original_));
  INFER_ASSIGN(const NodeFilter exclude, NodeFilter::Compile(options_.scheme.exclude, &original_));
  INFER_ASSIGN(const auto no_nbits, RefusedNBits(prepared_));
  for (const PlannedNode& p : plan.nodes) {
    const Node& node = *p.node;
    const bool product = p.op && p.op->role == QuantRole::kWeighted;
    const auto stored = StoredWeights(node);
    if (!product && !stored) continue;
    SearchLayer layer{
        node.output(0)->name(), NameOf(node), std::string(node.op()), LayerConstantBytes(node), {}};
    std::string unwanted;
    if (const NodePattern* e = exclude.Match(node))
      unwanted = Cat("excluded by ", ToString(*e));
    else if (!include.empty() && !include.Match(node))
      unwanted = "no include entry matches it";
    const float largest = stored ? Largest(*node.input(*stored)->constant()) : 0;
    if (unwanted.empty() && !std::isfinite(largest)) unwanted = "its weights hold NaN or infinity";
    if (!product)
      layer.refused[Precision::kInt8] = "a table has no integer kernel";
    else if (!p.integer)
      layer.refused[Precision::kInt8] = p.reason;
    for (const Precision q : kPrecisions) {
      if (q == Precision::kF32) continue;
      if (!unwanted.empty())
        layer.refused[q] = unwanted;
      else if (q != Precision::kInt8 && !stored)
        layer.refused[q] = "it has no constant matrix of weights";
    }
    const auto nbits = no_nbits.find(&node);
    const std::string why =
        nbits == no_nbits.end() ? "MatMulNBits is for products of matrices" : nbits->second;
    if (!why.empty())
      for (const Precision q : {Precision::kInt8NBits, Precision::kInt4NBits})
        layer.refused.emplace(q, why);
    if (largest > kMostF16)
      layer.refused.emplace(Precision::kF16Weights, "its weights exceed what f16 holds");
    index_[layer.key] = layers_.size();
    layers_.push_back(std::move(layer));
  }
  return {};
}

Result<MixedModel> MixedModel::Make(const Graph& g, const Samples& calibration,
                                    const Backend& backend, const QuantizeOptions& options,
                                    const MixedOptions& mixed) {
  INFER_TRY(CheckIsFloat(g));
  if (options.prepare) INFER_TRY(CheckFiniteWeights(g));
  MixedModel m(g);
  m.options_ = options;
  m.mixed_ = mixed;
  m.bytes_before_ = ConstantBytesOf(g);
  m.samples_ = calibration.count;
  if (options.prepare) INFER_TRY(PrepareForQuantization(m.prepared_));
  if (mixed.change) INFER_TRY(mixed.change(m.prepared_, g, {}));
  INFER_ASSIGN(QuantPlan plan, PlanQuantization(m.prepared_, g, options.scheme));
  const Instant start = Now();
  if (!plan.values.empty()) {
    INFER_ASSIGN(m.table_, Calibrate(m.prepared_, ObservedValues(plan), calibration, backend,
                                     CalibrationOf(options)));
    INFER_ASSIGN(plan, KeepUnseen(m.prepared_, g, m.table_, m.options_.scheme));
  }
  const double seconds =
      SecondsBetween(start, Now()) / static_cast<double>(std::max<int64_t>(calibration.count, 1));
  m.values_ = ObservedValues(plan);
  INFER_TRY(m.FindLayers(plan));
  if (m.layers_.empty())
    return Unsupported(
        "the model has no convolution, matrix product or table of embeddings outside of bodies of "
        "control flow");
  INFER_TRY(m.RoundWeights(calibration, seconds, backend));
  return m;
}

int64_t MixedModel::DataSamples(int64_t calibration, double seconds) const {
  if (mixed_.rounded) return std::min(calibration, mixed_.rounded->samples);
  const int64_t all = std::min(calibration, mixed_.data_samples);
  if (mixed_.data_until == Instant::max()) return all;
  const double left = SecondsBetween(Now(), mixed_.data_until) / 2;
  const double fit = left / std::max(kOverCalibration * seconds, 1e-9);
  const double least = static_cast<double>(std::min(all, MixedOptions::kLeastDataSamples));
  return static_cast<int64_t>(std::clamp(fit, least, static_cast<double>(all)));
}

Status MixedModel::RoundWeights(const Samples& calibration, double seconds,
                                const Backend& backend) {
  Samples some = calibration;
  some.count = rounded_layers_.samples = DataSamples(calibration.count, seconds);
  HessianOptions data;
  data.max_bytes = kHessianBytes;
  data.max_depth = mixed_.data_depth;
  data.threads = options_.threads;
  data.stop = options_.stop;
  const BlockRounder by_data =
                         MakeDataRounder(prepared_, some, backend, *DataMethodNamed("auto"), data),
                     squares = MseRounder(), nearest = NearestRounder();
  const auto in_time = [&](int64_t at, int64_t& done, Instant until, int64_t RoundedLayers::*kept) {
    const bool in = mixed_.rounded ? at < (*mixed_.rounded).*kept : done == at && Now() < until;
    if (in) done = at + 1;
    return in;
  };
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Node& node = *prepared_.FindValue(layers_[i].key)->producer();
    std::optional<RowsOf> rows;
    const auto at = static_cast<int64_t>(i);
    const bool by_data_now =
        in_time(at, rounded_layers_.data, mixed_.data_until, &RoundedLayers::data);
    const bool squares_now =
        in_time(at, rounded_layers_.squares, mixed_.squares_until, &RoundedLayers::squares);
    for (const Precision p : mixed_.precisions) {
      if (!IsBlocks(p) || !layers_[i].Allows(p)) continue;
      if (options_.stop.stop_requested()) return Cancelled("rounding was stopped");
      const size_t operand = *StoredWeights(node);
      if (!rows) rows.emplace(node, operand);
      std::vector<std::string> operands;
      if (!IsTable(node)) operands.push_back(node.input(0)->name());
      const int64_t depth = rows->view().depth;
      const bool data_tells = by_data_now && calibration.count > 0 && depth <= mixed_.data_depth;
      const RoundRequest request{node.input(operand)->name(), operands, rows->view(),
                                 GridOf(p, depth), false};
      INFER_ASSIGN(RoundedWeights rounded, data_tells    ? by_data(request)
                                           : squares_now ? squares(request)
                                                         : nearest(request));
      rounded_.emplace(std::pair(i, p), std::move(rounded));
    }
    if (mixed_.rounding)
      mixed_.rounding(static_cast<int64_t>(i) + 1, static_cast<int64_t>(layers_.size()));
  }
  return {};
}

int MixedModel::FindLayer(const std::string& key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? -1 : static_cast<int>(it->second);
}

Policy MixedModel::Uniform(Precision p) const {
  Policy policy;
  for (const SearchLayer& layer : layers_) {
    const auto it = layer.refused.find(p);
    policy[layer.key] =
        it == layer.refused.end() ? LayerPolicy{p, {}} : LayerPolicy{Precision::kF32, it->second};
  }
  return policy;
}

Status MixedModel::CheckPolicy(const Policy& policy) const {
  for (const auto& [key, choice] : policy) {
    const int at = FindLayer(key);
    if (at < 0) return InvalidArgument(Cat("policy: the model has no layer '", key, "'"));
    const SearchLayer& layer = layers_[static_cast<size_t>(at)];
    if (const auto why = layer.refused.find(choice.precision); why != layer.refused.end())
      return InvalidArgument(
          Cat("policy: layer '", key, "' cannot be ", Name(choice.precision), ": ", why->second));
    if (IsBlocks(choice.precision) &&
        !rounded_.contains({static_cast<size_t>(at), choice.precision}))
      return InvalidArgument(Cat("policy: ", Name(choice.precision), " of layer '", key,
                                 "' is not among the precisions"));
  }
  return {};
}

Result<int64_t> MixedModel::WriteWeights(size_t i, Precision p, Node& node, WeightWriter& writer,
                                         QuantizedLayer& told) const {
  const int64_t before = node.input(*StoredWeights(node))->constant()->byte_size();
  const auto rounded = rounded_.find({i, p});
  const BlockQuantized* codes = nullptr;
  if (rounded != rounded_.end()) {
    told.method = rounded->second.method;
    told.note = rounded->second.note;
    codes = &rounded->second.q;
  }
  INFER_ASSIGN(const int64_t after, writer.Write(node, p, codes));
  told.weight_bytes_before = before;
  told.weight_bytes_after = after;
  return after - before;
}

Result<MixedGraph> MixedModel::Apply(const Policy& policy, bool tagged) const {
  INFER_TRY(CheckPolicy(policy));
  MixedGraph out{prepared_.Clone(), {}, std::vector<int64_t>(layers_.size(), 0)};
  Graph& g = out.graph;
  GraphEditor editor(g);
  const auto choice_of = [&](const SearchLayer& layer) {
    const auto it = policy.find(layer.key);
    return it == policy.end() ? LayerPolicy{} : it->second;
  };
  std::vector<Node*> nodes;
  QuantScheme scheme = options_.scheme;
  for (size_t i = 0; i < layers_.size(); ++i) {
    Node* const node = g.FindValue(layers_[i].key)->producer();
    nodes.push_back(node);
    if (tagged) {
      std::vector<std::string> from = node->fused_from();
      from.push_back(Cat("layer:", i));
      editor.SetFusedFrom(*node, std::move(from));
    }
    // A table is no layer of the scheme: it moves, and may do so between integers.
    if (!IsTable(*node) && choice_of(layers_[i]).precision != Precision::kInt8)
      scheme.exclude.push_back({NodePattern::Kind::kValue, layers_[i].key});
  }
  INFER_ASSIGN(const QuantPlan plan, PlanQuantization(g, original_, scheme));
  const auto row = plan.ReportRows();
  out.report.calibration_samples = samples_;
  out.report.weight_bytes_before = bytes_before_;
  INFER_TRY(InsertQdq(g, plan, table_, scheme, out.report));
  WeightWriter writer(g);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const LayerPolicy choice = choice_of(layers_[i]);
    QuantizedLayer& told = out.report.layers[row.at(nodes[i])];
    if (choice.precision == Precision::kInt8) {
      out.layer_bytes[i] = told.weight_bytes_after;
      continue;
    }
    told.precision = Name(choice.precision);
    told.reason = choice.reason;
    told.quantizable = true;  // tables, too
    out.layer_bytes[i] = layers_[i].bytes;
    if (choice.precision == Precision::kF32) continue;
    INFER_ASSIGN(const int64_t more, WriteWeights(i, choice.precision, *nodes[i], writer, told));
    out.layer_bytes[i] += more;
  }
  CountLayers(out.report);
  INFER_TRY(SpellAsCastAndMul(g, /*products=*/true));
  editor.Sweep();
  if (Status s = Verify(g); !s.ok()) return Internal(Cat("after a policy: ", s.message()));
  out.report.weight_bytes_after = ConstantBytesOf(g);
  return out;
}

Result<Graph> MixedModel::RoundOne(const std::string& value) const {
  const auto it = table_.find(value);
  if (it == table_.end()) return InvalidArgument(Cat("no calibrated value '", value, "'"));
  Graph g = prepared_.Clone();
  GraphEditor editor(g);
  Value* const v = g.FindValue(value);
  const std::vector<Use> uses = v->uses();
  if (v->producer())
    editor.InsertAfter(*v->producer());
  else
    editor.InsertBefore(*g.nodes().front());
  const QuantParams p = ChooseParams(it->second.range, options_.scheme.activations);
  Tensor zero(p.dtype, {});
  zero.SetInt(0, p.zero_point[0]);
  Value* const scale = editor.AddConstant(Tensor::Scalar(p.scale[0]));
  Value* const zero_point = editor.AddConstant(std::move(zero));
  INFER_ASSIGN(Value * q, editor.Add("QuantizeLinear", {v, scale, zero_point}));
  INFER_ASSIGN(Value * rounded, editor.Add("DequantizeLinear", {q, scale, zero_point}));
  for (const Use& use : uses) editor.SetOperand(*use.user, use.operand, rounded);
  return g;
}

}  // namespace infer
