#include "lib/onnx/graph_writer.h"

#include <algorithm>
#include <set>

#include "lib/ir/body.h"
#include "lib/ir/control_flow.h"
#include "lib/ir/editor.h"
#include "lib/ir/inference.h"
#include "lib/onnx/attribute_proto.h"
#include "lib/onnx/fused_names.h"
#include "lib/onnx/kept_fields.h"
#include "lib/onnx/opset.h"
#include "lib/onnx/ort_names.h"
#include "lib/onnx/shared_constants.h"
#include "lib/onnx/type_since.h"
#include "lib/onnx/value_info.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

/// Names that are taken; of each, the number that the next one like it gets.
using Names = std::unordered_map<std::string, int64_t>;

/// `hint`, or with the lowest free number behind it; takes it.
std::string Free(std::string_view hint, Names& taken) {
  std::string name(hint);
  const auto [it, fresh] = taken.try_emplace(name, 1);
  if (fresh) return name;
  int64_t& next = it->second;  // stays where it is whatever is added
  do {
    name = Cat(hint, "_", next++);
  } while (!taken.try_emplace(name, 1).second);
  return name;
}

/// What all graphs of a file share.
struct WriteState {
  const OpRegistry& ops;
  const Opsets& imported;
  WriteOptions options;
  WrittenModel out = {};
  Names used = {};  // of values, over all graphs
  SharedConstants shared = {};
  std::set<std::string> functions = {};

  void UseDomain(const std::string& domain, int64_t needed) {
    if (domain.empty()) return;
    int64_t& version = out.opsets[domain];
    auto it = imported.find(domain);
    version = std::max({version, needed, it == imported.end() ? 1 : it->second});
  }
};

class Writer : public LiftContext {
 public:
  enum class Place : uint8_t { kMain, kInner, kFunction };

  /// `nodes` is where nodes go: a graph's or a function's.
  Writer(WriteState& state, const Graph& g, Place place,
         google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes)
      : state_(state), graph_(g), place_(place), nodes_(nodes) {}

  /// `captures`: the outer names of the last inputs.
  Status Run(const std::vector<std::string>& captures) {
    NameValues(captures);
    for (const auto& n : graph_.nodes()) {
      node_ = n.get();
      INFER_TRY(WriteNode(*n).In(infer::Describe(*n)));
    }
    NameOutputs();
    CollectConstants();
    return {};
  }

  const std::string& NameOf(const Value* v) const { return names_.at(v); }
  /// Puts what import kept unread into `out`, which this wrote; `tensors` are its initializers.
  Status RestoreKept(std::vector<PendingTensor>& tensors, onnx::GraphProto& out) {
    if (graph_.extra().empty()) return {};
    const auto name_of = [this](const Value& v) -> const std::string* {
      return elsewhere_.contains(&v) || (v.is_constant() && !read_.contains(NameOf(&v)))
                 ? nullptr
                 : &NameOf(&v);
    };
    std::unordered_map<std::string_view, PendingTensor*> by_name;
    for (PendingTensor& t : tensors) by_name[t.name] = &t;
    const auto initializer = [&](const std::string& name) -> PendingTensor* {
      const auto it = by_name.find(name);
      return it == by_name.end() ? nullptr : it->second;
    };
    return RestoreKeptFields(graph_, {out, name_of, initializer,
                                      [this](const std::string& name) { return Fresh(name); }});
  }
  const std::vector<std::string>& output_names() const { return output_names_; }
  /// Constants that something reads, in the order of the graph.
  std::vector<PendingTensor>& constants() { return constants_; }

  // LiftContext.
  void Emit(NodeSpec node) override { Append(node, ""); }
  std::string Constant(Tensor t) override {
    std::string name = Fresh("const");
    extra_constants_.push_back({name, std::move(t)});
    return name;
  }
  std::string Fresh(std::string_view hint) override { return Free(hint, state_.used); }
  const Tensor* ConstantValue(const std::string& name) override {
    for (const PendingTensor& t : extra_constants_)
      if (t.name == name) return &t.tensor;
    const Value* v = Find(name);
    return v ? v->constant() : nullptr;
  }
  const ValueType* Type(const std::string& name) override {
    const Value* v = Find(name);
    return v ? &v->type() : nullptr;
  }

