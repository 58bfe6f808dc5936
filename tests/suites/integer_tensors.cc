/// integer_tensors MODEL...: runs each model on the cpu backend and prints, of every tensor of
/// integers that exists at run time, its hash, and of every f32 output its values. What has the
/// same bits on two instruction sets prints the same (tests/tools/isa_test.py). Inputs are random
/// by a fixed seed, in [0, 1).
/// integer_tensors --cut MODEL...: what steps in f32 round to integers are inputs of their own, so
/// that integer kernels read the same numbers whatever the f32 layers before them make of theirs.
#include <algorithm>
#include <iostream>

#include "lib/ir/editor.h"
#include "lib/onnx/import.h"
#include "lib/ops/registry.h"
#include "lib/support/hash.h"
#include "lib/support/random.h"
#include "lib/support/strings.h"
#include "runtime/cpu/backend.h"

namespace infer {
namespace {

Result<std::vector<Datum>> Inputs(const Program& program) {
  Random random(1);
  std::vector<Datum> inputs;
  for (const Value* v : program.inputs()) {
    Dims dims;
    for (const Dim& d : v->shape().dims()) dims.push_back(d.is_static() ? d.value() : 1);
    Tensor t(v->dtype(), dims);
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.Set(i, v->dtype() == DType::kF32 ? random.Uniform() : static_cast<double>(random.Below(9)));
    inputs.emplace_back(std::move(t));
  }
  return inputs;
}

void PrintTensor(const std::string& name, const Tensor& t) {
  std::cout << "  " << name << " " << ToString(t.type());
  if (t.dtype() == DType::kF32)
    for (int64_t i = 0; i < t.num_elements(); ++i) std::cout << " " << FormatDouble(t.At(i));
  else
    std::cout << " " << HashBytes(t.raw(), static_cast<size_t>(t.byte_size()));
  std::cout << "\n";
}

bool IsDequantized(const Value* v) {
  return v->is_constant() || (v->producer() && v->producer()->Is("DequantizeLinear"));
}

/// Whether `quantized` is made of integers without a sum: Q(DQ) or Q(Concat(DQ, DQ)), which copy or
/// rescale codes.
bool IsMadeOfIntegers(const Value& quantized) {
  const Node* const quantize = quantized.producer();
  if (!quantize || !quantize->Is("QuantizeLinear")) return false;
  const Value* const rounded = quantize->input(0);
  if (IsDequantized(rounded)) return true;
  const Node* const made_by = rounded->producer();
  return made_by && made_by->Is("Concat") && std::ranges::all_of(made_by->inputs(), IsDequantized);
}

/// Replaces integers that are rounded from f32 by inputs. What integer kernels make stays: it is an
/// output from here on, so that a layer whose only reader was in front of a cut is still computed.
void Cut(Graph& g, const Program& program) {
  GraphEditor editor(g);
  for (const StepInfo& step : program.steps()) {
    for (const std::string& name : step.outputs) {
      Value* v = g.FindValue(name);
      if (!v || !v->type().is_tensor() || v->is_output() || !v->producer() ||
          (v->dtype() != DType::kU8 && v->dtype() != DType::kI8))
        continue;
      if (step.precision != "f32" || IsMadeOfIntegers(*v)) {
        editor.MarkOutput(v);
        continue;
      }
      Value* const input = editor.AddInput(name + " cut", v->type());
      const std::vector<Use> uses = v->uses();
      for (const Use& use : uses) editor.SetOperand(*use.user, use.operand, input);
    }
  }
  editor.Sweep();
}

Status Show(const std::string& path, bool cut, const OpRegistry& ops) {
  INFER_ASSIGN(Model model, ImportModel(path, ops));
  const auto backend = MakeCpuBackend();
  INFER_ASSIGN(auto plain, backend->Compile(model.graph, {}));
  if (cut) {
    Cut(model.graph, *plain);
    INFER_ASSIGN(plain, backend->Compile(model.graph, {}));
  }
  // What a step gives to others becomes an output, too; the steps stay as they are.
  GraphEditor editor(model.graph);
  for (const StepInfo& step : plain->steps())
    for (const std::string& name : step.outputs) {
      Value* v = model.graph.FindValue(name);
      if (v && v->type().is_tensor() && !v->is_output() && v->producer() &&
          (v->dtype() == DType::kU8 || v->dtype() == DType::kI8))
        editor.MarkOutput(v);
    }
  INFER_ASSIGN(const auto program, backend->Compile(model.graph, {}));
  if (program->steps().size() != plain->steps().size())
    return Internal("other steps when every tensor is an output");
  std::cout << path.substr(path.rfind('/') + 1) << "\n";
  INFER_ASSIGN(const std::vector<Datum> inputs, Inputs(*program));
  INFER_ASSIGN(const std::vector<Datum> outputs, RunOnce(*program, inputs));
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].is_tensor()) PrintTensor(program->outputs()[i]->name(), outputs[i].tensor());
  std::map<std::string, int> kernels;
  for (const StepInfo& step : program->steps())
    if (step.precision.ends_with("s32")) ++kernels[step.kernel];
  for (const auto& [name, count] : kernels)
    std::cerr << "  " << count << " integer products on " << name << "\n";
  return {};
}

}  // namespace
}  // namespace infer

int main(int argc, char** argv) {
  const infer::OpRegistry ops = infer::AllOps();
  const bool cut = argc > 1 && std::string_view(argv[1]) == "--cut";
  for (int i = cut ? 2 : 1; i < argc; ++i)
    if (const infer::Status s = infer::Show(argv[i], cut, ops); !s.ok()) {
      std::cerr << argv[i] << ": " << s.message() << "\n";
      return 1;
    }
  return 0;
}
