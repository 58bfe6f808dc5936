#include "quant/prune/layer_timer.h"

#include "lib/ir/editor.h"
#include "lib/support/strings.h"
#include "quant/calibrate/calibrate.h"

namespace infer {

Tensor FilledTensor(const Dims& dims) {
  Tensor t(DType::kF32, dims);
  int64_t i = 0;
  for (float& x : t.mutable_data<float>()) x = 0.01f * static_cast<float>(1 + i++ % 5);
  return t;
}

Result<Graph> LayerTimer::Alone(const Node& node, const OpRegistry& ops) {
  Graph g(ops);
  GraphEditor edit(g);
  std::vector<Value*> inputs;
  for (size_t i = 0; i < node.inputs().size(); ++i) {
    const Value* v = node.input(i);
    if (!v) {
      inputs.push_back(nullptr);
    } else if (v->is_constant()) {
      inputs.push_back(edit.AddConstant(FilledTensor(v->constant()->dims()), Cat("w", i)));
    } else {
      inputs.push_back(edit.AddInput(Cat("x", i), v->type()));
    }
  }
  INFER_ASSIGN(Node* const copy, edit.AddNode(node.def(), std::move(inputs), node.attrs()));
  edit.MarkOutput(copy->output(0));
  return g;
}

Result<double> LayerTimer::Of(Graph g) {
  const uint64_t key = Fingerprint(g);
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  std::vector<Datum> inputs;
  for (const Value* v : g.inputs()) inputs.emplace_back(FilledTensor(v->shape().static_dims()));
  INFER_ASSIGN(const double us, OfRun(std::move(g), std::move(inputs)));
  known_.emplace(key, us);
  return us;
}

Result<double> LayerTimer::OfRun(Graph g, std::vector<Datum> inputs) const {
  CompileOptions compile;
  compile.threads = options_.threads;
  INFER_ASSIGN(const TappedProgram t, CompileOwnedWithTaps(std::move(g), {}, backend_, compile));
  INFER_TRY(RunInputs(*t.context, std::move(inputs), options_.stop));
  return RunMicroseconds(*t.program, *t.context, *options_.costs);
}

}  // namespace infer
