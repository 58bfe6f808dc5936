#include "quant/algorithm/layers.h"

#include "lib/ir/replacement.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// Input 2 becomes `bias` (f32[channels]) on a copy of `node`, which keeps the result's name.
Status GiveBias(Graph& g, Node& node, Tensor bias) {
  GraphEditor editor(g);
  editor.InsertBefore(node);
  Value* const old = node.output(0);
  const std::string name = old->name();
  std::vector<Value*> inputs(node.inputs().begin(), node.inputs().begin() + 2);
  inputs.push_back(editor.AddConstant(std::move(bias), name + "_bias"));
  NodeOptions options = NamesOf(node);
  options.extra = node.extra();
  INFER_ASSIGN(Node * with_bias,
               editor.AddNode(node.def(), std::move(inputs), node.attrs(), std::move(options)));
  INFER_TRY(editor.ReplaceAllUses(old, with_bias->output(0)));
  editor.Erase(node);
  if (with_bias->output(0)->name() != name && !g.FindValue(name))
    editor.Rename(with_bias->output(0), name);
  return {};
}

/// The Add behind a MatMul whose other operand is a row of constants; nullptr for none.
Node* BiasAdd(const Graph& g, const AlgorithmLayer& layer) {
  if (layer.biased == layer.output) return nullptr;
  const Value* v = g.FindValue(layer.biased);
  return v ? v->producer() : nullptr;
}

}  // namespace

std::vector<AlgorithmLayer> IntegerLayers(const QuantPlan& plan) {
  std::vector<AlgorithmLayer> layers;
  for (const PlannedNode& p : plan.nodes) {
    if (!p.integer) continue;
    const auto operand = WeightOperand(*p.op, *p.node);
    if (!operand) continue;
    // Of a layer of constants there is nothing to observe.
    if (p.node->input(*operand == 0 ? 1 : 0)->is_constant()) continue;
    AlgorithmLayer l;
    l.output = l.biased = p.node->output(0)->name();
    if (p.bias) l.biased = p.bias->output(0)->name();
    l.input = p.node->input(*operand == 0 ? 1 : 0)->name();
    l.channel_axis = WeightLayoutOf(*p.node)->is_window ? 1 : -1;
    layers.push_back(std::move(l));
  }
  return layers;
}

Tensor FakeQuantizedWeights(const Node& node, const QuantScheme& scheme) {
  if (const auto it = scheme.rounded.find(node.output(0)->name()); it != scheme.rounded.end())
    return DequantizeTensor(it->second.codes, it->second.params);
  const size_t operand = *WeightOperand(*FindQuantOp(node), node);
  const Tensor& w = *node.input(operand)->constant();
  const int axis = scheme.per_channel ? WeightAxis(node, operand) : -1;
  const QuantParams p = ChooseWeightParams(w, axis, scheme.weights);
  return DequantizeTensor(QuantizeTensor(w, p), p);
}

void ReplaceWeights(Graph& g, Node& node, Tensor w) {
  const size_t operand = *WeightOperand(*FindQuantOp(node), node);
  GraphEditor editor(g);
  Value* const old = node.input(operand);
  if (old->has_one_use())
    editor.SetConstant(old, std::move(w));
  else
    editor.SetOperand(node, operand, editor.AddConstant(std::move(w), old->name()));
}

Result<bool> AddToBias(Graph& g, const AlgorithmLayer& layer, std::span<const double> delta) {
  Node* node = g.FindValue(layer.output)->producer();
  GraphEditor editor(g);
  const auto channels = static_cast<int64_t>(delta.size());
  const auto add = [&](Node& owner, size_t operand, double beta) {
    const Value* old = owner.input(operand);
    const std::vector<float> was = old->constant()->ToFloats();
    const bool one = was.size() == 1;
    if (!one && was.size() != delta.size()) return false;
    Dims dims = old->constant()->dims();
    if (one) dims = {channels};
    Tensor t(DType::kF32, dims);
    const auto b = t.mutable_data<float>();
    for (size_t c = 0; c < delta.size(); ++c)
      b[c] = static_cast<float>(static_cast<double>(was[one ? 0 : c]) + delta[c] / beta);
    editor.SetOperand(owner, operand, editor.AddConstant(std::move(t), old->name()));
    editor.Sweep();
    return true;
  };
  if (Node* row = BiasAdd(g, layer)) return add(*row, row->input(0)->is_constant() ? 0 : 1, 1.0);
  const WeightLayout layout = *WeightLayoutOf(*node);
  if (!layout.has_bias) return false;
  const double beta = layout.beta;
  if (node->input(2)) return beta != 0 && add(*node, 2, beta);
  Tensor t(DType::kF32, {channels});
  for (size_t c = 0; c < delta.size(); ++c)
    t.mutable_data<float>()[c] = static_cast<float>(delta[c] / (beta == 0 ? 1.0 : beta));
  if (beta == 0) return false;
  INFER_TRY(GiveBias(g, *node, std::move(t)));
  return true;
}

bool HasInputChannels(const Node& node) {
  const auto layout = WeightLayoutOf(node);
  if (!layout || !node.input(1) || !node.input(1)->is_constant()) return false;
  return layout->is_window ? !layout->outputs_in_groups : node.input(1)->constant()->rank() == 2;
}

int64_t InputChannels(const Node& node) {
  return WeightLayoutOf(node)->InputChannels(node.input(1)->constant()->dims());
}

void ForEachWeight(const Node& node, FunctionRef<void(size_t, int64_t in, int64_t out)> f) {
  WeightLayoutOf(node)->ForEach(node.input(1)->constant()->dims(), f);
}

}  // namespace infer
