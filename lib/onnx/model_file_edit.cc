/// Names, shapes and what stands around the graph of a ModelFile.
#include <algorithm>

#include "lib/onnx/functions.h"
#include "lib/onnx/model_file_state.h"
#include "lib/onnx/type_proto.h"
#include "lib/support/similar.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace onnx_io;  // NOLINT: as import.cc

/// InvalidArgument where a new name is empty, given twice, or that of something that keeps it.
Status CheckNewNames(const std::map<std::string, std::string>& names,
                     const std::unordered_set<std::string>& taken) {
  std::unordered_set<std::string> fresh;
  for (const auto& [old_name, new_name] : names) {
    if (new_name.empty()) return InvalidArgument(Cat("'", old_name, "': the new name is empty"));
    if (!fresh.insert(new_name).second)
      return InvalidArgument(Cat("two things would be called '", new_name, "'"));
    if (taken.contains(new_name) && !names.contains(new_name))
      return InvalidArgument(Cat("'", old_name, "': the name '", new_name, "' is taken"));
  }
  return {};
}

/// Extents that stand for "any" when a file is read again.
bool IsAnyExtent(const std::string& text) { return text == "?"; }

/// The number of axes stays.
void DropExtents(onnx::ValueInfoProto& x) {
  if (!x.type().has_tensor_type() || !x.type().tensor_type().has_shape()) return;
  for (auto& dim : *x.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    dim.clear_dim_value();
    dim.clear_dim_param();
  }
}

/// What was inferred from the old shapes of inputs.
void DropInferred(ModelFile::State& state) {
  onnx::GraphProto& g = state.graph();
  for (auto& x : *g.mutable_output()) {
    state.dropped.insert(x.name());
    DropExtents(x);
  }
  for (auto& x : *g.mutable_value_info()) {
    state.dropped.insert(x.name());
    DropExtents(x);
  }
}

Status SetExtent(const std::string& text, onnx::TensorShapeProto::Dimension& dim) {
  dim.clear_dim_value();
  dim.clear_dim_param();
  if (IsAnyExtent(text)) return {};
  const auto number = ParseInt(text);
  if (number && *number < 0) return InvalidArgument(Cat("'", text, "' is no extent"));
  // A number that is none of our extents (too large, a fraction) is no name either.
  const bool is_name = text.find_first_of(" ,=") == std::string::npos &&
                       text.find_first_not_of("+-.0123456789") != std::string::npos;
  if (!number && !is_name) return InvalidArgument(Cat("'", text, "' is no extent"));
  if (number)
    dim.set_dim_value(*number);
  else
    dim.set_dim_param(text);
  return {};
}

}  // namespace

Status ModelFile::RenameValues(const std::map<std::string, std::string>& names) {
  if (names.empty()) return {};
  const std::vector<std::string> known = ValueNames();
  std::unordered_set<std::string> taken(known.begin(), known.end());
  for (const auto& [old_name, new_name] : names)
    if (!taken.contains(old_name)) return NoSuch("value", old_name, known);
  CollectNames(state_->graph(), taken);
  INFER_TRY(CheckNewNames(names, taken));
  const auto rename = [&](std::string& name) {
    if (const auto it = names.find(name); it != names.end()) name = it->second;
  };
  ForEachMention(state_->graph(), rename);
  for (PendingTensor& t : state_->parts.written.initializers) rename(t.name);
  for (auto& info : *state_->parts.header.mutable_training_info()) {
    for (auto* list : {info.mutable_initialization_binding(), info.mutable_update_binding()})
      for (auto& e : *list) {
        rename(*e.mutable_key());
        rename(*e.mutable_value());
      }
  }
  return {};
}

Status ModelFile::RenameNodes(const std::map<std::string, std::string>& names) {
  const std::vector<std::string> known = NodeNames();
  std::unordered_set<std::string> taken;
  for (const auto& n : state_->graph().node())
    if (!n.name().empty()) taken.insert(n.name());
  for (const auto& [old_name, new_name] : names) {
    const auto count = std::count(known.begin(), known.end(), old_name);
    if (count == 0) return NoSuch("node", old_name, known);
    if (count > 1) return InvalidArgument(Cat(count, " nodes are called '", old_name, "'"));
  }
  INFER_TRY(CheckNewNames(names, taken));
  for (int i = 0; i < state_->graph().node_size(); ++i) {
    const auto it = names.find(known[static_cast<size_t>(i)]);
    if (it != names.end()) state_->graph().mutable_node(i)->set_name(it->second);
  }
  return {};
}

