#include "lib/ir/eval.h"

#include <algorithm>
#include <utility>

#include "lib/ir/body.h"
#include "lib/ir/control_flow.h"
#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/support/stop.h"
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

bool Fits(const Datum& d, const ValueType& type);

bool FitsTensor(const Tensor& t, const TensorType& type) {
  return t.defined() && (type.dtype == DType::kUndefined || type.dtype == t.dtype()) &&
         type.shape.Admits(t.dims());
}

/// What is compared of the elements of a sequence or map: their shapes are not, since exporters
/// write [] where they know none.
ValueType OfAnyShape(const ValueType& element) {
  return element.is_tensor() ? ValueType(TensorType{element.tensor().dtype, Shape()}) : element;
}

/// Keys and as many values.
bool FitsMap(const MapDatum& map, const ValueType& type) {
  if (type.key() != DType::kUndefined && map.keys.dtype() != type.key()) return false;
  if (!map.values || !map.values->is_sequence()) return false;
  const std::vector<Datum>& values = map.values->sequence();
  if (static_cast<int64_t>(values.size()) != map.keys.num_elements()) return false;
  const ValueType any_shape = OfAnyShape(type.element());
  return std::all_of(values.begin(), values.end(),
                     [&](const Datum& v) { return Fits(v, any_shape); });
}

/// Whether `d` is of the type in all that it holds. What an optional holds may stand for it.
bool Fits(const Datum& d, const ValueType& type) {
  if (type == ValueType()) return !d.is_tensor() || d.tensor().defined();
  switch (type.kind()) {
    case ValueType::Kind::kTensor: return d.is_tensor() && FitsTensor(d.tensor(), type.tensor());
    case ValueType::Kind::kSequence: {
      const ValueType any_shape = OfAnyShape(type.element());
      return d.is_sequence() && std::all_of(d.sequence().begin(), d.sequence().end(),
                                            [&](const Datum& e) { return Fits(e, any_shape); });
    }
    case ValueType::Kind::kOptional:
      if (!d.is_optional()) return Fits(d, type.element());
      return !d.optional().value || Fits(*d.optional().value, type.element());
    case ValueType::Kind::kMap: return d.is_map() && FitsMap(d.map(), type);
  }
  return false;
}

/// Unsupported for an operand without elements whose other extents are so large that loops over
/// them take minutes.
Status CheckTurns(std::span<const Datum* const> inputs) {
  constexpr int64_t kMostTurns = int64_t{1} << 31;
  for (const Datum* d : inputs) {
    if (!d || !d->is_tensor() || !d->tensor().defined() || d->tensor().num_elements() > 0) continue;
    const auto turns = CheckedTurns(d->tensor().dims());
    if (!turns || *turns > kMostTurns)
      return Unsupported(Cat("an operand ", ToString(d->tensor().dims()),
                             " has no elements and extents above 2^31"));
  }
  return {};
}

}  // namespace

Status CheckDatum(const Datum& d, const ValueType& type, std::string_view name) {
  if (type == ValueType() || Fits(d, type)) return {};
  const std::string where = Cat("input '", name, "'");
  if (!d.is_tensor()) return InvalidArgument(Cat(where, ": wants ", ToString(type)));
  if (!d.tensor().defined()) return InvalidArgument(Cat(where, ": no value given"));
  return InvalidArgument(
      Cat(where, ": is ", ToString(d.tensor().type()), ", wants ", ToString(type)));
}

Status CheckResult(const Datum& d, const Value& value) {
  const ValueType& want = value.type();
  if (!d.is_tensor() || !want.is_tensor()) {
    const bool fits = want == ValueType() || want.kind() == ValueType::Kind::kOptional ||
                      (d.is_sequence() && want.kind() == ValueType::Kind::kSequence) ||
                      (d.is_map() && want.kind() == ValueType::Kind::kMap);
    if (fits) return {};
  } else {
    if (!d.tensor().defined() || FitsTensor(d.tensor(), want.tensor())) return {};
  }
  return InvalidModel(Cat("value '", value.name(), "': the model says ", ToString(want),
                          ", running it gives ", ToString(TypeOf(d, {}))));
}