 private:
  const Value* Find(const std::string& name) const {
    auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }

  void SetName(const Value* v, std::string name) {
    by_name_[name] = v;
    names_[v] = std::move(name);
  }

  void NameValues(const std::vector<std::string>& captures) {
    const size_t own = graph_.inputs().size() - captures.size();
    for (size_t i = 0; i < captures.size(); ++i) {
      SetName(graph_.inputs()[own + i], captures[i]);
      elsewhere_.insert(graph_.inputs()[own + i]);
    }
    for (const auto& v : graph_.values()) {
      if (names_.contains(v.get())) continue;
      const Tensor* constant = v->constant();
      // Not what an inner graph returns: it must be its own.
      const bool shareable = constant && place_ != Place::kFunction &&
                             constant->byte_size() >= kSharedBytes &&
                             !(place_ == Place::kInner && v->is_output());
      if (shareable && place_ == Place::kInner) {
        if (!state_.shared.Find(*constant)) {
          state_.out.initializers.push_back({Fresh(v->name()), *constant});
          state_.shared.Add(*constant, state_.out.initializers.back().name);
        }
        SetName(v.get(), *state_.shared.Find(*constant));
        elsewhere_.insert(v.get());
        continue;
      }
      SetName(v.get(), Fresh(Cat(prefix_, v->name())));
      if (shareable) state_.shared.Add(*constant, names_.at(v.get()));
    }
  }

  NodeSpec SpecOf(const Node& n) const {
    NodeSpec spec{std::string(n.def().domain), std::string(n.op()), n.name(), {}, {}, n.attrs()};
    for (size_t i = 0; i < n.inputs().size() - n.num_captures(); ++i)
      spec.inputs.push_back(n.input(i) ? NameOf(n.input(i)) : "");
    for (const Value* v : n.outputs()) spec.outputs.push_back(v ? NameOf(v) : "");
    return spec;
  }

  Status WriteNode(const Node& n) {
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
        state_.options.target == ExportTarget::kOrt)
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
      const bool has_older_form = def.lower && def.versions.front() <= state_.options.opset;
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

  /// Another form for ONNX Runtime, where the file is for it and that is better, or where it takes
  /// no other.
  std::optional<NodeSpec> OrtFormOf(const Node& n, const NodeSpec& spec) {
    const bool lacks = n.def().domain.empty() && OpsetOf(n.def(), spec) > state_.options.opset;
    if (state_.options.target == ExportTarget::kOnnx && !lacks) {
      auto form = WithMaskRows(CallOf(n), spec, *this);
      if (form) form->attrs = AttrsAt(n.def(), n.attrs(), state_.options.opset);
      return form;
    }
    if (state_.options.target != ExportTarget::kOrt) return std::nullopt;
    return OrtForm(CallOf(n), spec, {state_.options.opset, state_.options.decompose, lacks}, *this);
  }

  /// The lowest opset above ours that can say `spec`, which is in the form of `newest`.
  int64_t LowestOf(const OpDef& def, const NodeSpec& spec, int64_t newest) {
    int64_t opset = std::max<int64_t>(state_.options.opset + 1, def.versions.front());
    const auto lowers = [&] {
      return def.lower && def.lower(spec, static_cast<int>(opset), *this).ok();
    };
    while (opset < newest && !lowers()) ++opset;
    return newest < opset ? newest : opset;
  }

  /// The nodes that define `n`; their own older forms are looked for as for any other node.
  Status WriteDecomposed(const Node& n, int64_t needed) {
    const auto body = DecompositionOf(CallOf(n), state_.ops);
    if (body.status().code() == Code::kUnsupported) {
      Refuse(n, body.status().message(), needed);
      return {};
    }
    INFER_TRY(body.status());
    INFER_TRY(WriteInPlace(n, *body));
    state_.out.decomposed.emplace_back(n.op());
    return {};
  }

