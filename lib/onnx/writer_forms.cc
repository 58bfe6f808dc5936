/// The form in which each node leaves: its own, that of an older opset, ONNX Runtime's, a function,
/// or the nodes that define it.
#include "lib/ir/body.h"
#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/ir/mask_bounds.h"
#include "lib/onnx/attribute_proto.h"
#include "lib/onnx/fused_names.h"
#include "lib/onnx/opset.h"
#include "lib/onnx/ort_names.h"
#include "lib/onnx/tensor_proto.h"
#include "lib/onnx/type_since.h"
#include "lib/onnx/value_info.h"
#include "lib/onnx/writer.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {

Status Writer::WriteNode(const Node& n) {
  const OpDef& def = n.def();
  NodeSpec spec = SpecOf(n);
  for (const auto* values : {&n.inputs(), &n.outputs()})
    for (const Value* v : *values)
      if (v) NeedTypes(*v);
  if (auto form = OrtFormOf(n, spec)) {
    state_.UseDomain(form->domain, 1);
    Append(*form, n.extra());
    return {};
  }
  if (def.domain == kFusedDomain && !def.body.empty() &&
      (state_.options.target == ExportTarget::kOrt ||
       state_.options.target == ExportTarget::kPlain))
    return WriteBody(n);
  if (def.domain == kFusedDomain && !def.body.empty() &&
      state_.options.target != ExportTarget::kInfer) {
    spec.op = FunctionName(def, n.attrs());
    state_.UseDomain(spec.domain, 1);
    INFER_TRY(AddFunction(def, n.attrs(), spec.op));
  } else if (!def.domain.empty()) {
    state_.UseDomain(spec.domain, OpsetOf(def, spec));
  } else if (const int64_t needed = OpsetOf(def, spec); needed > state_.options.opset) {
    spec.attrs = AttrsAt(def, n.attrs(), state_.options.opset);
    const bool has_older_form = def.lower && IsLowered(def, spec);
    if (!has_older_form && def.decompose && state_.options.decompose)
      return WriteDecomposed(n, needed);
    if (!has_older_form) {
      const int64_t lowest = LowestOf(def, spec, needed);
      Refuse(n, Cat("needs opset ", lowest), lowest);
    } else if (auto lowered = def.lower(spec, static_cast<int>(state_.options.opset), *this);
               lowered.ok()) {
      spec = *std::move(lowered);
    } else {
      Refuse(n, lowered.status().message(), LowestOf(def, spec, needed));
    }
  } else {
    spec.attrs = AttrsAt(def, n.attrs(), state_.options.opset);
  }
  if (def.domain.empty()) NeedOperandTypes(n);
  onnx::NodeProto* proto = Append(spec, n.extra());
  for (const auto& [attr, sub] : n.subgraphs()) {
    onnx::AttributeProto& a = *proto->add_attribute();
    a.set_name(attr);
    a.set_type(onnx::AttributeProto::GRAPH);
    INFER_TRY(WriteSubgraph(n, *sub, *a.mutable_g()).In(attr));
  }
  return {};
}

std::optional<NodeSpec> Writer::OrtFormOf(const Node& n, const NodeSpec& spec) {
  const bool lacks = n.def().domain.empty() && OpsetOf(n.def(), spec) > state_.options.opset;
  const bool standard =
      state_.options.target == ExportTarget::kOnnx || state_.options.target == ExportTarget::kPlain;
  if (standard && !lacks) {
    auto form = WithMaskRows(CallOf(n), spec, *this);
    if (form) form->attrs = AttrsAt(n.def(), n.attrs(), state_.options.opset);
    return form;
  }
  if (state_.options.target != ExportTarget::kOrt) return std::nullopt;
  const OrtContext context{state_.options.opset, state_.options.decompose, lacks,
                           MustMakeZeroWithoutKeys(n), state_.options.ort_minor};
  const bool guarded = !lacks && IsAttentionHiddenByLowest(n);
  NodeSpec form = guarded ? WithMaskOffTheEdge(n.input(3)->dtype(), spec, *this) : spec;
  // ONNX Runtime's Attention that reads a cache must write it, whoever reads that.
  const bool keeps_cache = n.Is("Attention") && n.input(4);
  for (size_t i = 1; i < n.outputs().size() && i < form.outputs.size() && !keeps_cache; ++i)
    if (n.output(i) && n.output(i)->is_dead()) form.outputs[i].clear();
  if (auto found = OrtForm(CallOf(n), form, context, *this)) return found;
  return guarded ? std::optional(form) : std::nullopt;
}

