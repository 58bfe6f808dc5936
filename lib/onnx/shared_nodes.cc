#include "lib/onnx/shared_nodes.h"

#include <algorithm>
#include <unordered_set>

#include "lib/support/strings.h"

namespace infer::onnx_io {
namespace {

/// Constants of bodies are small; a large one is written once and has one name.
constexpr int64_t kMostBytes = 1024;

bool HasSubgraph(const onnx::NodeProto& n) {
  return std::any_of(n.attribute().begin(), n.attribute().end(),
                     [](const auto& a) { return a.has_g() || a.graphs_size() > 0; });
}

std::string ContentOf(const Tensor& t) {
  std::string out = Cat("constant ", Name(t.dtype()), ' ', Shape(t.dims()).ToString(), ' ');
  const auto bytes = t.bytes();
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return out;
}

}  // namespace

void SharedNodes::Share(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, int first,
                        const std::vector<std::string>& results,
                        std::vector<PendingTensor>& constants) {
  if (std::any_of(nodes.begin() + first, nodes.end(), HasSubgraph)) return;
  const std::unordered_set<std::string> kept(results.begin(), results.end());
  std::unordered_map<std::string, std::string> content, renamed;
  for (const PendingTensor& t : constants)
    if (t.extra.empty() && t.tensor.byte_size() <= kMostBytes && t.tensor.dtype() != DType::kString)
      content[t.name] = ContentOf(t.tensor);
  std::unordered_set<std::string> read;
  int end = first;
  for (int i = first; i < nodes.size(); ++i) {
    onnx::NodeProto& n = nodes[i];
    for (std::string& name : *n.mutable_input())
      if (const auto it = renamed.find(name); it != renamed.end()) name = it->second;
    onnx::NodeProto what = n;
    what.clear_name();
    what.clear_output();
    for (std::string& name : *what.mutable_input()) {
      const auto it = content.find(name);
      name = it == content.end() ? Cat("value ", name) : it->second;
    }
    const std::vector<std::string> outputs(n.output().begin(), n.output().end());
    const OpDef* def = ops_.Find(n.domain(), n.op_type());
    const bool returned = std::any_of(outputs.begin(), outputs.end(),
                                      [&](const auto& o) { return kept.contains(o); });
    if (def && def->deterministic && !returned) {
      const auto [at, is_new] = made_.try_emplace(what.SerializeAsString(), outputs);
      if (!is_new && at->second.size() == outputs.size()) {
        for (size_t o = 0; o < outputs.size(); ++o) renamed[outputs[o]] = at->second[o];
        continue;
      }
    }
    read.insert(n.input().begin(), n.input().end());
    if (end != i) nodes.SwapElements(end, i);
    ++end;
  }
  if (end == nodes.size()) return;
  nodes.DeleteSubrange(end, nodes.size() - end);
  std::erase_if(constants, [&](const PendingTensor& t) { return !read.contains(t.name); });
}

}  // namespace infer::onnx_io
