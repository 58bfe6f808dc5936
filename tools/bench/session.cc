#include "tools/bench/session.h"

#include <optional>

#include "lib/ir/eval.h"
#include "lib/ir/inference.h"
#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "tools/bench/precision.h"
#include "tools/common/host.h"

namespace infer::bench {
namespace {

int64_t BatchOf(const std::vector<Datum>& inputs) {
  if (inputs.empty() || !inputs[0].is_tensor() || inputs[0].tensor().rank() == 0) return 1;
  return inputs[0].tensor().dim(0);
}

}  // namespace

Status SetBatch(Graph& g, int64_t batch) {
  const auto refuse = [&](const std::string& why) {
    return InvalidArgument(Cat("--batch ", batch, ": ", why));
  };
  if (g.inputs().empty()) return refuse("the model has no inputs");
  const Value& first = *g.inputs()[0];
  if (!first.type().is_tensor() || !first.shape().has_rank() || first.shape().rank() == 0)
    return refuse(Cat("input '", first.name(), "' has no leading dimension"));
  const Dim& leading = first.shape()[0];
  if (leading.is_static()) {
    if (leading.value() == batch) return {};
    return refuse(Cat("the model has a fixed batch of ", leading.value()));
  }
  if (!leading.symbol().empty()) return BindSymbols(g, {{leading.symbol(), batch}});
  // Nameless: the shapes of all inputs that begin with such a dimension.
  std::map<std::string, Dims> shapes;
  for (const Value* v : g.inputs()) {
    if (!v->type().is_tensor() || !v->shape().has_rank() || v->shape().rank() == 0) continue;
    if (!v->shape()[0].is_unknown()) continue;
    Dims dims = {batch};
    for (int axis = 1; axis < v->shape().rank(); ++axis) {
      if (!v->shape()[axis].is_static())
        return refuse(Cat("input '", v->name(), "' is ", ToString(v->type()),
                          ": say all of its extents with --shape"));
      dims.push_back(v->shape()[axis].value());
    }
    shapes[v->name()] = std::move(dims);
  }
  return SpecializeInputs(g, shapes);
}

void SessionOptions::Declare(Options& options) {
  model.Declare(options);
  device.Declare(options);
  inputs.Declare(options);
}

Result<Session> OpenSession(Context& context, const std::string& path,
                            const SessionOptions& options) {
  Session s;
  s.path = path;
  context.Step("load " + path);
  const auto load_start = std::chrono::steady_clock::now();
  INFER_ASSIGN(Model model, LoadModel(context, path, options.model));
  s.load_ms = MsSince(load_start);
  const auto convert_start = std::chrono::steady_clock::now();
  if (options.batch > 0) INFER_TRY(SetBatch(model.graph, options.batch));
  s.model = ToJson(model, path);
  if (options.precision != kAsIs) {
    context.Step("convert " + path);
    INFER_ASSIGN(auto backend, MakeBackend(options.device.device));
    INFER_TRY(ConvertPrecision(model.graph, options.precision, *backend, context.stop()));
    s.convert_ms = MsSince(convert_start);
  }
  const auto inputs_start = std::chrono::steady_clock::now();
  // On reference kernels: a run on the device would warm up what is to be measured.
  INFER_ASSIGN(s.inputs,
               MakeInputs(model.graph, options.inputs, [&](const std::vector<Datum>& values) {
                 return Evaluate(model.graph, values);
               }));
  if (!s.inputs.random.empty())
    context.Note(Cat(path, ": ", s.inputs.ToString(options.inputs.seed)));
  s.inputs_ms = MsSince(inputs_start);
  s.batch = BatchOf(s.inputs.values);
  context.Step("compile " + path);
  if (options.observe) options.observe(model.graph);
  const auto compile_start = std::chrono::steady_clock::now();
  INFER_ASSIGN(s.program, CompileOwnedFor(std::move(model.graph), options.device));
  INFER_ASSIGN(s.run, s.program->NewContext());
  s.compile_ms = MsSince(compile_start);
  s.compiled_resident_bytes = ResidentBytes();
  for (size_t i = 0; i < s.inputs.values.size(); ++i)
    INFER_TRY(s.run->BindInput(i, s.inputs.values[i]));
  return s;
}

}  // namespace infer::bench