  /// One of our own operators as its nodes. ONNX Runtime would inline its function, too; written
  /// like this, the nodes inside have their types and may take another form.
  Status WriteBody(const Node& n) {
    INFER_ASSIGN(const auto shared, BodyOf(n.def(), n.attrs(), state_.ops));
    Graph body = shared->Clone();
    GraphEditor editor(body);
    for (size_t i = 0; i < body.inputs().size(); ++i) {
      if (!n.input(i)) return Internal(Cat("operand ", i, " of a body is omitted"));
      editor.SetType(body.inputs()[i], n.input(i)->type());
    }
    INFER_TRY(InferTypes(body));
    return WriteInPlace(n, body);
  }

  /// `body`, with the operands of `n` that are there as inputs, in place of `n`.
  Status WriteInPlace(const Node& n, const Graph& body) {
    std::vector<std::string> operands;
    for (const Value* v : n.inputs())
      if (v) operands.push_back(NameOf(v));
    read_.insert(operands.begin(), operands.end());
    Writer inner(state_, body, Place::kInner, nodes_);
    for (size_t i = 0; i < n.outputs().size() && i < body.outputs().size(); ++i)
      if (n.output(i)) {
        inner.SetName(body.outputs()[i], NameOf(n.output(i)));
        if (inner.prefix_.empty()) inner.prefix_ = NameOf(n.output(i)) + "_";
      }
    const size_t refused = state_.out.inexpressible.size();
    INFER_TRY(inner.Run(operands));
    for (size_t i = refused; i < state_.out.inexpressible.size(); ++i) {
      Inexpressible& x = state_.out.inexpressible[i];
      x.node = Cat(infer::Describe(n), ", ", x.node);
    }
    std::move(inner.constants_.begin(), inner.constants_.end(),
              std::back_inserter(extra_constants_));
    return {};
  }

  void Refuse(const Node& n, std::string why, int64_t needed) {
    state_.out.inexpressible.push_back({infer::Describe(n), std::move(why), needed});
  }

  void NeedTypes(const Value& v) {
    const int64_t needed = OpsetOf(v.type());
    if (needed > state_.options.opset && (v.producer() == nullptr || v.producer() == node_))
      state_.out.inexpressible.push_back(
          {Cat("value '", v.name(), "'"), Cat("is ", ToString(v.type())), needed});
  }

  void NeedOperandTypes(const Node& n) {
    const int64_t needed = TypesOpsetOf(n);
    if (needed > state_.options.opset)
      Refuse(n, Cat("takes operands of these types since opset ", needed), needed);
  }

  Status WriteSubgraph(const Node& n, const Graph& sub, onnx::GraphProto& out);

  Status AddFunction(const OpDef& def, const AttrMap& attrs, const std::string& name);

  onnx::NodeProto* Append(const NodeSpec& spec, const std::string& extra) {
    onnx::NodeProto* proto = nodes_.Add();
    // Written by our own importer, or by a caller who then gets a node without extras.
    if (!extra.empty() && !proto->ParseFromString(extra)) proto->Clear();
    size_t inputs = spec.inputs.size();
    while (inputs > 0 && spec.inputs[inputs - 1].empty()) --inputs;
    for (size_t i = 0; i < inputs; ++i) {
      proto->add_input(spec.inputs[i]);
      read_.insert(spec.inputs[i]);
    }
    for (const std::string& name : spec.outputs) proto->add_output(name);
    if (!spec.name.empty()) proto->set_name(FreshNodeName(spec.name));
    proto->set_op_type(spec.op);
    if (!spec.domain.empty()) proto->set_domain(spec.domain);
    for (const auto& [name, value] : spec.attrs)
      FillAttribute(name, value, *proto->add_attribute());
    return proto;
  }

  /// A rewrite gives all its nodes the name of the one they replace; readers want names unique.
  std::string FreshNodeName(const std::string& hint) { return Free(hint, node_names_); }