Status ModelFile::SetInputShape(const std::string& input, const std::vector<std::string>& dims) {
  for (auto& x : *state_->graph().mutable_input()) {
    if (x.name() != input || state_->IsInitializer(input)) continue;
    if (!x.type().has_tensor_type())
      return InvalidArgument(Cat("input '", input, "' is no tensor, so it has no shape"));
    auto& tensor = *x.mutable_type()->mutable_tensor_type();
    if (tensor.has_shape() && tensor.shape().dim_size() != static_cast<int>(dims.size()))
      return InvalidArgument(Cat("input '", input, "' has ", tensor.shape().dim_size(), " axes, ",
                                 dims.size(), " extents are given"));
    auto& shape = *tensor.mutable_shape();
    while (shape.dim_size() < static_cast<int>(dims.size())) shape.add_dim();
    for (size_t i = 0; i < dims.size(); ++i)
      INFER_TRY(SetExtent(dims[i], *shape.mutable_dim(static_cast<int>(i)))
                    .In(Cat("input '", input, "'")));
    DropInferred(*state_);
    return {};
  }
  return NoSuch("input", input, InputNames());
}

Status ModelFile::SetSymbol(const std::string& symbol, int64_t extent) {
  std::vector<std::string> symbols;
  bool found = false;
  for (auto& x : *state_->graph().mutable_input()) {
    if (!x.type().has_tensor_type() || !x.type().tensor_type().has_shape()) continue;
    for (auto& dim : *x.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      if (dim.dim_param().empty()) continue;
      symbols.push_back(dim.dim_param());
      if (dim.dim_param() != symbol) continue;
      dim.set_dim_value(extent);
      found = true;
    }
  }
  if (!found) return NoSuch("open dimension", symbol, symbols);
  DropInferred(*state_);
  return {};
}

void ModelFile::SetTypes(const std::map<std::string, ValueType>& types) {
  onnx::GraphProto& g = state_->graph();
  for (auto* list : {g.mutable_output(), g.mutable_value_info()})
    for (auto& x : *list) {
      if (!state_->dropped.contains(x.name())) continue;
      const auto it = types.find(x.name());
      onnx::TypeProto type;
      if (it != types.end() && ToTypeProto(it->second, type)) *x.mutable_type() = std::move(type);
    }
}

bool ModelFile::SetMetadata(const std::string& key, const std::string& value) {
  auto& entries = *state_->parts.header.mutable_metadata_props();
  for (int i = 0; i < entries.size(); ++i) {
    if (entries[i].key() != key) continue;
    if (value.empty())
      entries.DeleteSubrange(i, 1);
    else
      entries[i].set_value(value);
    return true;
  }
  if (value.empty()) return false;
  auto& entry = *entries.Add();
  entry.set_key(key);
  entry.set_value(value);
  return true;
}

Status ModelFile::SetIrVersion(int64_t version) {
  constexpr int64_t kFirst = 3, kNewest = 14, kInitializersAlone = 4, kFunctions = 8;
  if (version < kFirst || version > kNewest)
    return InvalidArgument(Cat("IR version ", version, ": there are ", kFirst, " to ", kNewest));
  if (version < kFunctions && state_->parts.header.functions_size() > 0)
    return InvalidArgument(Cat("IR version ", version,
                               ": the file has model-local functions, which ", "came with version ",
                               kFunctions));
  if (version < kInitializersAlone)
    for (const PendingTensor& t : state_->parts.written.initializers) {
      const auto& inputs = state_->graph().input();
      if (std::none_of(inputs.begin(), inputs.end(),
                       [&](const auto& x) { return x.name() == t.name; }))
        return InvalidArgument(Cat("IR version ", version, ": initializer '", t.name,
                                   "' is no input, as every one was before version ",
                                   kInitializersAlone));
    }
  state_->parts.header.set_ir_version(version);
  return {};
}

}  // namespace infer
