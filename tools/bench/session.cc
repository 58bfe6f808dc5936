#include "tools/bench/session.h"

#include <optional>

#include "lib/ir/eval.h"
#include "lib/support/measure.h"
#include "lib/support/strings.h"
#include "tools/common/host.h"

namespace infer::bench {
namespace {

int64_t BatchOf(const std::vector<Datum>& inputs) {
  if (inputs.empty() || !inputs[0].is_tensor() || inputs[0].tensor().rank() == 0) return 1;
  return inputs[0].tensor().dim(0);
}

}  // namespace

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
  // On reference kernels: a run on the device would warm up what is to be measured.
  INFER_ASSIGN(s.inputs,
               MakeInputs(model.graph, options.inputs, [&](const std::vector<Datum>& values) {
                 return Evaluate(model.graph, values);
               }));
  if (!s.inputs.random.empty())
    context.Note(Cat(path, ": ", s.inputs.ToString(options.inputs.seed)));
  s.model = ToJson(model, path);
  s.batch = BatchOf(s.inputs.values);
  context.Step("compile " + path);
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