bool Writer::IsLowered(const OpDef& def, const NodeSpec& spec) {
  if (def.versions.front() <= state_.options.opset) return true;
  // An older operator may say the same.
  const auto lowered = def.lower(spec, static_cast<int>(state_.options.opset), *this);
  const OpDef* older = lowered.ok() ? state_.ops.Find(lowered->domain, lowered->op) : nullptr;
  return older && older != &def && older->versions.front() <= state_.options.opset;
}

int64_t Writer::LowestOf(const OpDef& def, const NodeSpec& spec, int64_t newest) {
  int64_t opset = std::max<int64_t>(state_.options.opset + 1, def.versions.front());
  const auto lowers = [&] {
    return def.lower && def.lower(spec, static_cast<int>(opset), *this).ok();
  };
  while (opset < newest && !lowers()) ++opset;
  return newest < opset ? newest : opset;
}

Status Writer::WriteDecomposed(const Node& n, int64_t needed) {
  const auto body = DecompositionOf(CallOf(n), state_.ops);
  if (body.status().code() == Code::kUnsupported) {
    Refuse(n, body.status().message(), needed);
    return {};
  }
  INFER_TRY(body.status());
  INFER_TRY(WriteInPlace(n, *body));
  state_.out.decomposed.emplace_back(n.op());
  state_.out.whole_opset = std::max(state_.out.whole_opset, needed);
  return {};
}

Status Writer::WriteBody(const Node& n) {
  INFER_ASSIGN(const auto shared, BodyOf(n.def(), n.attrs(), state_.ops));
  Graph body = shared->Clone();
  GraphEditor editor(body);
  for (size_t i = 0; i < body.inputs().size(); ++i) {
    if (!n.input(i)) return Internal(Cat("operand ", i, " of a body is omitted"));
    editor.SetType(body.inputs()[i], n.input(i)->type());
  }
  INFER_TRY(InferTypes(body));
  state_.out.expanded.emplace_back(n.op());
  return WriteInPlace(n, body);
}

Status Writer::WriteInPlace(const Node& n, const Graph& body) {
  std::vector<std::string> operands;
  for (const Value* v : n.inputs())
    if (v) operands.push_back(NameOf(v));
  read_.insert(operands.begin(), operands.end());
  Writer inner(state_, body, Place::kInner, nodes_);
  const int first = nodes_.size();
  std::vector<std::string> results;
  for (size_t i = 0; i < n.outputs().size() && i < body.outputs().size(); ++i)
    if (n.output(i)) {
      results.push_back(NameOf(n.output(i)));
      inner.SetName(body.outputs()[i], NameOf(n.output(i)));
      if (inner.prefix_.empty()) inner.prefix_ = NameOf(n.output(i)) + "_";
    }
  const size_t refused = state_.out.inexpressible.size();
  INFER_TRY(inner.Run(operands));
  for (size_t i = refused; i < state_.out.inexpressible.size(); ++i) {
    Inexpressible& x = state_.out.inexpressible[i];
    x.node = Cat(infer::Describe(n), ", ", x.node);
  }
  shared_nodes_.Share(nodes_, first, results, inner.constants_);
  std::move(inner.constants_.begin(), inner.constants_.end(), std::back_inserter(extra_constants_));
  return {};
}

void Writer::Refuse(const Node& n, std::string why, int64_t needed) {
  state_.out.inexpressible.push_back({infer::Describe(n), std::move(why), needed});
}

