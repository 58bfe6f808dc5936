#include "tests/differential/model_case.h"

#include "lib/ir/eval.h"
#include "lib/onnx/export.h"
#include "lib/onnx/import.h"
#include "lib/onnx/tensor_proto.h"
#include "lib/support/hash.h"
#include "tests/differential/random_values.h"

namespace infer {
namespace {

constexpr int64_t kMostFlops = 20'000'000, kMostBytes = 32 << 20;

using Values = std::map<std::string, Datum>;

/// Takes the initializers of graph inputs away. Those that are broken are left out.
Values TakeValues(onnx::ModelProto& model, const OpRegistry& ops) {
  Values values;
  onnx::GraphProto& graph = *model.mutable_graph();
  for (const auto& input : graph.input())
    for (int i = graph.initializer_size(); i-- > 0;) {
      if (graph.initializer(i).name() != input.name()) continue;
      // The reader of tensors is import's: a model of one constant.
      onnx::ModelProto one;
      one.set_ir_version(8);
      one.add_opset_import()->set_version(20);
      one.mutable_graph()->add_output()->set_name(input.name());
      *one.mutable_graph()->add_initializer() = graph.initializer(i);
      const auto read = ImportModelBytes(one.SerializeAsString(), ops);
      if (read.ok() && read->graph.outputs()[0]->is_constant())
        values[input.name()] = *read->graph.outputs()[0]->constant();
      graph.mutable_initializer()->DeleteSubrange(i, 1);
    }
  return values;
}

/// Whether runs are quick and small as far as shapes tell.
bool IsQuick(const Graph& g) {
  int64_t flops = 0, bytes = 0;
  for (const auto& n : g.nodes()) {
    const Cost c = CostOf(CallOf(*n));
    if (c.flops > kMostFlops || c.bytes_written > kMostBytes || c.bytes_read > kMostBytes)
      return false;
    flops += c.flops;
    bytes += c.bytes_written;
  }
  return flops <= kMostFlops && bytes <= kMostBytes;
}

}  // namespace

Result<onnx::ModelProto> CaseOf(const Graph& g, std::span<const Datum> inputs) {
  INFER_ASSIGN(const std::string bytes, ExportModelBytes(Model(g.Clone())));
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) return Internal("our own export does not parse");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].is_tensor()) continue;
    onnx::TensorProto& t = *model.mutable_graph()->add_initializer();
    onnx_io::FillTensorProto(inputs[i].tensor(), t);
    t.set_name(g.inputs()[i]->name());
  }
  return model;
}

Verdict JudgeCase(onnx::ModelProto model, const OpRegistry& ops) {
  const Values values = TakeValues(model, ops);
  const std::string bytes = model.SerializeAsString();
  ImportOptions options;
  options.limits.max_nodes = 10'000;
  const auto imported = ImportModelBytes(bytes, ops, options);
  if (!imported.ok()) return {Verdict::kRefused, imported.status().message()};
  const Graph& g = imported->graph;
  if (!IsQuick(g)) return {Verdict::kExhausted, "too large"};
  Random random(HashBytes(bytes.data(), bytes.size()));
  std::vector<Datum> inputs;
  std::map<std::string, int64_t> symbols;
  for (const Value* v : g.inputs()) {
    const auto found = values.find(v->name());
    // Sometimes two inputs disagree on a symbol.
    if (random.Below(8) == 0) symbols.clear();
    const bool fits = found != values.end() && CheckDatum(found->second, v->type(), v->name()).ok();
    const auto value = fits ? std::optional(found->second)
                            : RandomDatum(RunType(v->type(), symbols, random), random);
    if (!value) return {Verdict::kExhausted, "no value for an input"};
    inputs.push_back(*value);
  }
  JudgeOptions judge;
  judge.levels = {static_cast<int>(random.Below(3))};
  judge.threads = random.Below(4) ? std::vector<int>{1} : std::vector<int>{1, 2};
  judge.seconds = 2;
  return Judge(g, inputs, judge);
}

}  // namespace infer