Status ResultCheck::operator()(const Datum& d, const Value& value) {
  const bool is_tensor = d.is_tensor() && d.tensor().defined() && value.type().is_tensor();
  Status s = CheckResult(d, value);
  if (!is_tensor) return s;
  if (!s.ok()) {
    InferUpTo(value);
    const auto it = types_.find(&value);
    const bool fits = it != types_.end() && it->second.is_tensor() &&
                      it->second.tensor().is_static() && it->second.tensor() == d.tensor().type();
    if (!fits) return s;
  } else if (!value.type().tensor().is_static()) {
    seen_.insert_or_assign(&value, d.tensor().type());
  }
  return {};
}

/// Where inference fails, the model's word is all there is from there on.
void ResultCheck::InferUpTo(const Value& value) {
  if (inputs_.size() != g_->inputs().size()) return;
  if (!own_) {
    own_ = g_->Clone();
    GraphEditor editor(*own_);
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].is_tensor() && inputs_[i].tensor().defined() &&
          own_->inputs()[i]->type().is_tensor())
        editor.SetType(own_->inputs()[i], inputs_[i].tensor().type());
    next_ = g_->nodes().begin();
    own_next_ = own_->nodes().begin();
  }
  while (next_ != g_->nodes().end() && !types_.contains(&value)) {
    const Node& node = **next_;
    Node& own = **own_next_;
    if (!GraphEditor(*own_).Reinfer(own).ok()) {
      next_ = g_->nodes().end();
      return;
    }
    TakeSeen(node, own);
    ++next_;
    ++own_next_;
  }
}

void ResultCheck::TakeSeen(const Node& node, Node& own) {
  for (size_t i = 0; i < node.outputs().size(); ++i) {
    const Value* v = node.output(i);
    Value* result = own.output(i);
    if (!v || !result) continue;
    const auto it = seen_.find(v);
    if (it != seen_.end() && ValueType(it->second).Refines(result->type()))
      GraphEditor(*own_).SetType(result, it->second);
    types_.emplace(v, result->type());
  }
}

namespace {

/// Results that somebody reads are there: some operators make a few of theirs in training alone.
Status CheckAreMade(const Node& node, std::span<const Datum> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const Value* const v = node.output(i);
    if (v && !v->is_dead() && results[i].is_tensor() && !results[i].tensor().defined())
      return InvalidModel(
          Cat(Describe(node), ": result ", i, ", '", v->name(), "', is one that no kernel makes"));
  }
  return {};
}

}  // namespace

Result<std::vector<Datum>> EvaluateNode(const Node& node, std::span<const Datum* const> inputs,
                                        const OpRegistry& ops) {
  const OpDef& def = node.def();
  if (Status s = CheckTurns(inputs); !s.ok()) return std::move(s).In(Describe(node));
  if (IsControlFlow(def)) return EvaluateControlFlow(node, inputs);
  if (!def.reference && !def.body.empty()) {
    auto out = EvaluateBody(def, node.attrs(), ops, inputs);
    if (!out.ok()) return out.status().In(Describe(node));
    return out;
  }
  if (!def.reference) return Unsupported(Cat(Describe(node), ": no reference kernel"));
  std::vector<ValueType> types(inputs.size());
  OpCall call(def, node.attrs(), inputs.size(), node.outputs().size());
  if (def.prepare) call.BindPrepared(node.prepared());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
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
  INFER_TRY(CheckAreMade(node, run.outputs()));
  return std::move(run.outputs());
}

Result<std::vector<Datum>> EvaluateConstant(const Node& node, const OpRegistry& ops) {
  std::vector<Datum> constants(node.inputs().size());
  std::vector<const Datum*> operands(constants.size(), nullptr);
  for (size_t i = 0; i < constants.size(); ++i) {
    const Value* v = node.input(i);
    if (!v) continue;
    constants[i] = *v->constant();
    operands[i] = &constants[i];
  }
  return EvaluateNode(node, operands, ops);
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
  ResultCheck check(g, inputs);
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
    INFER_TRY(CheckStop());
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
        INFER_TRY(check(results[i], *v));
        define(v, std::move(results[i]));
      }
  }
  std::vector<Datum> out;
  for (const Value* v : g.outputs())
    out.push_back(v->is_constant() ? Datum(*v->constant()) : live.at(v).datum);
  return out;
}

}  // namespace infer
