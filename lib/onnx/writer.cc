/// Names, and what stands around the nodes.
#include "lib/onnx/writer.h"

#include "lib/onnx/attribute_proto.h"
#include "lib/onnx/kept_fields.h"
#include "lib/ops/notes.h"
#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

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

}  // namespace

void Writer::WriteFlat(const Node& back, const FlatSoftmax& f) {
  NodeSpec spec = SpecOf(*f.softmax);
  spec.inputs = {NameOf(f.x)};
  spec.outputs = {NameOf(back.output(0))};
  spec.attrs = {{"axis", f.axis}};
  Append(spec, f.softmax->extra());
}

Status Writer::Run(const std::vector<std::string>& captures) {
  NameValues(captures);
  constexpr int64_t kSoftmaxOfOneAxis = 13;
  FlatSoftmaxes flat;
  if (state_.options.opset < kSoftmaxOfOneAxis) flat = FindFlatSoftmaxes(graph_);
  for (const auto& n : graph_.nodes()) {
    node_ = n.get();
    if (flat.inner.contains(n.get())) continue;
    if (const auto it = flat.last.find(n.get()); it != flat.last.end()) {
      WriteFlat(*n, it->second);
      continue;
    }
    INFER_TRY(WriteNode(*n).In(infer::Describe(*n)));
  }
  NameOutputs();
  CollectConstants();
  return {};
}

Status Writer::RestoreKept(std::vector<PendingTensor>& tensors, onnx::GraphProto& out) {
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
  return RestoreKeptFields(
      graph_, {out, name_of, initializer, [this](const std::string& name) { return Fresh(name); }});
}

std::string Writer::Constant(Tensor t) {
  std::string name = Fresh("const");
  extra_constants_.push_back({name, std::move(t)});
  return name;
}

std::string Writer::Fresh(std::string_view hint) { return Free(hint, state_.used); }

const Tensor* Writer::ConstantValue(const std::string& name) {
  for (const PendingTensor& t : extra_constants_)
    if (t.name == name) return &t.tensor;
  const Value* v = Find(name);
  return v ? v->constant() : nullptr;
}

const ValueType* Writer::Type(const std::string& name) {
  const Value* v = Find(name);
  return v ? &v->type() : nullptr;
}

const Value* Writer::Find(const std::string& name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : it->second;
}

void Writer::SetName(const Value* v, std::string name) {
  by_name_[name] = v;
  names_[v] = std::move(name);
}

void Writer::NameValues(const std::vector<std::string>& captures) {
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

NodeSpec Writer::SpecOf(const Node& n) const {
  NodeSpec spec{std::string(n.def().domain), std::string(n.op()), n.name(), {}, {}, n.attrs()};
  std::erase_if(spec.attrs, [](const auto& entry) { return IsNote(entry.first); });
  for (size_t i = 0; i < n.inputs().size() - n.num_captures(); ++i)
    spec.inputs.push_back(n.input(i) ? NameOf(n.input(i)) : "");
  for (const Value* v : n.outputs()) spec.outputs.push_back(v ? NameOf(v) : "");
  return spec;
}

onnx::NodeProto* Writer::Append(const NodeSpec& spec, const std::string& extra) {
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
  // A rewrite gives all its nodes the name of the one they replace; readers want names unique.
  if (!spec.name.empty()) proto->set_name(Free(spec.name, node_names_));
  proto->set_op_type(spec.op);
  if (!spec.domain.empty()) proto->set_domain(spec.domain);
  for (const auto& [name, value] : spec.attrs) FillAttribute(name, value, *proto->add_attribute());
  return proto;
}

void Writer::NameOutputs() {
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

void Writer::CollectConstants() {
  for (const auto& v : graph_.values())
    if (v->is_constant() && !elsewhere_.contains(v.get()) &&
        (read_.contains(NameOf(v.get())) || place_ == Place::kMain))
      constants_.push_back({NameOf(v.get()), *v->constant()});
  for (PendingTensor& t : extra_constants_) constants_.push_back(std::move(t));
}

}  // namespace infer::onnx_io