void Writer::NeedTypes(const Value& v) {
  const int64_t needed = OpsetOf(v.type());
  if (needed > state_.options.opset && (v.producer() == nullptr || v.producer() == node_))
    state_.out.inexpressible.push_back(
        {Cat("value '", v.name(), "'"), Cat("is ", ToString(v.type())), needed});
}

void Writer::NeedOperandTypes(const Node& n) {
  const int64_t needed = TypesOpsetOf(n);
  if (needed > state_.options.opset)
    Refuse(n, Cat("takes operands of these types since opset ", needed), needed);
}

Status Writer::WriteSubgraph(const Node& n, const Graph& sub, onnx::GraphProto& out) {
  std::vector<std::string> captures;
  for (size_t i = n.inputs().size() - n.num_captures(); i < n.inputs().size(); ++i)
    captures.push_back(NameOf(n.input(i)));
  read_.insert(captures.begin(), captures.end());
  Writer inner(state_, sub, Place::kInner, *out.mutable_node());
  INFER_TRY(inner.Run(captures));
  out.set_name(sub.name().empty() ? "body" : sub.name());
  for (size_t i = 0; i + captures.size() < sub.inputs().size(); ++i)
    FillInterface(*sub.inputs()[i], inner.NameOf(sub.inputs()[i]), *out.add_input());
  for (size_t i = 0; i < sub.outputs().size(); ++i)
    FillInterface(*sub.outputs()[i], inner.output_names()[i], *out.add_output());
  INFER_TRY(inner.RestoreKept(inner.constants(), out));
  for (const PendingTensor& t : inner.constants()) {
    onnx::TensorProto& proto = *out.add_initializer();
    if (!proto.ParseFromString(t.extra)) proto.Clear();  // written by RestoreKeptFields
    proto.set_name(t.name);
    FillTensorProto(t.tensor, proto);
  }
  return {};
}

Status WriteFunction(WriteState& state, const OpDef& def, const AttrMap& attrs,
                     onnx::FunctionProto& out) {
  INFER_ASSIGN(const auto body, BodyOf(def, attrs, state.ops));
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  Writer writer(state, *body, Writer::Place::kFunction, nodes);
  INFER_TRY(writer.Run({}).In(Cat("function ", def.name)));
  out.set_name(FunctionName(def, attrs));
  out.set_domain(std::string(def.domain));
  for (const Value* v : body->inputs()) out.add_input(writer.NameOf(v));
  for (const std::string& name : writer.output_names()) out.add_output(name);
  // The body has the attributes' values in it; they are declared so that a call may state them.
  for (const auto& [name, value] : attrs) out.add_attribute(name);
  for (const PendingTensor& t : writer.constants()) {
    onnx::NodeProto& n = *out.add_node();
    n.set_op_type("Constant");
    n.add_output(t.name);
    FillAttribute("value", AttrValue(t.tensor), *n.add_attribute());
  }
  for (auto& n : nodes) *out.add_node() = std::move(n);
  auto* standard = out.add_opset_import();
  standard->set_domain("");
  standard->set_version(state.options.opset);
  for (const auto& [domain, version] : state.out.opsets) {
    auto* import = out.add_opset_import();
    import->set_domain(domain);
    import->set_version(version);
  }
  return {};
}

Status Writer::AddFunction(const OpDef& def, const AttrMap& attrs, const std::string& name) {
  if (!state_.functions.insert(name).second) return {};
  const Opsets none;  // the same function in every model, so that import recognises it
  WriteState inner{state_.ops, none, state_.options};
  onnx::FunctionProto function;
  INFER_TRY(WriteFunction(inner, def, attrs, function));
  for (Inexpressible& x : inner.out.inexpressible)
    state_.out.inexpressible.push_back(
        {Cat(infer::Describe(*node_), ", ", x.node), std::move(x.why), x.opset});
  for (onnx::FunctionProto& f : inner.out.functions)
    if (state_.functions.insert(f.name()).second) state_.out.functions.push_back(std::move(f));
  state_.out.functions.push_back(std::move(function));
  return {};
}

}  // namespace infer::onnx_io
