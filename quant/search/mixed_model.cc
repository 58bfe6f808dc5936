#include "quant/search/mixed_model.h"

#include <algorithm>
#include <cmath>

#include "lib/ir/editor.h"
#include "lib/ir/verify.h"
#include "lib/support/strings.h"
#include "quant/search/weights.h"

namespace infer {
namespace {

bool AllFinite(const Tensor& t) {
  const auto values = t.data<float>();
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
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
  INFER_ASSIGN(const NodeFilter include, NodeFilter::Compile(options_.scheme.include));
  INFER_ASSIGN(const NodeFilter exclude, NodeFilter::Compile(options_.scheme.exclude));
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
    else if (stored && !AllFinite(*node.input(*stored)->constant()))
      unwanted = "its weights hold NaN or infinity";
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
    index_[layer.key] = layers_.size();
    layers_.push_back(std::move(layer));
  }
  return {};
}

Result<MixedModel> MixedModel::Make(const Graph& g, const Samples& calibration,
                                    const Backend& backend, const QuantizeOptions& options) {
  for (const auto& n : g.nodes())
    if (n->Is("QuantizeLinear") || n->Is("DequantizeLinear"))
      return InvalidArgument(
          Cat("the model is quantized already (", Describe(*n), "); start from the f32 model"));
  MixedModel m(g);
  m.options_ = options;
  m.bytes_before_ = ConstantBytesOf(g);
  m.samples_ = calibration.count;
  if (options.prepare) INFER_TRY(PrepareForQuantization(m.prepared_));
  INFER_ASSIGN(const QuantPlan plan, PlanQuantization(m.prepared_, g, options.scheme));
  INFER_TRY(m.FindLayers(plan));
  if (m.layers_.empty())
    return Unsupported("the model has no convolution, matrix product or table of embeddings");
  for (const Value* v : plan.values) m.values_.push_back(v->name());
  if (m.values_.empty()) return m;
  CalibrationOptions c;
  c.observer = options.observer;
  c.grid = options.scheme.activations;
  c.threads = options.threads;
  c.progress = options.progress;
  c.stop = options.stop;
  INFER_ASSIGN(m.table_, Calibrate(m.prepared_, m.values_, calibration, backend, c));
  return m;
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

Result<MixedGraph> MixedModel::Apply(const Policy& policy, bool tagged) const {
  for (const auto& [key, choice] : policy) {
    const int at = FindLayer(key);
    if (at < 0) return InvalidArgument(Cat("policy: the model has no layer '", key, "'"));
    const auto why = layers_[static_cast<size_t>(at)].refused.find(choice.precision);
    if (why != layers_[static_cast<size_t>(at)].refused.end())
      return InvalidArgument(
          Cat("policy: layer '", key, "' cannot be ", Name(choice.precision), ": ", why->second));
  }
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
    if (!node->Is("Gather") && choice_of(layers_[i]).precision != Precision::kInt8)
      scheme.exclude.push_back({NodePattern::Kind::kValue, layers_[i].key});
  }
  INFER_ASSIGN(const QuantPlan plan, PlanQuantization(g, original_, scheme));
  std::map<const Node*, size_t> row;
  for (size_t i = 0; i < plan.nodes.size(); ++i) row[plan.nodes[i].node] = i;
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
    out.layer_bytes[i] = layers_[i].bytes;
    if (choice.precision == Precision::kF32) continue;
    const int64_t before = nodes[i]->input(*StoredWeights(*nodes[i]))->constant()->byte_size();
    INFER_ASSIGN(const int64_t after, writer.Write(*nodes[i], choice.precision));
    told.weight_bytes_before = before;
    told.weight_bytes_after = after;
    out.layer_bytes[i] += after - before;
  }
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
