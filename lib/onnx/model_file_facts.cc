/// What a file carries about for nothing, and forms that some readers refuse.
#include "lib/onnx/functions.h"
#include "lib/onnx/model_file_state.h"
#include "lib/support/strings.h"

namespace infer {
namespace {

using namespace onnx_io;  // NOLINT: as import.cc

/// Every name that something reads: nodes, bodies, outputs and annotations.
std::unordered_set<std::string> ReadNames(const onnx::GraphProto& g) {
  std::unordered_set<std::string> read;
  for (const auto& n : g.node())
    for (std::string& name : ReadsOf(n)) read.insert(std::move(name));
  for (const auto& x : g.output()) read.insert(x.name());
  for (const auto& a : g.quantization_annotation())
    for (const auto& p : a.quant_parameter_tensor_names()) read.insert(p.value());
  return read;
}

void AddNodeFacts(const onnx::GraphProto& g, FileFacts& facts) {
  std::unordered_map<std::string, int> names;
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < g.node_size(); ++i) {
    const onnx::NodeProto& n = g.node(i);
    if (n.name().empty())
      ++facts.unnamed_nodes;
    else if (++names[n.name()] == 2)
      facts.repeated_node_names.push_back(n.name());
    for (const std::string& name : n.output())
      if (!name.empty()) producer.emplace(name, i);
  }
  for (int i = 0; i < g.node_size(); ++i)
    for (const std::string& name : ReadsOf(g.node(i))) {
      const auto it = producer.find(name);
      if (it == producer.end() || it->second < i) continue;
      facts.early_nodes.push_back(DescribeNode(g.node(i)));
      break;
    }
}

}  // namespace

FileFacts ModelFile::Facts() const {
  FileFacts facts;
  const onnx::GraphProto& g = state_->graph();
  const onnx::ModelProto& header = state_->parts.header;
  const auto read = ReadNames(g);
  for (const PendingTensor& t : state_->parts.written.initializers)
    if (!read.contains(t.name)) facts.unread_initializers.push_back({t.name, t.tensor.byte_size()});
  for (const std::string& name : InputNames())
    if (!read.contains(name)) facts.unread_inputs.push_back(name);
  constexpr int64_t kInitializersAlone = 4;
  if (ir_version() >= kInitializersAlone)
    for (const auto& x : g.input())
      if (state_->IsInitializer(x.name())) facts.input_initializers.push_back(x.name());
  AddNodeFacts(g, facts);
  const auto called = CalledFunctions(header, g);
  for (const auto& f : header.functions())
    if (!called.contains({CanonicalDomain(f.domain()), f.name()}))
      facts.uncalled_functions.push_back(Cat(f.domain(), "::", f.name()));
  return facts;
}

}  // namespace infer
