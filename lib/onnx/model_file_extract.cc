/// A part of a model, cut out between values.
#include <algorithm>
#include <set>

#include "lib/onnx/functions.h"
#include "lib/onnx/model_file_state.h"
#include "lib/onnx/type_proto.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace onnx_io;  // NOLINT: as import.cc

/// What leads from some values to others.
class Cut {
 public:
  explicit Cut(const ModelFile::State& state) : state_(state) {
    // Of two Constant nodes of one name runtimes take the last, as import does.
    for (int i = 0; i < state.graph().node_size(); ++i)
      for (const std::string& name : state.graph().node(i).output())
        if (!name.empty()) producer_[name] = i;
    for (const PendingTensor& t : state.parts.written.initializers) constant_.insert(t.name);
    for (const auto& t : state.graph().sparse_initializer()) constant_.insert(t.values().name());
  }

  /// Walks up from `to` as far as `from`.
  void Walk(const std::vector<std::string>& from, const std::vector<std::string>& to) {
    const std::unordered_set<std::string> ends(from.begin(), from.end());
    std::vector<std::pair<std::string, std::string>> open;  // value, reader
    for (const std::string& name : to) open.emplace_back(name, "the new outputs");
    while (!open.empty()) {
      const auto [name, reader] = std::move(open.back());
      open.pop_back();
      if (!needed_.insert(name).second || ends.contains(name) || constant_.contains(name)) continue;
      const auto it = producer_.find(name);
      if (it == producer_.end()) {
        inputs_.emplace_back(name, reader);
        continue;
      }
      if (!nodes_.insert(it->second).second) continue;
      const onnx::NodeProto& node = state_.graph().node(it->second);
      for (std::string& read : ReadsOf(node))
        open.emplace_back(std::move(read), DescribeNode(node));
    }
  }

  bool IsNeeded(const std::string& name) const { return needed_.contains(name); }
  const std::set<int>& nodes() const { return nodes_; }
  /// Values without a producer that were reached, each with a reader.
  const std::vector<std::pair<std::string, std::string>>& inputs() const { return inputs_; }

 private:
  const ModelFile::State& state_;
  std::unordered_map<std::string, int> producer_;
  std::unordered_set<std::string> constant_, needed_;
  std::set<int> nodes_;
  std::vector<std::pair<std::string, std::string>> inputs_;
};

/// Repeated names once, in their order.
std::vector<std::string> Distinct(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (const std::string& name : names)
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  return out;
}

Status CheckCutNames(const ModelFile& file, const onnx::GraphProto& g,
                     const std::vector<std::string>& from, const std::vector<std::string>& to) {
  const std::vector<std::string> known = file.ValueNames();
  const std::unordered_set<std::string> values(known.begin(), known.end());
  std::unordered_set<std::string> all;
  CollectNames(g, all);
  for (const auto* list : {&from, &to})
    for (const std::string& name : *list) {
      if (values.contains(name)) continue;
      if (all.contains(name))
        return InvalidArgument(Cat("value '", name,
                                   "' stands in the body of a node: a part begins and ends at "
                                   "values of the main graph"));
      return NoSuch("value", name, known);
    }
  for (const std::string& name : to)
    if (std::find(from.begin(), from.end(), name) != from.end())
      return InvalidArgument(Cat("'", name, "' is where the part begins and where it ends"));
  return {};
}

Status TellMissing(const Cut& cut, const std::vector<std::string>& from) {
  std::vector<std::string> names = from, lines;
  for (const auto& [name, reader] : cut.inputs()) {
    names.push_back(name);
    lines.push_back(Cat("\n  '", name, "', read by ", reader));
  }
  return InvalidArgument(Cat("the part needs ", lines.size(),
                             lines.size() == 1 ? " more input:" : " more inputs:", Join(lines, ""),
                             "\n  with --from ", Join(names, ","), " it is complete"));
}

