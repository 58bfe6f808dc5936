#include "lib/ir/known_values.h"

#include <algorithm>

#include "lib/ir/body.h"
#include "lib/ir/control_flow.h"

namespace infer {
namespace {

/// Enough for whatever computes shapes; every node of a model may cost this much at import.
constexpr int64_t kMostElements = 1024, kMostFlops = int64_t{1} << 18;
/// Of loops over the other axes of a tensor without elements.
constexpr int64_t kMostTurns = int64_t{1} << 18;

bool IsSmall(const TensorType& t) {
  if (!t.is_static() || t.dtype == DType::kString || t.dtype == DType::kUndefined) return false;
  const Dims dims = t.shape.static_dims();
  const auto n = CheckedNumElements(dims), turns = CheckedTurns(dims);
  return n && *n <= kMostElements && turns && *turns <= kMostTurns;
}

/// The integers of `elements` as a tensor of this type; undefined unless all are known.
Tensor FromElements(const ValueType& type, const std::optional<std::vector<Dim>>& elements) {
  if (!elements || !type.is_tensor() || !IsSmall(type.tensor())) return {};
  const DType dtype = type.tensor().dtype;
  if (!IsInteger(dtype) && dtype != DType::kBool) return {};
  Tensor t(dtype, type.tensor().shape.static_dims());
  if (t.num_elements() != static_cast<int64_t>(elements->size())) return {};
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const Dim& d = (*elements)[static_cast<size_t>(i)];
    if (!d.is_static()) return {};
    t.SetInt(i, d.value());
  }
  return t;
}

/// Outputs whose extents hang on the values, but are bounded by the operands.
bool IsBoundedByOperands(const OpDef& def) {
  return def.domain.empty() &&
         (def.name == "NonZero" || def.name == "Unique" || def.name == "Compress");
}

/// Worth evaluating, and cheap for certain.
bool MayEvaluate(const OpCall& call) {
  const OpDef& def = call.def();
  if (!def.deterministic || IsControlFlow(def) || (!def.reference && def.body.empty()))
    return false;
  if (call.num_inputs() == 0) return false;
  for (size_t i = 0; i < call.num_outputs(); ++i) {
    const ValueType& t = call.out_type(i);
    if (!t.is_tensor()) return false;
    if (!IsSmall(t.tensor()) && !IsBoundedByOperands(def)) return false;
  }
  return true;
}

/// The inputs' values; nullopt when one is not known or not small. Inference saw the same ones: a
/// kernel relies on what it checked.
std::optional<std::vector<Datum>> KnownInputs(const OpCall& call) {
  std::vector<Datum> inputs(call.num_inputs());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!call.has_input(i)) continue;
    const Tensor* t = call.constant(i);
    if (!t || !IsSmall(t->type()) || !(call.type(i) == ValueType(t->type()))) return std::nullopt;
    inputs[i] = *t;
  }
  return inputs;
}

/// What element rules know in full.
KnownOutputs FromRules(const OpCall& call) {
  KnownOutputs known(call.num_outputs());
  bool any = false;
  for (size_t i = 0; i < known.size(); ++i)
    if (Tensor t = FromElements(call.out_type(i), call.out_elements(i)); t.defined()) {
      known[i] = std::move(t);
      any = true;
    }
  return any ? known : KnownOutputs();
}

}  // namespace

KnownOutputs EvaluateKnown(OpCall& call, const OpRegistry& ops) {
  KnownOutputs known = FromRules(call);
  if (std::all_of(known.begin(), known.end(), [](const auto& t) { return t.has_value(); }) &&
      !known.empty())
    return known;
  if (!MayEvaluate(call)) return known;
  const auto inputs = KnownInputs(call);
  if (!inputs || CostOf(call).flops > kMostFlops) return known;
  std::vector<const Datum*> pointers(inputs->size(), nullptr);
  for (size_t i = 0; i < pointers.size(); ++i)
    if (call.has_input(i)) pointers[i] = &(*inputs)[i];
  std::vector<Datum> results;
  if (call.def().reference) {
    OpRun run(call, pointers, call.num_outputs());
    if (!call.def().reference(run).ok()) return known;
    results = std::move(run.outputs());
  } else {
    auto made = EvaluateBody(call.def(), call.attrs(), ops, pointers);
    if (!made.ok()) return known;
    results = *std::move(made);
  }
  KnownOutputs all(call.num_outputs());
  for (size_t i = 0; i < all.size() && i < results.size(); ++i) {
    if (!results[i].is_tensor() || !results[i].tensor().defined()) continue;
    Tensor& t = results[i].tensor();
    if (!IsSmall(t.type()) || !ValueType(t.type()).Refines(call.out_type(i))) continue;
    call.SetOut(i, ValueType(t.type()));
    if (t.rank() <= 1 && IsInteger(t.dtype())) call.SetElements(i, ElementsOf(t));
    all[i] = std::move(t);
  }
  return all;
}

}  // namespace infer
