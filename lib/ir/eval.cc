#include "lib/ir/eval.h"

#include <unordered_map>

#include "lib/ir/body.h"
#include "lib/ir/control_flow.h"
#include "lib/ir/inference.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

/// The type of a datum; an empty optional or sequence takes what `declared` says.
ValueType TypeOf(const Datum& d, const ValueType& declared) {
  if (d.is_tensor()) return d.tensor().defined() ? ValueType(d.tensor().type()) : declared;
  if (!(declared == ValueType())) return declared;
  // Unknown before the run: what is no tensor must not pass for one.
  if (d.is_sequence())
    return ValueType::Sequence(d.sequence().empty() ? ValueType()
                                                    : TypeOf(d.sequence().front(), {}));
  if (d.is_map()) return ValueType::Map(d.map().keys.dtype(), ValueType());
  return ValueType::Optional(d.optional().value ? TypeOf(*d.optional().value, {}) : ValueType());
}

}  // namespace

Status CheckDatum(const Datum& d, const ValueType& type, std::string_view name) {
  if (type == ValueType()) return {};
  const std::string where = Cat("input '", name, "'");
  if (!d.is_tensor() || !type.is_tensor()) {
    const bool fits = (d.is_sequence() && type.kind() == ValueType::Kind::kSequence) ||
                      (d.is_map() && type.kind() == ValueType::Kind::kMap) ||
                      type.kind() == ValueType::Kind::kOptional;
    if (!fits) return InvalidArgument(Cat(where, ": wants ", ToString(type)));
    return {};
  }
  const Tensor& t = d.tensor();
  if (!t.defined()) return InvalidArgument(Cat(where, ": no value given"));
  const TensorType& want = type.tensor();
  const bool dtype_fits = want.dtype == DType::kUndefined || want.dtype == t.dtype();
  if (!dtype_fits || !Meet(Shape(t.dims()), want.shape).ok())
    return InvalidArgument(Cat(where, ": is ", ToString(t.type()), ", wants ", ToString(want)));
  return {};
}

Status CheckResult(const Datum& d, const Value& value) {
  const ValueType& want = value.type();
  if (!d.is_tensor() || !want.is_tensor()) {
    const bool fits = want == ValueType() || want.kind() == ValueType::Kind::kOptional ||
                      (d.is_sequence() && want.kind() == ValueType::Kind::kSequence) ||
                      (d.is_map() && want.kind() == ValueType::Kind::kMap);
    if (fits) return {};
  } else {
    if (!d.tensor().defined() || Meet(ValueType(d.tensor().type()), want).ok()) return {};
  }
  return InvalidModel(Cat("value '", value.name(), "': the model says ", ToString(want),
                          ", running it gives ", ToString(TypeOf(d, {}))));
}

Result<std::vector<Datum>> EvaluateNode(const Node& node, std::span<const Datum* const> inputs,
                                        const OpRegistry& ops) {
  const OpDef& def = node.def();
  if (IsControlFlow(def)) return EvaluateControlFlow(node, inputs);
  if (!def.reference && !def.body.empty()) {
    auto out = EvaluateBody(def, node.attrs(), ops, inputs);
    if (!out.ok()) return out.status().In(Describe(node));
    return out;
  }
  if (!def.reference) return Unsupported(Cat(Describe(node), ": no reference kernel"));
  std::vector<ValueType> types(inputs.size());
  OpCall call(def, node.attrs(), inputs.size(), node.outputs().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    if (inputs[i]->is_tensor() && !inputs[i]->tensor().defined())
      return InvalidModel(
          Cat(Describe(node), ": operand ", i, " is a result that no kernel makes"));
    types[i] = TypeOf(*inputs[i], node.input(i) ? node.input(i)->type() : ValueType());
    call.BindInput(i, &types[i], inputs[i]->is_tensor() ? &inputs[i]->tensor() : nullptr);
  }
  // With the actual types: what inference had to leave open before the run is checked here, so that
  // kernels may trust ranks and extents.
  Status s = CheckSchema(call);
  if (s.ok() && def.infer) s = def.infer(call);
  if (!s.ok()) return std::move(s).In(Describe(node));
  OpRun run(call, inputs, node.outputs().size());
  s = def.reference(run);
  if (s.ok()) s = CheckRanks(run.outputs());
  if (!s.ok()) return std::move(s).In(Describe(node));
  return std::move(run.outputs());
}

Result<std::vector<Datum>> Evaluate(const Graph& g, std::span<const Datum> inputs,
                                    const EvalOptions& options) {
  if (inputs.size() != g.inputs().size())
    return InvalidArgument(Cat("got ", inputs.size(), " inputs, wants ", g.inputs().size()));
  struct Slot {
    Datum datum;
    size_t reads_left = 0;
  };
  std::unordered_map<const Value*, Slot> live;
  auto define = [&](const Value* v, Datum d) {
    if (options.tap) options.tap(*v, d);
    const size_t reads = v->uses().size() + (v->is_output() ? 1 : 0);
    if (reads > 0) live[v] = {std::move(d), reads};
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    INFER_TRY(CheckDatum(inputs[i], g.inputs()[i]->type(), g.inputs()[i]->name()));
    define(g.inputs()[i], inputs[i]);
  }
  for (const auto& n : g.nodes()) {
    std::vector<Datum> constants(n->inputs().size());
    std::vector<const Datum*> operands(n->inputs().size(), nullptr);
    for (size_t i = 0; i < operands.size(); ++i) {
      const Value* v = n->input(i);
      if (!v) continue;
      if (v->is_constant()) constants[i] = *v->constant();
      operands[i] = v->is_constant() ? &constants[i] : &live.at(v).datum;
    }
    INFER_ASSIGN(auto results, EvaluateNode(*n, operands, g.ops()));
    for (const Value* v : n->inputs())
      if (v && !v->is_constant())
        if (auto it = live.find(v); --it->second.reads_left == 0) live.erase(it);
    for (size_t i = 0; i < n->outputs().size(); ++i)
      if (const Value* v = n->output(i)) {
        INFER_TRY(CheckResult(results[i], *v));
        define(v, std::move(results[i]));
      }
  }
  std::vector<Datum> out;
  for (const Value* v : g.outputs())
    out.push_back(v->is_constant() ? Datum(*v->constant()) : live.at(v).datum);
  return out;
}

}  // namespace infer