/// The declaration of a new input or output.
onnx::ValueInfoProto InfoOf(const ModelFile::State& state, const std::string& name,
                            const std::map<std::string, ValueType>& types, Extracted& done) {
  onnx::ValueInfoProto info;
  if (const onnx::ValueInfoProto* known = state.FindInfo(name)) info = *known;
  info.set_name(name);
  const bool has_rank = !info.type().has_tensor_type() || info.type().tensor_type().has_shape();
  if (info.has_type() && has_rank) return info;
  const auto it = types.find(name);
  onnx::TypeProto type;
  if (it != types.end() && ToTypeProto(it->second, type))
    *info.mutable_type() = std::move(type);
  else if (!info.has_type())
    done.untyped.push_back(name);
  return info;
}

/// The functions that are still called.
void KeepCalled(onnx::ModelProto& header, const onnx::GraphProto& graph) {
  const auto called = CalledFunctions(header, graph);
  google::protobuf::RepeatedPtrField<onnx::FunctionProto> kept;
  for (auto& f : *header.mutable_functions())
    if (called.contains({CanonicalDomain(f.domain()), f.name()})) *kept.Add() = std::move(f);
  header.mutable_functions()->Swap(&kept);
}

/// Of a list of messages those that `keep` says.
template <typename List, typename Keep>
void Filter(List& list, const Keep& keep) {
  List kept;
  for (auto& x : list)
    if (keep(x)) *kept.Add() = std::move(x);
  list.Swap(&kept);
}

/// Annotations and the parameters that they name, which no node need read.
std::unordered_set<std::string> KeepAnnotations(onnx::GraphProto& g, const Cut& cut) {
  Filter(*g.mutable_quantization_annotation(),
         [&](const auto& a) { return cut.IsNeeded(a.tensor_name()); });
  std::unordered_set<std::string> parameters;
  for (const auto& a : g.quantization_annotation())
    for (const auto& p : a.quant_parameter_tensor_names()) parameters.insert(p.value());
  return parameters;
}

}  // namespace

Result<Extracted> ModelFile::Extract(const std::vector<std::string>& wanted_from,
                                     const std::vector<std::string>& wanted_to,
                                     const std::map<std::string, ValueType>& types) {
  onnx::GraphProto& g = state_->graph();
  std::vector<std::string> from = Distinct(wanted_from);
  const std::vector<std::string> to = wanted_to.empty() ? OutputNames() : Distinct(wanted_to);
  INFER_TRY(CheckCutNames(*this, g, from, to));
  Cut cut(*state_);
  cut.Walk(from, to);
  if (!from.empty() && !cut.inputs().empty()) return TellMissing(cut, from);
  Extracted done;
  done.nodes_before = g.node_size();
  if (from.empty())
    for (const std::string& name : InputNames())
      if (cut.IsNeeded(name)) from.push_back(name);
  for (const std::string& name : from)
    if (!cut.IsNeeded(name)) done.unread.push_back(name);

  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> inputs, outputs;
  for (const std::string& name : from) *inputs.Add() = InfoOf(*state_, name, types, done);
  for (const std::string& name : to) *outputs.Add() = InfoOf(*state_, name, types, done);
  const std::unordered_set<std::string> ends(from.begin(), from.end());
  const auto parameters = KeepAnnotations(g, cut);
  const auto stays = [&](const std::string& name) {
    return !ends.contains(name) && (cut.IsNeeded(name) || parameters.contains(name));
  };
  // Before version 4 an initializer is an input, too.
  constexpr int64_t kInitializersAlone = 4;
  if (ir_version() < kInitializersAlone)
    for (const auto& x : g.input())
      if (stays(x.name()) && state_->IsInitializer(x.name())) *inputs.Add() = x;
  std::erase_if(state_->parts.written.initializers,
                [&](const PendingTensor& t) { return !stays(t.name); });
  Filter(*g.mutable_sparse_initializer(), [&](const auto& t) { return stays(t.values().name()); });
  const std::unordered_set<std::string> declared(to.begin(), to.end());
  Filter(*g.mutable_value_info(),
         [&](const auto& x) { return stays(x.name()) && !declared.contains(x.name()); });
  google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
  for (const int i : cut.nodes()) *nodes.Add() = std::move(*g.mutable_node(i));
  g.mutable_node()->Swap(&nodes);
  g.mutable_input()->Swap(&inputs);
  g.mutable_output()->Swap(&outputs);
  state_->parts.header.clear_training_info();
  KeepCalled(state_->parts.header, g);
  done.nodes = g.node_size();
  return done;
}

}  // namespace infer