  /// A subgraph or function makes its outputs itself, each of its own name; so an Identity stands
  /// for a captured value or a second mention.
  void NameOutputs() {
    std::unordered_set<std::string> seen;
    for (const Value* v : graph_.outputs()) {
      const bool own = !elsewhere_.contains(v) && !(place_ == Place::kFunction && v->is_input());
      std::string name = NameOf(v);
      // The main graph may return a value twice, under its one name.
      if (!own || (!seen.insert(name).second && place_ != Place::kMain)) {
        const std::string copy = Fresh(Cat(v->name(), "_out"));
        Append({"", "Identity", "", {name}, {copy}, {}}, "");
        name = copy;
        seen.insert(copy);
      }
      output_names_.push_back(name);
      read_.insert(name);
    }
  }

  void CollectConstants() {
    for (const auto& v : graph_.values())
      if (v->is_constant() && !elsewhere_.contains(v.get()) &&
          (read_.contains(NameOf(v.get())) || place_ == Place::kMain))
        constants_.push_back({NameOf(v.get()), *v->constant()});
    for (PendingTensor& t : extra_constants_) constants_.push_back(std::move(t));
  }

  WriteState& state_;
  const Graph& graph_;
  Place place_;
  std::string prefix_;  // of the names of inner values
  google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes_;
  std::unordered_map<const Value*, std::string> names_;
  std::unordered_map<std::string, const Value*> by_name_;
  std::unordered_set<const Value*> elsewhere_;  // captured, or constants of the main graph
  std::unordered_set<std::string> read_;
  Names node_names_;
  std::vector<std::string> output_names_;
  std::vector<PendingTensor> constants_, extra_constants_;
  const Node* node_ = nullptr;
};

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
  WriteState inner{state_.ops, state_.imported, state_.options};
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

}  // namespace

Result<WrittenModel> WriteGraph(const Graph& g, const Opsets& imported,
                                const WriteOptions& options) {
  WriteState state{g.ops(), imported, options};
  onnx::GraphProto& out = state.out.graph;
  Writer writer(state, g, Writer::Place::kMain, *out.mutable_node());
  INFER_TRY(writer.Run({}));
  out.set_name(g.name().empty() ? "graph" : g.name());
  for (const Value* v : g.inputs()) FillInterface(*v, writer.NameOf(v), *out.add_input());
  for (size_t i = 0; i < g.outputs().size(); ++i)
    FillInterface(*g.outputs()[i], writer.output_names()[i], *out.add_output());
  FillValueInfo(g, {g.outputs().begin(), g.outputs().end()}, out);
  std::vector<PendingTensor> initializers = std::move(writer.constants());
  std::move(state.out.initializers.begin(), state.out.initializers.end(),
            std::back_inserter(initializers));
  // What a lower form took over as an attribute is read no more.
  std::unordered_set<std::string> read;
  const std::function<void(const onnx::GraphProto&)> collect = [&](const onnx::GraphProto& graph) {
    for (const auto& x : graph.output()) read.insert(x.name());
    for (const auto& n : graph.node()) {
      read.insert(n.input().begin(), n.input().end());
      for (const auto& a : n.attribute())
        if (a.has_g()) collect(a.g());
    }
  };
  collect(out);
  std::erase_if(initializers, [&](const PendingTensor& t) { return !read.contains(t.name); });
  INFER_TRY(writer.RestoreKept(initializers, out));
  state.out.initializers = std::move(initializers);
  state.out.opsets[""] = options.opset;
  return std::move(state.out);
}

Result<onnx::FunctionProto> FunctionOf(const OpDef& def, const AttrMap& attrs,
                                       const OpRegistry& ops, int64_t opset) {
  const Opsets none;
  WriteState state{ops, none, {opset}};
  onnx::FunctionProto out;
  INFER_TRY(WriteFunction(state, def, attrs, out));
  return out;
}

}  // namespace infer::onnx_io
