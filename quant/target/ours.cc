/// What our own backend makes of a quantized graph: asked, not tabulated.
#include <set>

#include "quant/target/checks.h"

namespace infer::target {
namespace {

constexpr std::string_view kIntegerOperators =
    " QLinearConv QLinearMatMul MatMulInteger ConvInteger QGemm QLinearAdd QLinearMul "
    "QLinearConcat QLinearAveragePool QLinearGlobalAveragePool DynamicQuantizeLSTM MatMulNBits "
    "GatherBlockQuantized DynamicQuantizeMatMul MatMulIntegerToFloat ";

std::string Refusal(const StepInfo& s) {
  return s.refusals.empty() ? "" : Cat(" (", s.refusals.front(), ")");
}

/// Nodes that belong in integers: operators on codes, and products of quantized activations.
bool BelongsInIntegers(const Node& n) {
  if (Lists(kIntegerOperators, n.op())) return true;
  const Node* x = IsProduct(n) ? DequantizedBy(n.input(0)) : nullptr;
  return x && !x->input(0)->is_constant() && DequantizedBy(n.input(1));
}

}  // namespace

Status CheckOurs(const Graph& g, const Backend& backend, TargetReport& r) {
  std::map<std::string, const Node*> wanted;  // by the name of the result
  for (const auto& n : g.nodes())
    if (BelongsInIntegers(*n) && n->output(0)) wanted[n->output(0)->name()] = n.get();
  if (wanted.empty()) return {};
  INFER_ASSIGN(const auto program, backend.Compile(g, {}));
  // A step tells the nodes that it stands for by name, which may be empty or not unique; its own
  // results are, but it may end behind the node.
  std::map<std::string, const StepInfo*> by_name;
  for (const StepInfo& s : program->steps()) {
    for (const std::string& name : s.fused_from) by_name[name] = &s;
    by_name[s.node] = &s;
    for (const std::string& name : s.outputs) by_name["->" + name] = &s;
  }
  for (const auto& [result, n] : wanted) {
    const auto own = by_name.find("->" + result);
    const auto at = own != by_name.end() || n->name().empty() ? own : by_name.find(n->name());
    if (at == by_name.end()) continue;
    const StepInfo& s = *at->second;
    const bool few_bits = Lists(" MatMulNBits GatherBlockQuantized ", n->op());
    if (RunsOnReference(s.kernel))
      Add(r, *n, Severity::kSlow, Cat("runs on the reference kernel", Refusal(s)),
          "--mode static --format qdq");
    else if (s.precision == "f32" && !few_bits)
      Add(r, *n, Severity::kSlow, Cat("is computed in f32", Refusal(s)), "leave it f32");
    else
      ++r.kernels[Cat(s.kernel.substr(0, s.kernel.find(':')), " ", s.precision)];
  }
  return {};
}

}  // namespace infer::target
